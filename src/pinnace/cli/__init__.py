"""The command line: flags and environment in, text out. (docs/spec: CLI)

Each noun has a folder; `common` has what several nouns share, `backend` finds objects, `output` prints them.
`main` is the entry point and imports nothing, `program` has the tree of commands. Not here: any work on a
backup or restore, which `pinnace.operations` does.
"""
