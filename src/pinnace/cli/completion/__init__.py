"""Completion in shells: what may stand where a command line is being typed.

`line` reads an unfinished command line, `candidates` says what may come next, `names` asks a server or a
location for names, `answering` answers a shell, and `scripts` has what the shells run. Not here: what the
value of a flag is (`usage`), which the help says too.
"""
