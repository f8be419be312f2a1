"""Completion in shells: the words that are offered at the cursor of a command line.

`line` reads an unfinished command line, `candidates` says what may come next, `names` asks a server or a
location for names, `answering` answers a shell, and `scripts` has what the shells run. Not here: the
possible values of a flag (`usage`), which the help shows too.
"""
