"""Opened stores with short timeouts."""

from collections.abc import Callable

from pinnace.storage.s3.store import S3Store
from pinnace.store_access.requests import RequestPolicy

HASTY = RequestPolicy(attempts=3, base_seconds=0.01, silence_seconds=1.0, patience_seconds=1.6)

OpenStore = Callable[..., S3Store]
