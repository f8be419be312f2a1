"""The scripted cluster for the commands that talk to one: each is run as a user runs it."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.objects import JSONObject
from pinnace.kube.resources import APIResource, velero
from tests.support.clock import FakeClock
from tests.support.cluster.scripted_cluster import ScriptedCluster


class ServedCluster(ScriptedCluster):
    """A cluster with a server, which answers requests for its status at once.

    Attributes:
        plugins: what it answers; None when none runs.
    """

    def __init__(self) -> None:
        super().__init__(FakeClock(now=SYSTEM_CLOCK.now()))
        self.plugins: list[JSONObject] | None = []

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        found = await super().get(resource, name, namespace)
        if found["kind"] == "ServerStatusRequest" and self.plugins is not None:
            found["status"] = {"phase": "Processed", "serverVersion": "v1.6.3", "plugins": self.plugins}
        return found


def connected(
    monkeypatch: pytest.MonkeyPatch, home: Path, cluster: ServedCluster | None = None
) -> ServedCluster:
    """The cluster that the commands of this test find, with nothing of the user's own around it."""
    from pinnace.client import server_status

    found = cluster or ServedCluster()
    monkeypatch.setenv("HOME", str(home))
    for name in ("PINNACE_LOCATION", "VELERO_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pinnace.kube.config.load_config", lambda *_, **__: None)

    def client(_config: None, *, user_agent: str) -> AbstractAsyncContextManager[Any]:
        assert user_agent.startswith("pinnace/v")
        return found

    monkeypatch.setattr("pinnace.kube.client.KubeClient", client)
    monkeypatch.setattr(server_status, "POLL_SECONDS", 0)
    return found


SCHEDULES = velero("schedules")
BACKUP_LOCATIONS = velero("backupstoragelocations")
SNAPSHOT_LOCATIONS = velero("volumesnapshotlocations")
