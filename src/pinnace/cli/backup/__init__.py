"""`backup`: create, get, describe, logs, download, delete. (docs/spec: CLI 4)"""
