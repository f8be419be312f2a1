"""`restore`: create, get, describe, logs, delete. (docs/spec: CLI 5)

`commands` declares the commands, `options` has what they are given; `create` asks a server, `local` restores
without one. Not here: what all nouns have alike (`common`), and how a restore is made (`pinnace.operations`).
"""
