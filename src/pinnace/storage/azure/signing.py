"""Azure's signatures of requests and of URLs that read one blob: pure. (docs/spec: STO 14.3)"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import format_datetime
from urllib.parse import parse_qsl, urlsplit

from pinnace.clouds.aws.signing import quote_query
from pinnace.storage.errors import StoreConfigError

API_VERSION = "2021-08-06"
_SIGNED_HEADERS = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageAccount:
    """A storage account; `key` is in base64."""

    name: str
    key: str = field(repr=False)


def shared_key_headers(
    method: str,
    url: str,
    account: StorageAccount,
    *,
    now: datetime,
    size_bytes: int,
    headers: Mapping[str, str],
) -> dict[str, str]:
    """The headers that authorize a request.

    Args:
        url: complete and quoted.
        size_bytes: of the body.
        headers: further ones to send, with lower-case names.

    Raises:
        StoreConfigError: the key is not base64.
    """
    signed = with_version(headers, now)
    values = {**signed, "content-length": str(size_bytes) if size_bytes else ""}
    parts = urlsplit(url)
    extra = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed) if name.startswith("x-ms-"))
    query = "".join(
        f"\n{name.lower()}:{value}" for name, value in sorted(parse_qsl(parts.query, keep_blank_values=True))
    )
    standard = "\n".join(values.get(name, "") for name in _SIGNED_HEADERS)
    text = f"{method}\n{standard}\n{extra}/{account.name}{parts.path}{query}"
    signed["authorization"] = f"SharedKey {account.name}:{_signature(account.key, text)}"
    return signed


def with_version(headers: Mapping[str, str], now: datetime) -> dict[str, str]:
    """The headers of any request: the version of the interface and the time."""
    return {**headers, "x-ms-version": API_VERSION, "x-ms-date": format_datetime(now, usegmt=True)}


def read_sas(
    account: StorageAccount, container: str, blob: str, *, now: datetime, ttl: timedelta, https: bool
) -> str:
    """The query of a URL that reads one blob until `ttl` has passed. Raises StoreConfigError."""
    expiry = (now + ttl).strftime("%Y-%m-%dT%H:%M:%SZ")
    protocol = "https" if https else "https,http"
    fields = ["r", "", expiry, f"/blob/{account.name}/{container}/{blob}", "", "", protocol, API_VERSION, "b"]
    text = "\n".join([*fields, *[""] * 7])  # snapshot, encryption scope and five headers of the answer
    return quote_query(
        {
            "sp": "r",
            "se": expiry,
            "spr": protocol,
            "sv": API_VERSION,
            "sr": "b",
            "sig": _signature(account.key, text),
        }
    )


def _signature(key: str, text: str) -> str:
    try:
        secret = base64.b64decode(key, validate=True)
    except ValueError:
        raise StoreConfigError("the key of the Azure storage account is not in base64") from None
    return base64.b64encode(hmac.new(secret, text.encode(), hashlib.sha256).digest()).decode("ascii")
