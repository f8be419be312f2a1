"""Opened stores with short timeouts."""

from collections.abc import Callable

from pinnace.http.requests import RetryPolicy
from pinnace.storage.s3.store import S3Store

HASTY = RetryPolicy(attempts=3, delay_seconds=0.01, silence_seconds=1.0, retry_seconds=1.6)

OpenStore = Callable[..., S3Store]
