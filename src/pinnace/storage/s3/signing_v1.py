"""Signed URLs of `signatureVersion: "1"`, for old S3-compatible stores: pure. (docs/spec: STO 14.1)

Velero's AWS plugin writes the duration into `Expires` where AWS's version 2 scheme has a point in time. The
stores that this setting is for accept it; that is the whole reason to offer it, so it is kept as it is.
"""

import base64
import hashlib
import hmac
from datetime import timedelta
from urllib.parse import urlencode, urlsplit

from pinnace.clouds.aws.credentials import AccessKey


def signed_url_v1(object_url: str, *, credentials: AccessKey, ttl: timedelta) -> str:
    """Sign a GET of an object.

    Args:
        object_url: the URL of the object, with its path quoted and without a query.
    """
    expires = str(int(ttl.total_seconds()))
    text = f"GET\n\n\n{expires}\n{urlsplit(object_url).path}"
    digest = hmac.new(credentials.secret_access_key.encode(), text.encode(), hashlib.sha1).digest()
    query = {
        "AWSAccessKeyId": credentials.access_key_id,
        "Expires": expires,
        "Signature": base64.b64encode(digest).decode(),
    }
    if credentials.session_token:
        query["SecurityToken"] = credentials.session_token
    return f"{object_url}?{urlencode(query)}"
