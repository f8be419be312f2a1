"""`backup-location` and `snapshot-location`: create, get, set, delete. (docs/spec: CLI 7)

Not here: what all nouns share (`common`), and reading a location directly (`backend`).
"""
