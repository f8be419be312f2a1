"""URLs of GCS that are signed with the key of a service account, version 4: pure. (docs/spec: STO 14.2)"""

import hashlib
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from pinnace.clouds.aws.signing import quote_key, quote_query

LONGEST = timedelta(days=7)
"""The service refuses URLs that are valid for longer."""


async def signed_url_google(
    endpoint: str,
    name: str,
    *,
    account: str,
    sign: Callable[[bytes], Awaitable[bytes]],
    now: datetime,
    ttl: timedelta,
) -> str:
    """A URL to read an object with.

    Args:
        name: of the object: its bucket, a slash, its key.
        account: the service account's mail address.
        sign: signs with its key, RSA and SHA-256.
    """
    path = f"/{quote_key(name)}"
    timestamp = now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{timestamp[:8]}/auto/storage/goog4_request"
    query = quote_query(
        {
            "X-Goog-Algorithm": "GOOG4-RSA-SHA256",
            "X-Goog-Credential": f"{account}/{scope}",
            "X-Goog-Date": timestamp,
            "X-Goog-Expires": str(int(min(ttl, LONGEST).total_seconds())),
            "X-Goog-SignedHeaders": "host",
        }
    )
    host = urlsplit(endpoint).netloc
    request = f"GET\n{path}\n{query}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    digest = hashlib.sha256(request.encode()).hexdigest()
    signature = await sign(f"GOOG4-RSA-SHA256\n{timestamp}\n{scope}\n{digest}".encode())
    return f"{endpoint}{path}?{query}&X-Goog-Signature={signature.hex()}"
