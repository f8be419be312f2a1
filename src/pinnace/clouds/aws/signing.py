"""AWS Signature Version 4 of requests: pure.

obstore signs what it sends; this is for the requests that we make ourselves (see storage/s3/requests.py).
"""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, urlsplit

from pinnace.clouds.aws.credentials import Credentials

_UNRESERVED = "-_.~"
EMPTY_HASH = hashlib.sha256(b"").hexdigest()


def quote_key(key: str) -> str:
    """A key as it stands in a URL's path, and in what is signed."""
    return quote(key, safe=_UNRESERVED + "/")


def quote_query(params: Mapping[str, str]) -> str:
    """A query in the canonical form, which is also sent so that both are equal."""
    return "&".join(
        f"{quote(name, safe=_UNRESERVED)}={quote(params[name], safe=_UNRESERVED)}" for name in sorted(params)
    )


def signed_headers(
    method: str,
    url: str,
    *,
    region: str,
    credentials: Credentials,
    now: datetime,
    body_hash: str = EMPTY_HASH,
    headers: Mapping[str, str] | None = None,
    service: str = "s3",
) -> dict[str, str]:
    """The headers that authorize a request, all of which are signed.

    Args:
        url: complete, its path and query quoted by the functions above.
        now: the time of the signature, in UTC; services allow a quarter of an hour of difference.
        body_hash: SHA-256 of the body in hexadecimal.
        headers: further ones to send, with lower-case names.
        service: as its host is called.
    """
    parts = urlsplit(url)
    timestamp = now.strftime("%Y%m%dT%H%M%SZ")
    unsorted = {
        **(headers or {}),
        "host": parts.netloc,
        "x-amz-content-sha256": body_hash,
        "x-amz-date": timestamp,
    }
    if credentials.session_token:
        unsorted["x-amz-security-token"] = credentials.session_token
    signed = dict(sorted(unsorted.items()))
    names = ";".join(signed)
    lines = "".join(f"{name}:{value}\n" for name, value in signed.items())
    request = "\n".join([method, parts.path or "/", parts.query, lines, names, body_hash])
    scope = f"{timestamp[:8]}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    signature = _hmac(
        _signing_key(credentials.secret_access_key, timestamp[:8], region, service),
        f"AWS4-HMAC-SHA256\n{timestamp}\n{scope}\n{digest}",
    ).hex()
    signed["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key_id}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    return signed


def _signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
