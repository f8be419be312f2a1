"""The disks of three clouds: snapshotters of EBS volumes, GCE persistent disks and Azure managed disks.

They implement the protocol of `volumes.snapshotters` and send their own requests to the clouds, as the object
stores do. One is created for each operation; only the module of the cloud in use is imported.
"""

from typing import Final

from pinnace.storage.azure import AZURE_PROVIDER
from pinnace.storage.gcs import GCP_PROVIDER
from pinnace.storage.providers import qualified_provider
from pinnace.storage.s3 import AWS_PROVIDER
from pinnace.volumes.native.snapshotters import FindSnapshotter, Snapshotter

BUILT_IN_SNAPSHOTTERS: Final = (AWS_PROVIDER, AZURE_PROVIDER, GCP_PROVIDER)
"""The providers whose snapshotters are here, sorted; for lists of plugins."""


def with_disks(others: FindSnapshotter) -> FindSnapshotter:
    """Returns a function that finds the snapshotters of the three clouds here, and all others by `others`."""

    def find(provider: str) -> Snapshotter:
        name = qualified_provider(provider)
        if name == AWS_PROVIDER:
            from pinnace.volumes.disks.aws import EBSSnapshotter

            return EBSSnapshotter()
        if name == GCP_PROVIDER:
            from pinnace.volumes.disks.gcp import GCESnapshotter

            return GCESnapshotter()
        if name == AZURE_PROVIDER:
            from pinnace.volumes.disks.azure import AzureDiskSnapshotter

            return AzureDiskSnapshotter()
        return others(provider)

    return find
