"""The custom resources of `velero.io` as typed structs, and the pure rules that belong to them.

Selection, label names, durations and CRD manifests live here too. Nothing in this package does I/O, and it
imports nothing else of Pinnace, so that every other package can stand on it. (docs/spec: API)
"""

from typing import Final

GROUP: Final = "velero.io"
VERSION: Final = "v1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
ALPHA_VERSION: Final = "v2alpha1"
ALPHA_API_VERSION: Final = f"{GROUP}/{ALPHA_VERSION}"
TENANT_GROUP: Final = "oadp.openshift.io"
"""The group of the self-service kinds, which tenants may create. (docs/spec: NAC 4)"""
TENANT_VERSION: Final = "v1alpha1"
