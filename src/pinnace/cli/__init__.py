"""The command line: flags and environment in, text out. (docs/spec: CLI)

A room for each noun; `common` has what several nouns have alike, `backend` finds objects, `output` prints
them. `main` is the entry and imports nothing, `program` has the tree of commands. Not here: any work on a
backup or restore, which `pinnace.operations` does.
"""
