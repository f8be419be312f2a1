"""The self-service kinds of `oadp.openshift.io/v1alpha1`: what a tenant may request. (docs/spec: NAC 4)"""

from typing import Final

from pinnace.api import TENANT_GROUP, TENANT_VERSION

API_VERSION: Final = f"{TENANT_GROUP}/{TENANT_VERSION}"
