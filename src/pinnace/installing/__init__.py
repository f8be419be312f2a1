"""The installer of the server: what is created in a cluster, how it is sent, checked and removed.

`resources`, `access` and `workloads` make the objects of an installation from its `options`; they are pure.
`sending` creates or merges them, `wait` waits until they run, `removal` uninstalls. Not here: flags and
output (`pinnace.cli.install`), the definitions of custom resources (`pinnace.api.definitions.crds`) and the
objects of self-service (`pinnace.nonadmin.manifests`).
"""
