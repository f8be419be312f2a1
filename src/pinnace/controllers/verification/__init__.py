"""Verifications by the server: `scheduled` by a Schedule's clock, `requested` by an annotation of a Backup.

`verifier` does the work of both.
"""
