"""One HTTP request of a sink: no redirection is followed, and of an answer only a little is read."""

import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from pinnace.messages.errors import SinkError
from pinnace.store_access.addresses import Addresses, AddressRefused
from pinnace.store_access.errors import StorageError
from pinnace.store_access.requests import new_session, reason_of, tls_context

_READ_BYTES: Final = 16 << 10
REFUSED: Final = (
    "is in a private or otherwise internal network: an administrator can allow it by "
    "tenants.allowedEndpoints in the messages of the server"
)


async def request(
    method: str,
    url: str,
    *,
    ca_cert: str = "",
    addresses: Addresses | None = None,
    headers: Mapping[str, str] | None = None,
    data: bytes | None = None,
) -> None:
    """Send a request, and return if the answer is one of success.

    Args:
        addresses: where connections may go; None is anywhere.

    Raises:
        SinkError: it is not, or there is none. The text has scheme and host of the URL: a path can be a key.
    """
    origin = _origin(url)
    try:
        tls: ssl.SSLContext | bool = tls_context(ca_cert)
        async with (
            new_session(tls, addresses=addresses, traces_paths=False) as session,
            session.request(
                method,
                URL(url, encoded=True),
                headers=headers,
                data=data,
                allow_redirects=False,
            ) as answer,
        ):
            await answer.content.read(_READ_BYTES)
            status = answer.status
            answer.close()  # the rest, of whatever length, is not read
    except AddressRefused as error:
        raise SinkError(f"{origin} {REFUSED}") from error
    except StorageError as error:
        raise SinkError(str(error)) from error
    except ValueError as error:
        raise SinkError(f"the URL at {origin} is not valid") from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise SinkError(f"cannot reach {origin}: {reason_of(error)}") from error
    if 300 <= status < 400:
        raise SinkError(f"{origin} answered with a redirection (status {status}), and none is followed")
    if status >= 400:
        raise SinkError(f"{origin} answered with status {status}")


def _origin(url: str) -> str:
    """Scheme, host and port; without a user name, which could be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
