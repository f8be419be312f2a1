"""restic as a child process: the addresses of repositories, its command lines and its output.

It does not know the custom resources for pod volumes; server and node agent use it alike.
"""
