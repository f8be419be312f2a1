"""`alertmanager`: alerts of its API v2, which end by themselves when nobody refreshes them."""

import json
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from pinnace.messages.problem import Notification, Signal, rfc3339
from pinnace.messages.settings import AlertmanagerSettings
from pinnace.messages.sinks.http import request
from pinnace.store_access.addresses import Addresses

REFRESH_SECONDS: Final = 300.0
_LASTS_SECONDS: Final = 4 * REFRESH_SECONDS
_ONCE_SECONDS: Final = 24 * 3600.0
"""How long an alert about a single run lasts, whose failure nothing ends."""
_TEST_SECONDS: Final = 60.0
_CRITICAL: Final = frozenset({"failure", "missed-run", "location-unavailable", "verification-failed"})


class AlertmanagerSink(Struct, frozen=True, kw_only=True):
    """Posts all alerts that are due in one request."""

    settings: AlertmanagerSettings
    addresses: Addresses | None = None
    batch: int = 500
    takes_runs: bool = False
    refresh_seconds: float | None = REFRESH_SECONDS

    async def send(self, messages: Sequence[Notification]) -> None:
        """See Sink."""
        await request(
            "POST",
            f"{self.settings.url}/api/v2/alerts",
            ca_cert=self.settings.ca_cert,
            addresses=self.addresses,
            headers={**self.settings.headers, "Content-Type": "application/json"},
            data=json.dumps([alert_of(each, dict(self.settings.labels)) for each in messages]).encode(),
        )


def alert_of(message: Notification, labels: dict[str, str]) -> dict[str, Any]:
    """The alert of a message. Its labels depend on object and cause alone, as its end has them too. Pure."""
    cause = str(message.cause or message.signal)
    name = "".join(part.capitalize() for part in cause.split("-"))
    match message.signal:
        case Signal.RECOVERY:
            end = message.at
        case Signal.TEST:
            end = message.at + _TEST_SECONDS
        case _:
            end = message.at + _LASTS_SECONDS if message.passes else message.since + _ONCE_SECONDS
    own = {
        "alertname": f"Pinnace{name}",
        "cluster": message.cluster,
        "kind": message.topic.kind,
        "namespace": message.topic.namespace,
        "name": message.topic.name,
        "severity": "critical" if cause in _CRITICAL else "warning",
    }
    return {
        "labels": {**labels, **{key: value for key, value in own.items() if value}},
        "annotations": {"summary": message.title, "description": message.body},
        "startsAt": rfc3339(min(message.since, end)),
        "endsAt": rfc3339(end),
    }
