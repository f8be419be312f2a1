"""`restore`: create, get, describe, logs, delete. (docs/spec: CLI 5)"""
