"""The type of the `connect` fixture."""

from typing import TYPE_CHECKING, Protocol

from hack.cluster.control_plane import ControlPlane
from hack.cluster.stores.s3 import S3Server

if TYPE_CHECKING:
    # Loaded by the fixtures that need it: most tests are of pure code, and quicker without.
    from hack.cluster.proxy import FaultProxy
    from hack.cluster.stores.azure_blob import AzureBlobServer
    from hack.cluster.stores.gcs import GCSServer
    from pinnace.kube.client import KubeClient

    Server = ControlPlane | S3Server | GCSServer | AzureBlobServer


class Connect(Protocol):
    """The `connect` fixture."""

    async def __call__(self, cluster: ControlPlane, *, via: "FaultProxy | None" = None) -> "KubeClient": ...
