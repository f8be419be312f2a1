"""Checks the settings of messages: what a server cannot read, nobody is told by. (ADR 129)"""

from collections.abc import Sequence
from typing import Final

from pinnace.api import labels
from pinnace.api.objects import JSONObject, text
from pinnace.api.values.counts import counted
from pinnace.doctor.findings import Finding, ok, problem
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import SECRETS
from pinnace.messages.errors import MessageSettingsError
from pinnace.messages.settings import document_of, parse_messages
from pinnace.notices.codes import Code

CHECK: Final = "messages"


async def read_messages(client: KubeClient, namespace: str) -> list[JSONObject]:
    """The Secrets with settings of messages. Raises KubeError."""
    return await client.list_all(SECRETS, namespace, label_selector=f"{labels.MESSAGES}=true")


def judge(secrets: Sequence[JSONObject]) -> list[Finding]:
    """A finding for each Secret that cannot be read, or one for all; none where there is no Secret. Pure."""
    findings, sinks = [], 0
    for secret in secrets:
        try:
            sinks += len(parse_messages(document_of(secret)).sinks)
        except MessageSettingsError as error:
            said = f"Secret {text(secret, 'metadata', 'name')} tells nobody: {error}"
            findings.append(problem(CHECK, said, "correct it", code=Code.MESSAGES_INVALID))
    if sinks and not findings:
        findings.append(ok(CHECK, f"failures are told to {counted(sinks, 'sink')}"))
    return findings
