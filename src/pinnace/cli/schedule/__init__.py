"""`schedule`: create, get, describe, delete. (docs/spec: CLI 6)"""
