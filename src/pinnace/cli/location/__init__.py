"""`backup-location` and `snapshot-location`. (docs/spec: CLI 7)"""
