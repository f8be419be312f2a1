"""Items with actions are processed several at a time, unless their order matters."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from pinnace.api.objects import JSONObject
from pinnace.archive.errors import ArchiveWriteError
from pinnace.archive.runlog import RunLog
from pinnace.archive.writer import ArchiveWriter
from pinnace.backup.collaborators import BackupCollaborators
from pinnace.hooks.backup_selection import PodHook
from pinnace.kube.resources import CLUSTER_ROLES, PODS, SERVICE_ACCOUNTS, APIResource
from pinnace.volumes.pods.in_flight import VolumesInFlight
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.backup.fakes import FakeAction, related, run_backup, thing, two_a_page


class WaitingCluster(ScriptedCluster):
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
    cluster.add_all(SERVICE_ACCOUNTS, *(f"ns/{n:02}" for n in range(16)))
    cluster.add_all(CLUSTER_ROLES, *(f"role-{n:02}" for n in range(16)))
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
    cluster = ScriptedCluster(page_size=100).add_all(PODS, *(f"ns/{n}" for n in range(5)), annotations=HOOKED)
    outcome = await run_backup(tmp_path, cluster, collaborators=BackupCollaborators(hooks=hooks))
    assert outcome.items == [f"pods/ns/{n}" for n in range(5)]
    assert hooks.most == 1


async def test_a_broken_archive_is_raised_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ScriptedCluster(page_size=100).add_all(
        PODS, *(f"ns/{n}" for n in range(20)), annotations=HOOKED
    )

    async def full(_writer: ArchiveWriter) -> None:
        raise ArchiveWriteError("no space left on device")

    monkeypatch.setattr(ArchiveWriter, "flush_if_full", full)
    with pytest.raises(ArchiveWriteError, match="no space left"):
        await run_backup(tmp_path, cluster)
    assert not (tmp_path / "contents.tar.gz").exists()


class SlowAgent:
    """Saves no volume until all pods were asked for, and notes what happens to each pod."""

    def __init__(self, pods: int) -> None:
        self.events: list[str] = []
        self.pod_volume_backups: Sequence[JSONObject] = ()
        self._to_come = pods
        self._all = asyncio.Event()

    async def request(self, pod: JSONObject, volumes: Sequence[str], log: RunLog) -> VolumesInFlight:
        name = pod["metadata"]["name"]
        self.events.append(f"{name}: asked")
        self._to_come -= 1
        if not self._to_come:
            self._all.set()

        async def ended() -> Sequence[Exception]:
            async with asyncio.timeout(30):
                await self._all.wait()
            self.events.append(f"{name}: saved")
            return ()

        return VolumesInFlight((), ended)

    async def run(self, hook: PodHook, pod: JSONObject, log: RunLog) -> None:
        self.events.append(f"{pod['metadata']['name']}: {hook.exec.command[0]}")


def pods_with_data(*names: str, annotations: dict[str, str] | None = None) -> list[JSONObject]:
    return [
        thing(
            PODS,
            name,
            "ns",
            annotations={"backup.velero.io/backup-volumes": "data", **(annotations or {})},
            spec={"nodeName": f"node-{name}", "volumes": [{"name": "data", "emptyDir": {}}]},
            status={"phase": "Running"},
        )
        for name in names
    ]


@pytest.mark.found("E-F8")
async def test_the_agents_of_all_pods_are_asked_before_the_first_one_is_done(tmp_path: Path) -> None:
    agent = SlowAgent(pods=5)
    cluster = two_a_page().put_all(PODS, *pods_with_data(*"abcde"))
    outcome = await run_backup(tmp_path, cluster, collaborators=BackupCollaborators(pod_volumes=agent))
    assert agent.events[:5] == [f"{name}: asked" for name in "abcde"]
    assert sorted(agent.events[5:]) == [f"{name}: saved" for name in "abcde"]
    assert (outcome.items, outcome.errors) == ([f"pods/ns/{name}" for name in "abcde"], 0)


@pytest.mark.found("E-F8")
async def test_a_pod_is_thawed_after_its_volumes_are_saved_and_before_the_next_is_frozen(
    tmp_path: Path,
) -> None:
    agent = SlowAgent(pods=1)
    frozen = {**HOOKED, "post.hook.backup.velero.io/command": "thaw"}
    cluster = two_a_page().put_all(PODS, *pods_with_data("a", "b", annotations=frozen), *pods_with_data("c"))
    collaborators = BackupCollaborators(pod_volumes=agent, hooks=agent)
    outcome = await run_backup(tmp_path, cluster, collaborators=collaborators)
    steps = [event for event in agent.events if not event.startswith("c")]
    assert steps == [f"{pod}: {step}" for pod in "ab" for step in ("freeze", "asked", "saved", "thaw")]
    assert (outcome.items, outcome.errors) == ([f"pods/ns/{name}" for name in "abc"], 0)


async def test_a_defect_of_who_saves_volumes_ends_the_backup(tmp_path: Path) -> None:
    class Broken(SlowAgent):
        async def request(self, pod: JSONObject, volumes: Sequence[str], log: RunLog) -> VolumesInFlight:
            async def ended() -> Sequence[Exception]:
                raise RuntimeError("a defect")

            return VolumesInFlight((), ended)

    cluster = two_a_page().put_all(PODS, *pods_with_data("a", "b"))
    with pytest.raises(RuntimeError, match="a defect"):
        await run_backup(tmp_path, cluster, collaborators=BackupCollaborators(pod_volumes=Broken(2)))
