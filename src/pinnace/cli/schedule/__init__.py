"""`schedule`: create, get, describe, run, pause, unpause, delete. (docs/spec: CLI 6, BEY 7.1)

The flags of `schedule create` are those of `backup create`. Not here: what all nouns share (`common`), and
when a backup is due (`pinnace.controllers`).
"""
