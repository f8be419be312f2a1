"""Waiting for the verification that a server was asked for."""

from typing import cast

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.verification_answer import VerificationAnswer
from pinnace.cli.browse import requested
from pinnace.cli.browse.requested import VerifyingServer
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import APIResource
from tests.support.clock import LeapingClock


class LateServer(LeapingClock):
    """A cluster with one Backup, whose verification is answered after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self._notes: JSONObject = {}

    async def patch(self, resource: APIResource, name: str, patch: JSONObject, namespace: str) -> None:
        self._notes = patch["metadata"]["annotations"]

    async def get(self, resource: APIResource, name: str, namespace: str) -> JSONObject:
        notes = dict(self._notes)
        if self.monotonic() >= self._seconds:
            answer = VerificationAnswer(
                request=notes[labels.VERIFY_REQUESTED], checks=[("tarball", "ok", "")]
            )
            notes[labels.VERIFICATION_ANSWER] = answer.encode()
        return {"metadata": {"name": name, "annotations": notes}}


@pytest.mark.parametrize(("seconds", "times"), [(30, 0), (300, 1)])
async def test_a_server_that_is_there_and_does_not_answer_is_explained_once(
    seconds: float, times: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def is_there(client: KubeClient, namespace: str) -> str:
        return ""

    monkeypatch.setattr(requested, "_problem_of_server", is_there)
    late = LateServer(seconds)
    server = VerifyingServer(client=cast(KubeClient, late), namespace="velero", clock=late)

    findings = await server.findings("b1")

    assert [finding.name for finding in findings] == ["tarball"]
    assert capsys.readouterr().err.count("`verification-request` is disabled") == times
