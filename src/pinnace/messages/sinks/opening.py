"""Makes the sink of its settings."""

from pinnace.messages.settings import (
    AlertmanagerSettings,
    AppriseSettings,
    PingSettings,
    SmtpSettings,
    Target,
)
from pinnace.messages.sinks.alertmanager import AlertmanagerSink
from pinnace.messages.sinks.apprise_notices import AppriseSink
from pinnace.messages.sinks.interface import MessageSink
from pinnace.messages.sinks.ping import PingSink
from pinnace.messages.sinks.smtp import SmtpSink
from pinnace.messages.sinks.webhook import WebhookSink
from pinnace.store_access.addresses import Addresses


def open_sink(target: Target, addresses: Addresses | None = None) -> MessageSink:
    """The sink of a target.

    Args:
        addresses: where its connections may go; None is anywhere. A target with Apprise has no such limit.
    """
    match target:
        case PingSettings():
            return PingSink(settings=target, addresses=addresses)
        case AlertmanagerSettings():
            return AlertmanagerSink(settings=target, addresses=addresses)
        case SmtpSettings():
            return SmtpSink(settings=target, addresses=addresses)
        case AppriseSettings():
            return AppriseSink(settings=target)
        case _:
            return WebhookSink(settings=target, addresses=addresses)
