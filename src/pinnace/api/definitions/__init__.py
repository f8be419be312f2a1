"""The custom resource definitions of our kinds, derived from their structs, and merged over those of Velero.

Not here: the structs (`api.velero`, `api.nonadmin`), and applying them (`pinnace.installing`).
"""
