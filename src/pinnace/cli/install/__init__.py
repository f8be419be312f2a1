"""`install` and `uninstall`. (docs/spec: CLI 11)

Most of it is pure: the resources, rights and workloads that an installation consists of.
"""
