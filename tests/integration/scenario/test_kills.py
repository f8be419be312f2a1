"""A server is killed after its first, second, ... write; the next one finishes the work.

Real processes, real SIGKILL: a gate before API server and object store lets a server do N writes and holds
all others, and for each N from none to all it is killed there. (docs/spec: CTL 15)
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import orjson
import pytest

from hack.cluster.stores.s3 import Bucket
from pinnace.api.codec import decode
from pinnace.api.labels import RESUME_REQUESTED, RESUMED
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, velero
from pinnace.nonadmin import manifests
from pinnace.nonadmin.flows.conditions import condition
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from tests.support.cluster.crds import ensure_nonadmin_crds
from tests.support.servers.lives import Lives, keys_in
from tests.support.servers.self_service import Tenant, create_object
from tests.support.servers.sites import FINAL, Site
from tests.support.servers.write_gate import WriteGate
from tests.support.waiting import eventually

MOST_WRITES = 60
EXPIRED = "2021-01-01T00:00:00Z"
ORPHAN = 'get a {} with status "InProgress" during the server starting, mark it as "Failed"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Work during which servers are killed, again and again; each time with a number of its own.

    Attributes:
        begin: makes the object that starts it.
        ended: whether the world is as it is when all is done.
        counted: regular expression of the paths that it writes to.
        at_start: it is done by a server that starts then, and not by one that runs.
    """

    begin: Callable[[int], Awaitable[None]]
    ended: Callable[[int], Awaitable[bool]]
    counted: Callable[[int], str]
    at_start: bool = False


@dataclass(frozen=True, slots=True)
class Life:
    """What a server did before it was killed.

    Attributes:
        writes: method and path of the writes that were counted.
        ended: all was done when it was killed, but for the writes that come after the end.
    """

    writes: list[str]
    ended: bool


async def kill_at_every_write(lives: Lives, work: Work) -> list[Life]:
    """The lives; the last is the first that was not cut short."""
    lived: list[Life] = []
    lives.begin()
    for number in range(MOST_WRITES):
        gate = WriteGate(number, work.counted(number))
        try:
            ended = await _kill_once(lives, work, gate, number)
        except AssertionError as error:
            error.add_note(f"killed after {number} writes: {gate.passed}; the servers said: {lives.log}")
            raise
        lived.append(Life(gate.passed, ended))
        if not gate.closed.is_set():
            return lived
        assert len(gate.passed) == number
    raise AssertionError(f"not at an end after {MOST_WRITES} writes: {lived[-1].writes}")


async def _kill_once(lives: Lives, work: Work, gate: WriteGate, number: int) -> bool:
    """One life up to the gate, and one that comes to the end of everything. Returns whether the first did."""
    if work.at_start:
        await lives.end()
    lives.pass_by(gate)
    await work.begin(number)
    if work.at_start:
        lives.begin()

    async def over() -> bool:
        return gate.closed.is_set() or await work.ended(number)

    await eventually(over)
    await lives.end()
    ended = await work.ended(number)
    lives.begin()
    await eventually(partial(work.ended, number))
    return ended


async def objects(site: Site, plural: str) -> dict[str, JSONObject]:
    listed = await site.client.list_all(velero(plural), site.namespace)
    return {obj["metadata"]["name"]: obj for obj in listed}


async def phase(site: Site, plural: str, name: str) -> str:
    """The phase of an object; empty if it has none or does not exist."""
    try:
        obj = await site.get(plural, name)
    except NotFound:
        return ""
    return (obj.get("status") or {}).get("phase") or ""


async def delete_all_backups(site: Site) -> None:
    """As the command does, and wait until nothing is left of them in the cluster."""
    for name, backup in (await objects(site, "backups")).items():
        marks = {"velero.io/backup-name": name, "velero.io/backup-uid": backup["metadata"]["uid"]}
        await site.create("deletebackuprequests", f"delete-{name}", labels=marks, spec={"backupName": name})

    async def gone() -> bool:
        return not (await objects(site, "deletebackuprequests") or await objects(site, "backups"))

    await eventually(gone)


async def restored(site: Site, target: str, name: str, backup: str) -> None:
    """Restore a backup into another namespace."""
    spec = {"backupName": backup, "namespaceMapping": {site.namespace: target}}
    await site.create("restores", name, spec=spec)
    restore = await site.reached("restores", name)
    assert restore["status"]["phase"] == "Completed", restore["status"]
    maps = await site.client.list_all(CONFIGMAPS, target)
    assert {"map-0", "map-1", "map-2"} <= {obj["metadata"]["name"] for obj in maps}


async def test_a_backup_is_finished_by_the_next_server_after_a_kill_at_any_write(
    lives: Lives, site: Site, target: str, bucket: Bucket, stored: BackupStore
) -> None:
    async def begin(number: int) -> None:
        await site.create("backups", f"b{number}", spec=site.maps_of())

    async def ended(number: int) -> bool:
        return await phase(site, "backups", f"b{number}") in FINAL

    work = Work(begin=begin, ended=ended, counted=lambda number: rf"/backups/b{number}(/|$)")
    lived = await kill_at_every_write(lives, work)

    # The claim, eight files, the end; perhaps a number in between.
    assert len(lived[-1].writes) >= 10
    backups = await objects(site, "backups")
    assert set(backups) == {f"b{number}" for number in range(len(lived))}
    finished = {name for name, backup in backups.items() if backup["status"]["phase"] == "Completed"}
    # The first was not begun; of the last two all was stored, and the end of one not said.
    assert {"b0", f"b{len(lived) - 2}", f"b{len(lived) - 1}"} <= finished
    for name, backup in backups.items():
        assert await stored.exists(name) == (name in finished)
        if name in finished:
            await restored(site, target, f"r-{name}", name)
        else:
            status = backup["status"]
            assert (status["phase"], status["failureReason"]) == ("Failed", ORPHAN.format("backup"))
            assert status["completionTimestamp"]
    assert {key.split("/")[2] for key in await keys_in(bucket)} <= {
        *backups,
        *(f"r-{name}" for name in finished),
    }

    await delete_all_backups(site)
    assert await keys_in(bucket) == []
    assert await objects(site, "restores") == {}


async def test_a_restore_is_finished_by_the_next_server_after_a_kill_at_any_write(
    lives: Lives, site: Site, target: str, bucket: Bucket
) -> None:
    lives.begin()
    await site.create("backups", "b", spec=site.maps_of())
    await site.reached("backups", "b", "Completed")
    await lives.end()

    async def begin(number: int) -> None:
        for obj in await site.client.list_all(CONFIGMAPS, target):
            if obj["metadata"]["name"].startswith("map-"):
                await site.client.delete(CONFIGMAPS, obj["metadata"]["name"], target)
        spec = {"backupName": "b", "namespaceMapping": {site.namespace: target}}
        await site.create("restores", f"r{number}", spec=spec)

    async def ended(number: int) -> bool:
        return await phase(site, "restores", f"r{number}") in FINAL

    def counted(number: int) -> str:
        return rf"/restores/r{number}(/|$)|/namespaces/{target}/configmaps$"

    lived = await kill_at_every_write(lives, Work(begin=begin, ended=ended, counted=counted))

    # The claim, three config maps, log, results, the end; perhaps a number in between.
    assert len(lived[-1].writes) >= 7
    restores = await objects(site, "restores")
    assert set(restores) == {f"r{number}" for number in range(len(lived))}
    for number, life in enumerate(lived):
        status = restores[f"r{number}"]["status"]
        # The first was not begun. Its journal goes after the end of a restore, so that two may have ended.
        if number == 0 or life.ended:
            assert status["phase"] == "Completed"
        else:
            assert (status["phase"], status["failureReason"]) == (
                "Failed",
                ORPHAN.format("restore"),
            )
            assert status["completionTimestamp"]
    assert (await phase(site, "backups", "b")) == "Completed"
    await restored(site, target, "again", "b")

    await delete_all_backups(site)
    assert await keys_in(bucket) == []
    assert await objects(site, "restores") == {}


async def test_a_restore_is_resumed_by_the_next_server_after_a_kill_at_any_write(
    lives: Lives, site: Site, bucket: Bucket, stored: BackupStore
) -> None:
    """It ends like one that nobody disturbed."""
    lives.begin()
    await site.create("backups", "b", spec=site.maps_of())
    await site.reached("backups", "b", "Completed")
    await lives.end()
    lives.resume_restores()

    async def begin(number: int) -> None:
        mapping = {site.namespace: f"{site.namespace}-{number}"}
        await site.create("restores", f"r{number}", spec={"backupName": "b", "namespaceMapping": mapping})

    async def ended(number: int) -> bool:
        return await phase(site, "restores", f"r{number}") in FINAL

    def counted(number: int) -> str:
        own = f"{site.namespace}-{number}"
        return rf"/restores/r{number}(/|$)|/namespaces(\?|$)|/namespaces/{own}/configmaps$"

    lived = await kill_at_every_write(lives, Work(begin=begin, ended=ended, counted=counted))

    # Claim, begin of the journal, the namespace in it, the namespace, three maps, files, the end.
    assert len(lived[-1].writes) >= 11
    restores = await objects(site, "restores")
    for number in range(len(lived)):
        restore, own = restores[f"r{number}"], f"{site.namespace}-{number}"
        status = restore["status"]
        assert status["phase"] == "Completed", (number, status)
        assert not status.get("failureReason")
        async with stored.read_text(DownloadTargetKind.RESTORE_RESOURCE_LIST, f"r{number}") as stream:
            listed = orjson.loads(b"".join([chunk async for chunk in stream]))
        assert listed["v1/Namespace"] == [f"{own}(created)"], number
        # Besides kube-root-ca.crt, which the cluster may have created before.
        assert {f"{own}/map-{index}(created)" for index in range(3)} <= set(listed["v1/ConfigMap"]), number
        maps = await site.client.list_all(CONFIGMAPS, own)
        assert {f"map-{index}" for index in range(3)} <= {obj["metadata"]["name"] for obj in maps}
        await site.client.delete(NAMESPACES, own)
    resumed = {name for name, each in restores.items() if RESUMED in each["metadata"]["annotations"]}
    journals = {key.split("/")[2] for key in await keys_in(bucket) if "-pinnace-journal-" in key}
    # Only the first was not begun; others were killed after their end, while they deleted their journal.
    assert len(resumed | journals) >= len(lived) - 2
    assert len(resumed) >= 8
    assert not resumed & journals


@pytest.mark.parametrize("by_itself", [True, False], ids=["by itself", "on the tenant's request"])
async def test_a_tenants_restore_is_resumed_by_the_next_server(
    lives: Lives, site: Site, target: str, by_itself: bool
) -> None:
    await ensure_nonadmin_crds(site.client)
    for obj in manifests.resources(site.namespace):
        await create_object(site.client, obj)
    tenant = Tenant(site.client, target)
    maps = Site(site.client, target, site.folder)
    await maps.add_maps(a="1")
    lives.add_features("NonAdmin")
    lives.begin()
    await tenant.back_up("nightly", includedResources=["configmaps"])
    await tenant.until(NON_ADMIN_BACKUPS, "nightly", lambda obj: _served_phase(obj, "Backup") == "Completed")
    await lives.end()
    for number in range(3):
        await site.client.delete(CONFIGMAPS, f"map-{number}", target)

    gate = WriteGate(2, rf"/namespaces/{target}/configmaps$")
    lives.pass_by(gate)
    lives.begin()
    await tenant.restore("back", backupName="nightly")

    async def is_cut() -> bool:
        return gate.closed.is_set()

    await eventually(is_cut)
    await lives.end()
    if by_itself:
        lives.resume_restores()
    lives.begin()
    if not by_itself:
        failed = await tenant.until(NON_ADMIN_RESTORES, "back", lambda obj: bool(_resumed_condition(obj)))
        assert _served_phase(failed, "Restore") == "Failed"
        asked = {"metadata": {"annotations": {RESUME_REQUESTED: "now"}}}
        await site.client.patch(NON_ADMIN_RESTORES, "back", asked, target)
    await tenant.until(NON_ADMIN_RESTORES, "back", lambda obj: _served_phase(obj, "Restore") == "Completed")

    (restore,) = (await objects(site, "restores")).values()
    assert restore["metadata"]["annotations"][RESUMED] == "1"
    assert restore["status"]["progress"]["itemsRestored"] == restore["status"]["progress"]["totalItems"]
    for number in range(3):
        assert (await site.client.get(CONFIGMAPS, f"map-{number}", target))["data"] == {"a": "1"}
    found = await tenant.get(NON_ADMIN_RESTORES, "back")
    assert _resumed_condition(found).get("reason") == (None if by_itself else "RestoreResumed")


def _served_phase(request: JSONObject, kind: str) -> str:
    return text(request, "status", f"velero{kind}", "status", "phase")


def _resumed_condition(request: JSONObject) -> JSONObject:
    return condition(mapping(request, "status"), "Resumed")


async def test_an_expiry_is_finished_by_the_next_server_after_a_kill_at_any_write(
    lives: Lives, site: Site, bucket: Bucket, stored: BackupStore
) -> None:
    """From the moment that a backup has expired: the request for its deletion, and what comes of it."""

    async def begin(number: int) -> None:
        name = f"b{number}"
        times = {"startTimestamp": EXPIRED, "completionTimestamp": EXPIRED}
        # Expired only once its files and its restore are there.
        status = {"phase": "Completed", **times}
        obj = await site.create("backups", name, spec={"storageLocation": "default"}, status=status)
        metadata = encode_metadata(decode(Backup, obj))
        contents = site.folder / "contents.tar.gz"
        contents.write_bytes(b"tarball")
        await stored.put_backup(BackupFiles(name=name, metadata=metadata, contents=contents))
        await site.create("restores", f"r{number}", spec={"backupName": name}, status=status)
        await stored.put_restore_results(f"r{number}", {})
        patch = {"status": {"expiration": EXPIRED}}
        await site.client.patch(velero("backups"), name, patch, site.namespace)

    async def ended(number: int) -> bool:
        left = await objects(site, "backups") | await objects(site, "restores")
        return not left and not await objects(site, "deletebackuprequests")

    def counted(number: int) -> str:
        return rf"/(backups/b|restores/r){number}(/|$)|/deletebackuprequests(/|$)"

    lived = await kill_at_every_write(lives, Work(begin=begin, ended=ended, counted=counted))

    # Request, two marks, a restore with its file, seven files, Backup, request.
    assert len(lived[-1].writes) >= 12
    assert await keys_in(bucket) == []


async def test_a_schedule_runs_once_after_a_kill_at_any_write(lives: Lives, site: Site) -> None:
    async def begin(number: int) -> None:
        template = site.maps_of(includedResources=["secrets"])
        spec = {"schedule": "@every 24h", "template": template}
        await site.create("schedules", f"s{number}", spec=spec, status={"lastBackup": EXPIRED})

    async def ended(number: int) -> bool:
        schedule = await site.get("schedules", f"s{number}")
        return bool(schedule["status"]["lastBackup"] != EXPIRED)

    work = Work(
        begin=begin, ended=ended, counted=lambda number: rf"/schedules/s{number}$|velero\.io/.*/backups$"
    )
    lived = await kill_at_every_write(lives, work)

    # Of the schedule: its phase, its last backup, and notes of its next run as often as these change.
    # They may be written again before the cache shows them.
    written = [line.split("/")[-1].split()[0] for line in lived[-1].writes]
    assert sorted(set(written)) == ["backups", f"s{len(lived) - 1}"]
    assert written.count("backups") == 1
    assert written[0] == written[-1] != "backups"
    assert 3 <= len(written) <= 10
    made = [name.split("-")[0] for name in await objects(site, "backups")]
    assert sorted(made) == sorted(f"s{number}" for number in range(len(lived)))
    for number in range(len(lived)):
        assert await phase(site, "schedules", f"s{number}") == "Enabled"


async def test_a_sync_is_finished_by_the_next_server_after_a_kill_at_any_write(
    lives: Lives, site: Site, stored: BackupStore
) -> None:
    """A backup with its companions is found, one that is no longer stored goes."""

    async def begin(number: int) -> None:
        status = {"phase": "Completed", "startTimestamp": EXPIRED, "completionTimestamp": EXPIRED}
        spec = {"node": "n", "pod": {}, "volume": "v", "backupStorageLocation": "", "repoIdentifier": "r"}
        volumes = [
            {"metadata": {"name": f"v{number}-{index}"}, "spec": spec, "status": {"phase": "Completed"}}
            for index in range(2)
        ]
        found = {"metadata": {"name": f"b{number}"}, "status": status}
        metadata = encode_metadata(decode(Backup, {"apiVersion": "velero.io/v1", "kind": "Backup", **found}))
        files = BackupFiles(name=f"b{number}", metadata=metadata, contents=None, pod_volume_backups=volumes)
        await stored.put_backup(files)
        marks = {"velero.io/storage-location": "default"}
        await site.create(
            "backups", f"orphan{number}", spec={"storageLocation": "default"}, labels=marks, status=status
        )

    async def ended(number: int) -> bool:
        backups, volumes = await objects(site, "backups"), await objects(site, "podvolumebackups")
        return (
            set(backups) == {f"b{each}" for each in range(number + 1)}
            and set(volumes) == {f"v{each}-{index}" for each in range(number + 1) for index in range(2)}
            and all(
                volume["metadata"]["ownerReferences"][0]["uid"]
                == backups[name.split("-")[0].replace("v", "b")]["metadata"]["uid"]
                for name, volume in volumes.items()
            )
        )

    def counted(_number: int) -> str:
        return r"/(podvolume)?backups$|/orphan"

    lived = await kill_at_every_write(lives, Work(begin=begin, ended=ended, counted=counted, at_start=True))

    assert len(lived[-1].writes) == 4
