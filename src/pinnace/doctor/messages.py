"""Checks messages: their settings, the sinks that schedules name, and whether services take any. (ADR 129)"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.values.counts import counted
from pinnace.doctor.findings import Finding, ok, problem, warning
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS, SECRETS
from pinnace.messages.errors import MessageSettingsError
from pinnace.messages.ledger import LEDGERS, Ledger
from pinnace.messages.settings import document_of, parse_messages
from pinnace.notices.codes import Code

CHECK: Final = "messages"
_SILENCE: Final = "none"


async def read_messages(client: KubeClient, namespace: str) -> list[JSONObject]:
    """The Secrets with settings of messages. Raises KubeError."""
    return await client.list_all(SECRETS, namespace, label_selector=f"{labels.MESSAGES}=true")


async def read_ledgers(client: KubeClient, namespace: str) -> Mapping[str, str]:
    """What the server noted of its sinks, by their names; nothing before it had any. Raises KubeError."""
    try:
        stored = await client.get(CONFIGMAPS, f"{LEDGERS}-{namespace}", namespace)
    except NotFound:
        return {}
    return mapping(stored, "data")


def judge(
    secrets: Sequence[JSONObject],
    ledgers: Mapping[str, str],
    schedules: Sequence[JSONObject],
) -> list[Finding]:
    """The findings about messages; none where nobody has asked for any. Pure.

    Each Secret that cannot be read, each sink that takes no messages, and each that is named and not there
    has one.

    Args:
        ledgers: as `read_ledgers` gives them.
        schedules: those of the server.
    """
    findings, sinks = [], dict[str, str]()
    for secret in secrets:
        name = text(secret, "metadata", "name")
        try:
            sinks |= {sink.name: name for sink in parse_messages(document_of(secret)).sinks}
        except MessageSettingsError as error:
            said = f"Secret {name} tells nobody: {error}"
            findings.append(problem(CHECK, said, "correct it", code=Code.MESSAGES_INVALID))
    if not findings:  # the sinks of a Secret that cannot be read may be those that are named
        findings += [found for schedule in schedules for found in _judge_names(schedule, sinks)]
    for sink, secret_name in sinks.items():
        findings += _judge_ledger(sink, secret_name, ledgers.get(sink, ""))
    if sinks and not findings:
        findings.append(ok(CHECK, f"failures are told to {counted(len(sinks), 'sink')}"))
    return findings


def _judge_names(schedule: JSONObject, sinks: Mapping[str, str]) -> list[Finding]:
    names = text(schedule, "metadata", "annotations", labels.MESSAGES).split(",")
    return [
        warning(
            CHECK,
            f"schedule {text(schedule, 'metadata', 'name')} names the sink {name!r}, which no Secret has:"
            " it is told of nothing",
            f"correct the annotation {labels.MESSAGES}, or add the sink; `{_SILENCE}` silences a schedule",
            code=Code.MESSAGES_SINK_MISSING,
        )
        for name in (each.strip() for each in names)
        if name and name != _SILENCE and name not in sinks
    ]


def _judge_ledger(sink: str, secret: str, noted: str) -> list[Finding]:
    try:
        ledger = msgspec.json.decode(noted, type=Ledger)
        since = datetime.fromtimestamp(ledger.failing_since, UTC)
    except (msgspec.DecodeError, ValueError, OverflowError, OSError):
        return []  # not written yet, or not by a server, which makes it again
    if not ledger.failure:
        return []
    said = f"sink {sink} has taken no message since {since:%Y-%m-%d %H:%M} UTC: {ledger.failure}"
    remedy = f"`notify test` tries it from here; correct it in Secret {secret}, or bring its service back"
    return [warning(CHECK, said, remedy, code=Code.MESSAGES_NOT_TAKEN)]
