"""`plugin`: add, remove, get. (docs/spec: CLI 8.1)

Plugins of a server are init containers of its Deployment. Not here: loading and running them
(`pinnace.plugins`).
"""
