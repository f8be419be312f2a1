"""`restore`: create, get, describe, logs, delete. (docs/spec: CLI 5)

`commands` declares the commands, `options` has their options; `create` asks a server, `local` restores
without one. Not here: what all nouns share (`common`), and how a restore is made (`pinnace.operations`).
"""
