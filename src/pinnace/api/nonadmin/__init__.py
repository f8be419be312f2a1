"""The self-service kinds of `oadp.openshift.io/v1alpha1`: what a tenant may request. (docs/spec: NAC 4)"""

from typing import Final

GROUP: Final = "oadp.openshift.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
