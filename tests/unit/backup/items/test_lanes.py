"""Items with actions are processed several at a time, unless their order matters."""

import asyncio
from pathlib import Path

import pytest

from pinnace.api.objects import JSONObject
from pinnace.archive.errors import ArchiveWriteError
from pinnace.archive.runlog import RunLog
from pinnace.archive.writer import ArchiveWriter
from pinnace.backup.collaborators import Collaborators
from pinnace.hooks.backup_selection import PodHook
from pinnace.kube.resources import CLUSTER_ROLES, PODS, SERVICE_ACCOUNTS, APIResource
from tests.unit.backup.fakes import FakeAction, FakeCluster, related, run_backup


class WaitingCluster(FakeCluster):
    """Answers a GET only when as many are under way as can be, and notes how many that were."""

    def __init__(self, at_once: int) -> None:
        super().__init__(page_size=100)
        self.at_once = at_once
        self.most = 0
        self._under_way = 0
        self._enough = asyncio.Event()

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        if self._under_way == self.at_once:
            self._enough.set()
        async with asyncio.timeout(30):
            await self._enough.wait()
        self._under_way -= 1
        return await super().get(resource, name, namespace)


def role_of(item: JSONObject) -> list[object]:
    return (
        [related(CLUSTER_ROLES, f"role-{item['metadata']['name']}")] if item["kind"] != "ClusterRole" else []
    )


async def test_requests_for_additional_items_overlap(tmp_path: Path) -> None:
    cluster = WaitingCluster(at_once=8)
    cluster.add(SERVICE_ACCOUNTS, *(f"ns/{n:02}" for n in range(16)))
    cluster.add(CLUSTER_ROLES, *(f"role-{n:02}" for n in range(16)))
    action = FakeAction(additional=role_of)  # type: ignore[arg-type]
    outcome = await run_backup(tmp_path, cluster, actions=[action])
    assert cluster.most == 8
    assert outcome.errors == 0
    assert len(outcome.items) == 32
    for n in range(16):
        role, account = f"clusterroles.rbac.authorization.k8s.io/role-{n:02}", f"serviceaccounts/ns/{n:02}"
        assert outcome.items.index(role) < outcome.items.index(account)


HOOKED = {"pre.hook.backup.velero.io/command": "freeze"}
"""Pods with them take all the steps."""


class CountingHooks:
    """Notes how many hooks run at once."""

    def __init__(self) -> None:
        self.most = 0
        self._running = 0

    async def run(self, hook: PodHook, pod: JSONObject, log: RunLog) -> None:
        self._running += 1
        self.most = max(self.most, self._running)
        await asyncio.sleep(0)
        self._running -= 1


async def test_pods_with_hooks_are_processed_one_by_one(tmp_path: Path) -> None:
    hooks = CountingHooks()
    cluster = FakeCluster(page_size=100).add(PODS, *(f"ns/{n}" for n in range(5)), annotations=HOOKED)
    outcome = await run_backup(tmp_path, cluster, collaborators=Collaborators(hooks=hooks))
    assert outcome.items == [f"pods/ns/{n}" for n in range(5)]
    assert hooks.most == 1


async def test_a_broken_archive_is_raised_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(page_size=100).add(PODS, *(f"ns/{n}" for n in range(20)), annotations=HOOKED)

    async def full(_writer: ArchiveWriter) -> None:
        raise ArchiveWriteError("no space left on device")

    monkeypatch.setattr(ArchiveWriter, "flush_if_full", full)
    with pytest.raises(ArchiveWriteError, match="no space left"):
        await run_backup(tmp_path, cluster)
    assert not (tmp_path / "contents.tar.gz").exists()
