"""`ping`: one request when a backup begins, succeeds or fails, in the form of healthchecks.

A service that hears nothing in time gives the alarm, also when cluster and server are gone.
"""

from collections.abc import Sequence
from urllib.parse import quote, urlsplit, urlunsplit

from msgspec import Struct

from pinnace.messages.problem import Notification, Signal
from pinnace.messages.settings import PingSettings
from pinnace.messages.sinks.http import request
from pinnace.store_access.addresses import Addresses

_SUFFIXES = {Signal.START: "/start", Signal.FAIL: "/fail"}


class PingSink(Struct, frozen=True, kw_only=True):
    """Sends `URL/start`, `URL` and `URL/fail`; a test is `URL`."""

    settings: PingSettings
    addresses: Addresses | None = None
    batch: int = 1
    takes_runs: bool = True
    refresh_seconds: float | None = None

    async def send(self, messages: Sequence[Notification]) -> None:
        """See Sink."""
        for message in messages:
            url = self.settings.url.replace("{schedule}", quote(message.topic.schedule or "none", safe=""))
            parts = urlsplit(url)
            path = parts.path.rstrip("/") + _SUFFIXES.get(message.signal, "")
            await request(
                "POST",
                urlunsplit(parts._replace(path=path or "/")),
                ca_cert=self.settings.ca_cert,
                addresses=self.addresses,
                data=message.title.encode(),
            )
