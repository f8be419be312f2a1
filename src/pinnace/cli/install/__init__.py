"""`install` and `uninstall`. (docs/spec: CLI 11)

Most of it is pure: `checks` refuses flags, `resources`, `access` and `workloads` make the objects of an
installation; `run`, `apply`, `wait` and `uninstall` talk to the cluster. Not here: the definitions of custom
resources (`pinnace.api.definitions.crds`) and the objects of self-service (`pinnace.nonadmin.manifests`).
"""
