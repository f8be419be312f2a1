"""AWS Signature Version 4 of requests and of URLs: pure."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import quote, urlsplit

from pinnace.clouds.aws.credentials import AccessKey

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Signer:
    """What all signatures of one service have in common; `service` is its name in host names."""

    region: str
    credentials: AccessKey
    service: str = "s3"


def signed_headers(
    method: str,
    url: str,
    signer: Signer,
    *,
    now: datetime,
    body_hash: str = EMPTY_HASH,
    headers: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The headers that authorize a request. All are signed.

    Args:
        url: complete, its path and query quoted by the functions above.
        now: the time of the signature, in UTC; services allow a quarter of an hour of difference.
        body_hash: SHA-256 of the body in hexadecimal.
        headers: further ones to send, with lower-case names.
    """
    credentials, parts = signer.credentials, urlsplit(url)
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
    scope = f"{timestamp[:8]}/{signer.region}/{signer.service}/aws4_request"
    signature = _signature(request, credentials, timestamp, scope)
    signed["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key_id}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}"
    )
    return signed


def signed_url_v4(url: str, *, region: str, credentials: AccessKey, now: datetime, ttl: timedelta) -> str:
    """A URL that reads an object of S3 without credentials until `ttl` has passed.

    Args:
        url: of the object, quoted by quote_key() and without a query.
        now: the time of the signature, in UTC.
    """
    parts = urlsplit(url)
    timestamp = now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{timestamp[:8]}/{region}/s3/aws4_request"
    params = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{credentials.access_key_id}/{scope}",
        "X-Amz-Date": timestamp,
        "X-Amz-Expires": str(int(ttl.total_seconds())),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.session_token:
        params["X-Amz-Security-Token"] = credentials.session_token
    query = quote_query(params)
    request = "\n".join(["GET", parts.path, query, f"host:{parts.netloc}\n", "host", "UNSIGNED-PAYLOAD"])
    return f"{url}?{query}&X-Amz-Signature={_signature(request, credentials, timestamp, scope)}"


def _signature(request: str, credentials: AccessKey, timestamp: str, scope: str) -> str:
    """The signature of a request in canonical form. `scope` is `<date>/<region>/<service>/aws4_request`."""
    _, region, service, _ = scope.split("/")
    digest = hashlib.sha256(request.encode()).hexdigest()
    key = _signing_key(credentials.secret_access_key, timestamp[:8], region, service)
    return _hmac(key, f"AWS4-HMAC-SHA256\n{timestamp}\n{scope}\n{digest}").hex()


def _signing_key(secret: str, date: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        key = _hmac(key, part)
    return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
