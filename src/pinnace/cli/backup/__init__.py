"""`backup`: create, get, describe, logs, download, delete. (docs/spec: CLI 4)

`commands` declares the commands, `options` has what they are given; each other module does one of them,
`local` and `deletion` without a server. Not here: the commands that all nouns share, such as get (`common`),
and how a backup is made (`pinnace.operations`).
"""
