"""Stores and clusters that are reached through a proxy that fails on request."""

from collections.abc import Callable
from typing import Protocol

from hack.cluster.pki import KeyPair
from hack.cluster.proxy import FaultProxy
from pinnace.kube.client import KubeClient
from pinnace.storage.backup_store import BackupStore
from pinnace.store_access.requests import RequestPolicy

QUICK_STORE = RequestPolicy(attempts=3, base_seconds=0.01, request_seconds=30.0, upload_seconds=30.0)
IMPATIENT_STORE = RequestPolicy(attempts=2, base_seconds=0.01, request_seconds=2.0, upload_seconds=2.0)
"""For stores that stall."""


class Reach(Protocol):
    """The `reach` fixture."""

    async def __call__(
        self,
        via: FaultProxy | None = None,
        *,
        user: KeyPair | None = None,
        kind: type[KubeClient] = KubeClient,
        patience_seconds: float = ...,
        call_seconds: float = ...,
    ) -> KubeClient: ...


OpenBucket = Callable[..., BackupStore]
