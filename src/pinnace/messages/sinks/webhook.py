"""`webhook`: CloudEvents 1.0 in the structured JSON format."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from pinnace.messages.problem import Notification, rfc3339
from pinnace.messages.settings import WebhookSettings
from pinnace.messages.sinks.http import request
from pinnace.store_access.addresses import Addresses


class WebhookSink(Struct, frozen=True, kw_only=True):
    """Posts one event for each message."""

    settings: WebhookSettings
    addresses: Addresses | None = None
    batch: int = 1
    takes_runs: bool = False
    refresh_seconds: float | None = None

    async def send(self, messages: Sequence[Notification]) -> None:
        """See Sink."""
        for message in messages:
            await request(
                "POST",
                self.settings.url,
                ca_cert=self.settings.ca_cert,
                addresses=self.addresses,
                headers={**self.settings.headers, "Content-Type": "application/cloudevents+json"},
                data=json.dumps(event_of(message)).encode(),
            )


def event_of(message: Notification) -> dict[str, Any]:
    """The CloudEvent of a message. Pure."""
    topic = message.topic
    kind = message.signal if message.cause is None else f"{message.cause}.{message.signal}"
    return {
        "specversion": "1.0",
        "id": message.id,
        "source": f"/pinnace/{quote(message.cluster, safe='')}",
        "type": f"io.pinnace.{kind}",
        "time": rfc3339(message.at),
        "subject": str(topic),
        "datacontenttype": "application/json",
        "data": {
            "cluster": message.cluster,
            "signal": message.signal,
            "cause": message.cause,
            "kind": topic.kind,
            "namespace": topic.namespace,
            "name": topic.name,
            "schedule": topic.schedule,
            "run": message.occasion,
            "since": rfc3339(message.since),
            "text": message.text,
        },
    }
