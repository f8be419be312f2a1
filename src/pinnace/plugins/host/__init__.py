"""Running plugins that are programs of their own, compiled ones for Velero included. (docs/spec: PLG 2-10)

`directory` finds them, `process` runs one, `supervisor` keeps it alive, and the proxies make it look like a
plugin of this process. Only here and in `guest` gRPC is loaded.
"""
