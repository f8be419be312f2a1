"""Wraps the keys of backups by key management services: AWS, Google Cloud, Azure, Vault. (ADR 126)

One signed request for each key, over the credentials of `clouds`. Not here: what is encrypted, and where
wrapped keys are kept (storage).
"""
