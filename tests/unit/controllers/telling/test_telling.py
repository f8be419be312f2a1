"""What a server tells whom, by the objects of its namespace."""

import asyncio
import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.controllers.telling import telling as module
from pinnace.controllers.telling.telling import Telling, WatchedCaches
from pinnace.kube.resources import (
    BACKUP_STORAGE_LOCATIONS,
    BACKUPS,
    DELETE_BACKUP_REQUESTS,
    RESTORES,
    SCHEDULES,
)
from pinnace.messages.errors import SinkError
from pinnace.messages.problem import Notification
from pinnace.messages.settings import PingSettings, Target, WebhookSettings
from pinnace.runtime.keys import Key
from pinnace.store_access.addresses import Addresses
from tests.unit.controllers.fakes import NAMESPACE, Cached, World

NOON = datetime(2024, 3, 4, 12, tzinfo=UTC)
HOOK = "sinks: [{name: ops, webhook: {url: 'https://a.example/x'}}]"


class Post:
    """Takes what all sinks send."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.shut = False
        self.addresses: list[Addresses | None] = []

    def open_sink(self, target: Target, addresses: Addresses | None = None) -> "_Box":
        self.addresses.append(addresses)
        return _Box(self, target)


class _Box:
    batch = 1
    refresh_seconds: float | None = None

    def __init__(self, post: Post, target: Target) -> None:
        self._post = post
        self._hangs = isinstance(target, WebhookSettings) and "hangs" in target.url
        self.takes_runs = isinstance(target, PingSettings)

    async def send(self, messages: Sequence[Notification]) -> None:
        if self._post.shut:
            raise SinkError("shut")
        if self._hangs:
            await asyncio.Event().wait()
        for each in messages:
            self._post.sent.append((each.signal, str(each.cause or ""), str(each.topic)))
            self._post.texts.append(f"{each.title}\n{each.body}")


class Scene:
    def __init__(self, folder: Path, post: Post) -> None:
        self.world, self.post = World(folder), post
        self.world.clock.set(NOON)
        self.restart()

    def restart(self) -> None:
        """A new server with nothing in memory."""
        caches = WatchedCaches(
            schedules=Cached(self.world, SCHEDULES),
            backups=Cached(self.world, BACKUPS),
            restores=Cached(self.world, RESTORES),
            locations=Cached(self.world, BACKUP_STORAGE_LOCATIONS),
            deletions=Cached(self.world, DELETE_BACKUP_REQUESTS),
        )
        self.queued: list[Key] = []
        self.telling = Telling(self.world.scope, caches, zone=UTC, enqueue=self.queued.append)

    def secret(self, document: str, name: str = "messages", namespace: str = NAMESPACE) -> None:
        from pinnace.kube.resources import SECRETS

        data = {"messages.yaml": base64.b64encode(document.encode()).decode()}
        self.world.cluster.add(
            SECRETS, name, namespace=namespace, labels={labels.MESSAGES: "true"}, data=data
        )

    def schedule(self, name: str = "s", **annotations: str) -> JSONObject:
        spec = {"schedule": "@monthly", "template": {}}
        self.world.cluster.add("schedules", name, spec=spec, status={"lastBackup": "2024-03-04T11:00:00Z"})
        made = self.world.cluster.stored("schedules", name)
        made["metadata"]["creationTimestamp"] = "2024-03-01T00:00:00Z"
        made["metadata"]["annotations"] = dict(annotations)
        return made

    def backup(self, name: str, phase: str, when: datetime, schedule: str = "s", **more: Any) -> JSONObject:
        stamp = when.strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {"phase": phase, "startTimestamp": stamp, "failureReason": f"reason of {name}"}
        if phase != "InProgress":
            status["completionTimestamp"] = stamp
        own = {labels.SCHEDULE_NAME: schedule} if schedule else {}
        self.world.cluster.add("backups", name, labels=own, status=status, **more)
        made = self.world.cluster.stored("backups", name)
        made["metadata"]["creationTimestamp"] = stamp
        return made

    def ends(self, name: str, phase: str) -> None:
        backup = self.world.cluster.stored("backups", name)
        stamp = self.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        backup["status"] |= {"phase": phase, "completionTimestamp": stamp}

    def now(self) -> datetime:
        return self.world.clock.now()

    async def run(self, seconds: float = 130) -> list[tuple[str, str, str]]:
        """Let the server look for a while; returns what was sent."""
        before = len(self.post.sent)
        for _ in range(int(seconds // 10) + 1):
            self.queued.clear()
            await self.telling.resync()
            for key in self.queued:
                await self.telling.reconcile(key)
            self.world.clock.turn(10)
        return self.post.sent[before:]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    post = Post()
    monkeypatch.setattr(module, "open_sink", post.open_sink)
    return Scene(tmp_path, post)


FAILED = ("problem", "failure", "Schedule velero/s")
RECOVERED = ("recovery", "failure", "Schedule velero/s")


async def test_failure_and_recovery_of_a_schedule_are_told_once_also_by_the_next_server(scene: Scene) -> None:
    scene.secret(HOOK)
    scene.schedule()
    scene.backup("s-1", "Failed", NOON)
    assert await scene.run() == [FAILED]
    scene.restart()
    assert await scene.run(400) == []
    scene.backup("s-2", "Completed", scene.now())
    scene.restart()
    assert await scene.run() == [RECOVERED]
    assert scene.post.texts[0].startswith("[unnamed cluster] ")


async def test_a_message_that_was_not_taken_is_not_lost_with_its_server(scene: Scene) -> None:
    scene.secret(HOOK)
    await scene.run()
    scene.backup("b", "Failed", scene.now(), schedule="")
    scene.post.shut = True
    assert await scene.run() == []
    scene.restart()
    scene.post.shut = False
    assert await scene.run() == [("problem", "failure", "Backup velero/b")]


async def test_old_failures_are_not_told_to_a_new_sink(scene: Scene) -> None:
    scene.backup("old", "Failed", datetime(2024, 3, 4, 11, tzinfo=UTC), schedule="")
    scene.secret(HOOK)
    assert await scene.run() == []


@pytest.mark.parametrize(
    ("annotation", "told"),
    [("", ["ops"]), ("ops", ["ops"]), ("night, ops", ["ops", "night"]), ("none", []), ("night", ["night"])],
)
async def test_the_annotation_of_a_schedule_names_its_sinks(
    scene: Scene, annotation: str, told: list[str]
) -> None:
    scene.secret(
        "sinks: [{name: ops, webhook: {url: 'https://a/'}},"
        " {name: night, onlyNamed: true, webhook: {url: 'https://b/'}}]"
    )
    scene.schedule(**({labels.MESSAGES: annotation} if annotation else {}))
    scene.backup("s-1", "Failed", NOON)
    assert len(await scene.run()) == len(told)


async def test_a_ping_follows_the_newest_run(scene: Scene) -> None:
    scene.secret("sinks: [{name: hc, ping: {url: 'https://a/{schedule}'}}]")
    scene.schedule()
    scene.backup("s-0", "Completed", datetime(2024, 3, 4, 11, tzinfo=UTC))
    await scene.run()
    scene.backup("s-1", "InProgress", scene.now())
    await scene.run()
    scene.ends("s-1", "PartiallyFailed")
    await scene.run()
    assert [signal for signal, _, _ in scene.post.sent] == ["start", "fail"]


async def test_a_location_is_told_of_when_it_stays_away(scene: Scene) -> None:
    scene.secret(HOOK)
    scene.world.add_location()
    location = scene.world.cluster.stored("backupstoragelocations", "default")
    location["status"] = {"phase": "Unavailable", "message": "no such bucket: https://u:p4ss@host/b"}
    assert await scene.run(40) == []
    assert await scene.run(60) == [
        ("problem", "location-unavailable", "BackupStorageLocation velero/default")
    ]
    assert "p4ss" not in scene.post.texts[0]
    scene.world.cluster.stored("backupstoragelocations", "default")["status"] = {"phase": "Available"}
    assert await scene.run(400) == [
        ("recovery", "location-unavailable", "BackupStorageLocation velero/default")
    ]


async def test_missed_runs_verifications_and_deletions_are_told(scene: Scene) -> None:
    scene.secret(HOOK)
    notes = {
        labels.LAST_VERIFICATION: "2024-03-04T11:00:00Z unsound s-0",
        labels.RETENTION_STATUS: "2024-03-04T11:00:00Z waiting 12 deletions",
    }
    schedule = scene.schedule(**notes)
    schedule["spec"]["schedule"] = "0 * * * *"
    schedule["status"]["lastBackup"] = "2024-03-04T09:30:00Z"
    scene.backup("s-0", "Completed", datetime(2024, 3, 4, 9, 30, tzinfo=UTC))
    scene.world.cluster.add(
        "deletebackuprequests",
        "d",
        spec={"backupName": "s-0"},
        status={"phase": "Processed", "errors": ["held"]},
    )
    assert sorted(await scene.run()) == [
        ("problem", "deletion-held", "Backup velero/s-0"),
        ("problem", "deletion-held", "Schedule velero/s"),
        ("problem", "missed-run", "Schedule velero/s"),
        ("problem", "verification-failed", "Schedule velero/s"),
    ]


async def test_events_and_annotations_say_it_without_any_sink_and_once(scene: Scene) -> None:
    scene.schedule()
    scene.backup("s-1", "Failed", NOON)
    await scene.run()
    scene.restart()
    await scene.run()
    (event,) = scene.world.all_of("events").values()
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "Failure", 1)
    assert event["involvedObject"]["name"] == "s"
    mark = "pinnace.io/problem-failure"
    schedule = scene.world.cluster.stored("schedules", "s")
    assert schedule["metadata"]["annotations"][mark].startswith("2024-03-04T12:00:00Z s-1 Failed")

    scene.backup("s-2", "Completed", scene.now())
    scene.restart()
    await scene.run(400)
    assert mark not in scene.world.cluster.stored("schedules", "s")["metadata"].get("annotations", {})
    assert sorted(each["reason"] for each in scene.world.all_of("events").values()) == [
        "Failure",
        "Recovered",
    ]


async def test_a_healthy_cluster_costs_no_write(scene: Scene) -> None:
    scene.schedule()
    scene.backup("s-1", "Completed", NOON)
    await scene.run()
    assert scene.world.cluster.writes() == []


def of_tenant(origin: Origin, tenant: str = "team", name: str = "mine") -> dict[str, str]:
    return {origin.namespace_annotation: tenant, origin.name_annotation: name}


RULES = f"{HOOK}\ntenants: {{allowedEndpoints: [10.0.0.0/8]}}"


async def test_a_tenant_is_told_of_its_own_without_reasons_and_the_administrator_is_not(scene: Scene) -> None:
    scene.secret(RULES)
    scene.secret(HOOK, namespace="team")
    await scene.run()
    made = scene.backup("velero-name", "Failed", scene.now(), schedule="")
    made["metadata"]["annotations"] = of_tenant(Origin.BACKUP)
    scene.backup("other", "Failed", scene.now(), schedule="")["metadata"]["annotations"] = of_tenant(
        Origin.BACKUP, "rivals"
    )
    assert await scene.run() == [("problem", "failure", "NonAdminBackup team/mine")]
    assert "reason" not in scene.post.texts[0]
    limits = [each for each in scene.post.addresses if each is not None]
    assert limits
    assert not limits[0].allows_host("169.254.169.254")


async def test_what_a_tenants_location_contains_cannot_speak_for_a_schedule(scene: Scene) -> None:
    scene.secret(RULES)
    scene.schedule()
    scene.world.add_location("theirs")
    location = scene.world.cluster.stored("backupstoragelocations", "theirs")
    location["metadata"]["annotations"] = of_tenant(Origin.LOCATION)
    scene.backup("s-9", "Failed", NOON, spec={"storageLocation": "theirs"})
    assert await scene.run() == []


async def test_secrets_of_tenants_are_not_read_unless_the_administrator_says_so(scene: Scene) -> None:
    scene.secret(HOOK)
    scene.secret(HOOK, namespace="team")
    await scene.telling.resync()
    assert Key("team", "ops") not in scene.queued
    assert Key(NAMESPACE, "ops") in scene.queued


async def test_a_secret_that_cannot_be_read_is_left_out_and_others_count(scene: Scene) -> None:
    scene.secret("sinks: [{name: bad, webhook: {url: 'secret-thing'}}]", name="bad")
    scene.secret(HOOK, name="good")
    await scene.telling.resync()
    assert [key.name for key in scene.queued] == ["marks", "ops"]


async def test_the_ledger_is_stored_without_texts(scene: Scene) -> None:
    scene.secret(HOOK)
    scene.schedule()
    scene.backup("s-1", "Failed", NOON)
    await scene.run()
    stored = scene.world.all_of("configmaps")["pinnace-messages-velero"]["data"]["ops"]
    assert "reason" not in stored
    assert list(json.loads(stored)["told"]) == ["Schedule velero/s: failure"]


async def test_a_tenants_sink_that_hangs_keeps_nobody_waiting(scene: Scene) -> None:
    scene.secret(RULES)
    scene.secret("sinks: [{name: slow, webhook: {url: 'https://hangs/'}}]", namespace="team")
    await scene.telling.resync()
    for key in (Key(NAMESPACE, "ops"), Key("team", "slow")):
        await scene.telling.reconcile(key)  # their ledgers begin before the failures
    scene.world.clock.turn(60)
    theirs = scene.backup("theirs", "Failed", scene.now(), schedule="")
    theirs["metadata"]["annotations"] = of_tenant(Origin.BACKUP)
    scene.backup("ours", "Failed", scene.now(), schedule="")
    hanging = asyncio.create_task(scene.telling.reconcile(Key("team", "slow")))
    async with asyncio.timeout(5):
        await scene.telling.reconcile(Key(NAMESPACE, "ops"))
    assert scene.post.sent == [("problem", "failure", "Backup velero/ours")]
    assert not hanging.done()
    hanging.cancel()
    await asyncio.wait({hanging})
