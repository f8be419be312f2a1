"""The region of an AWS bucket, for the identifier of a repository in it. (docs/spec: STO 15)"""

import asyncio
import logging

from pinnace.storage.errors import StorageError

log = logging.getLogger(__name__)

REGION_SECONDS = 15.0


async def find_region(bucket: str) -> str:
    """The region, asked of AWS without credentials; empty if it is not known, which the identifier allows."""
    # Loaded here: only a bucket of AWS itself needs it.
    from pinnace.storage.s3.requests import find_bucket_region
    from pinnace.store_access.requests import RequestPolicy, new_session, tls_context

    policy = RequestPolicy(attempts=2, request_seconds=REGION_SECONDS / 3)
    try:
        async with asyncio.timeout(REGION_SECONDS), new_session(tls_context("", insecure=False)) as session:
            return await find_bucket_region(bucket, session, policy=policy)
    except (StorageError, TimeoutError) as error:
        log.debug("The region of a bucket is not known", extra={"fields": {"bucket": bucket, "error": error}})
        return ""
