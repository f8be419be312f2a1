"""`plugin`: add, remove, get. (docs/spec: CLI 8.1)"""
