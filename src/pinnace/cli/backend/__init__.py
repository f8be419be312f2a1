"""Where commands find and change objects: a server's custom resources, or a location read directly.

`interface` is what both have in common; reading, deletion and waiting work on it for all kinds alike.
"""
