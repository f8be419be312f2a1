"""Where commands find and change objects: custom resources of a server, or the files of a location.

`interface` says what a command may ask, `open` chooses, `server` and `location` answer; `wait` follows a
run of a server to its end, and `lease` says when no server is there to do it. Not here: what a command does
with the objects (`common` and the rooms of the nouns), how they print (`output`).
"""
