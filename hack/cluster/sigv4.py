"""AWS Signature Version 4 for requests without a body: enough to make a bucket, which obstore cannot.

Written after Amazon's description of the algorithm ("Create a signed AWS API request"), not a client.
"""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
ALGORITHM = "AWS4-HMAC-SHA256"
SIGNED_HEADERS = "host;x-amz-content-sha256;x-amz-date"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """An access key and its secret."""

    access_key: str
    secret_key: str


def signed_headers(
    method: str, host: str, path: str, *, credentials: Credentials, region: str, now: datetime
) -> dict[str, str]:
    """Return the headers that authenticate a request to S3 that has no query and no body.

    Args:
        host: with the port, as the Host header will say it.
        path: not yet percent-encoded.
        now: the time of the request, in UTC.
    """
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{region}/s3/aws4_request"
    canonical = "\n".join(
        [
            method,
            quote(path),
            "",  # no query
            f"host:{host}",
            f"x-amz-content-sha256:{EMPTY_SHA256}",
            f"x-amz-date:{stamp}",
            "",
            SIGNED_HEADERS,
            EMPTY_SHA256,
        ]
    )
    to_sign = "\n".join([ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{credentials.secret_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    return {
        "Host": host,
        "x-amz-date": stamp,
        "x-amz-content-sha256": EMPTY_SHA256,
        "Authorization": f"{ALGORITHM} Credential={credentials.access_key}/{scope}, "
        f"SignedHeaders={SIGNED_HEADERS}, Signature={signature}",
    }
