"""The kinds of `velero.io` as structs, one module a kind, with the records that go with them.

Not here: how structs are read and written (`api.codec`), their definitions for an API server
(`api.definitions`), and the kinds of self-service (`api.nonadmin`).
"""
