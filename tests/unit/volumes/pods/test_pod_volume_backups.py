"""Creating PodVolumeBackups, waiting for them and collecting their results."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.api.values.times import format_time
from pinnace.api.velero.backup import Backup, BackupSpec, BackupUploader
from pinnace.archive.runlog import RunLog
from pinnace.volumes.errors import PodVolumeBackupFailed
from pinnace.volumes.pods.pod_volume_backups import PodVolumeBackups
from pinnace.volumes.pods.timeouts import Timeout, parse_timeout
from tests.support.tasks import settled
from tests.unit.controllers.fakes import NAMESPACE, fail_once
from tests.unit.volumes.pod_volumes import PodVolumeScene, a_pod, claimed, completed, empty_dir, silent

PLURAL = "podvolumebackups"
BACKUP = Backup(
    metadata=ObjectMeta(name="b1", namespace=NAMESPACE, uid="backup-uid"),
    spec=BackupSpec(storage_location="default"),
)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[PodVolumeScene]:
    with PodVolumeScene(tmp_path) as made:
        yield made


async def back_up(
    work: PodVolumeBackups, pod: JSONObject, volumes: list[str], log: RunLog
) -> Sequence[Exception]:
    """Ask for the volumes and wait for them."""
    asked = await work.request(pod, volumes, log)
    return [*asked.errors, *await asked.ended()]


def backups(scene: PodVolumeScene, timeout: Timeout | None = None) -> PodVolumeBackups:
    return PodVolumeBackups(
        scene.cluster.client,
        BACKUP,
        scene.run(timeout),
    )


async def test_one_pod_volume_backup_for_each_volume_and_ended_ones_are_kept(scene: PodVolumeScene) -> None:
    work = backups(scene)

    errors = await back_up(work, a_pod(empty_dir("one"), empty_dir("two")), ["one", "two"], scene.log)

    assert errors == []
    assert [obj["spec"]["volume"] for obj in work.pod_volume_backups] == ["one", "two"]
    assert {obj["status"]["snapshotID"] for obj in work.pod_volume_backups} == {"2fa3b4c5"}


async def test_later_pods_are_asked_for_while_maintenance_waits_for_the_first(scene: PodVolumeScene) -> None:
    """Maintenance waits for the volumes of the first pod, and the backup for its end comes last."""
    work = backups(scene)
    first = await work.request(a_pod(empty_dir("one")), ["one"], scene.log)

    async def maintain() -> None:
        async with scene.locks.exclusive("repo"):
            maintained.set()

    maintained = asyncio.Event()
    maintenance = asyncio.create_task(maintain())
    await settled()
    second = await work.request(a_pod(empty_dir("two")), ["two"], scene.log)

    assert await first.ended() == []
    assert not maintained.is_set()
    assert await second.ended() == []
    await maintenance
    assert maintained.is_set()


@pytest.mark.parametrize("is_locked", [False, True])
async def test_a_setting_that_restic_does_not_know_is_one_warning(
    scene: PodVolumeScene, is_locked: bool
) -> None:
    spec = msgspec.structs.replace(BACKUP.spec, uploader_config=BackupUploader(parallel_files_upload=4))
    work = PodVolumeBackups(
        scene.cluster.client,
        msgspec.structs.replace(BACKUP, spec=spec),
        scene.run(None),
        is_locked=is_locked,
    )
    for name in ("one", "two"):
        await back_up(work, a_pod(empty_dir(name)), [name], scene.log)

    assert scene.log.warnings == 1 + is_locked
    settings = [obj["spec"]["uploaderSettings"] for obj in scene.cluster.of(PLURAL)]
    assert settings == [{"ParallelFilesUpload": "4"}] * 2


@pytest.mark.spec("AFT-141")
@pytest.mark.parametrize(("backup_type", "parent"), [("Full", "none"), ("Incremental", None), ("", None)])
async def test_a_full_backup_compares_with_no_other(
    scene: PodVolumeScene, backup_type: str, parent: str | None
) -> None:
    spec = msgspec.structs.replace(BACKUP.spec, backup_type=backup_type)
    work = PodVolumeBackups(scene.cluster.client, msgspec.structs.replace(BACKUP, spec=spec), scene.run(None))
    await back_up(work, a_pod(empty_dir("one")), ["one"], scene.log)

    (made,) = scene.cluster.of(PLURAL)
    assert made["spec"].get("parentSnapshot") == parent


@pytest.mark.spec("PVL-074")
async def test_the_pod_volume_backup_of_a_volume(scene: PodVolumeScene) -> None:
    scene.cluster.add("persistentvolumeclaims", "claim", "shop", spec={"volumeName": "pv"})
    scene.cluster.add("persistentvolumes", "pv", "", spec={"csi": {}})

    await back_up(backups(scene), a_pod(claimed("data", "claim")), ["data"], scene.log)

    [obj] = scene.cluster.of(PLURAL)
    metadata = obj["metadata"]
    assert metadata["generateName"] == "b1-"
    assert metadata["name"].startswith("b1-")
    assert metadata["namespace"] == NAMESPACE
    assert metadata["labels"] == {
        "velero.io/backup-name": "b1",
        "velero.io/backup-uid": "backup-uid",
        "velero.io/pvc-uid": "uid-claim",
    }
    assert metadata["annotations"] == {"velero.io/pvc-name": "claim"}
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "velero.io/v1",
            "kind": "Backup",
            "name": "b1",
            "uid": "backup-uid",
            "controller": True,
        }
    ]
    assert obj["spec"] == {
        "node": "node-1",
        "pod": {"kind": "Pod", "namespace": "shop", "name": "p", "uid": "uid-p"},
        "volume": "data",
        "backupStorageLocation": "default",
        "repoIdentifier": "s3:x/restic/shop",
        "tags": {
            "backup": "b1",
            "backup-uid": "backup-uid",
            "pod": "p",
            "pod-uid": "uid-p",
            "ns": "shop",
            "volume": "data",
            "pvc-uid": "uid-claim",
        },
        "uploaderType": "restic",
    }
    assert obj["status"] == {"progress": {}}


@pytest.mark.spec("PVL-071")
async def test_a_long_name_is_shortened_only_in_the_label(scene: PodVolumeScene) -> None:
    name = "the-really-long-backup-name-that-is-much-more-than-63-characters"
    backup = Backup(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE, uid="u"),
        spec=BackupSpec(storage_location="default"),
    )
    work = PodVolumeBackups(scene.cluster.client, backup, scene.run())

    await back_up(work, a_pod(empty_dir("data")), ["data"], scene.log)

    [obj] = scene.cluster.of(PLURAL)
    assert obj["metadata"]["labels"]["velero.io/backup-name"] == (
        "the-really-long-backup-name-that-is-much-more-than-63-cha6ca4bc"
    )
    assert obj["spec"]["tags"]["backup"] == name


async def test_a_volume_without_claim_has_no_label_of_a_claim(scene: PodVolumeScene) -> None:
    await back_up(backups(scene), a_pod(empty_dir("data")), ["data"], scene.log)

    [obj] = scene.cluster.of(PLURAL)
    assert "annotations" not in obj["metadata"]
    assert "velero.io/pvc-uid" not in obj["metadata"]["labels"]
    assert "pvc-uid" not in obj["spec"]["tags"]


async def test_a_generic_ephemeral_volume_is_its_claim(scene: PodVolumeScene) -> None:
    scene.cluster.add("persistentvolumeclaims", "p-scratch", "shop", spec={})
    pod = a_pod({"name": "scratch", "ephemeral": {}})

    assert await back_up(backups(scene), pod, ["scratch"], scene.log) == []

    [obj] = scene.cluster.of(PLURAL)
    assert obj["metadata"]["annotations"] == {"velero.io/pvc-name": "p-scratch"}


@pytest.mark.spec("PVL-007")
async def test_a_volume_that_the_pod_does_not_have_is_a_warning(scene: PodVolumeScene) -> None:
    assert await back_up(backups(scene), a_pod(empty_dir("one")), ["other", "one"], scene.log) == []

    assert [obj["spec"]["volume"] for obj in scene.cluster.of(PLURAL)] == ["one"]
    assert (scene.log.warnings, scene.log.errors) == (1, 0)


@pytest.mark.spec("PVL-008")
async def test_host_paths_are_left_out(scene: PodVolumeScene) -> None:
    scene.cluster.add("persistentvolumeclaims", "on-host", "shop", spec={"volumeName": "host"})
    scene.cluster.add("persistentvolumes", "host", "", spec={"hostPath": {"path": "/x"}})
    scene.cluster.add("persistentvolumeclaims", "unbound", "shop", spec={})
    scene.cluster.add("persistentvolumeclaims", "bound", "shop", spec={"volumeName": "pv"})
    scene.cluster.add("persistentvolumes", "pv", "", spec={"nfs": {}})
    volumes = [
        {"name": "plain", "hostPath": {"path": "/y"}},
        *(claimed(name, name) for name in ("on-host", "unbound", "bound")),
    ]

    errors = await back_up(backups(scene), a_pod(*volumes), [v["name"] for v in volumes], scene.log)

    assert errors == []
    assert [obj["spec"]["volume"] for obj in scene.cluster.of(PLURAL)] == ["unbound", "bound"]
    assert scene.log.warnings == 2


async def test_an_error_concerns_only_its_volume(scene: PodVolumeScene) -> None:
    scene.cluster.add("persistentvolumeclaims", "lost", "shop", spec={"volumeName": "no-pv"})
    scene.cluster.before = fail_once("create", PLURAL)
    volumes = [claimed("a", "no-claim"), claimed("b", "lost"), empty_dir("c")]
    work = backups(scene)

    errors = await back_up(work, a_pod(*volumes), ["a", "b", "c"], scene.log)

    assert [str(error).partition(": ")[0] for error in errors] == [
        "error getting persistent volume claim for volume",
        "error checking if volume is a hostPath volume",
    ]
    assert [obj["spec"]["volume"] for obj in work.pod_volume_backups] == ["c"]


async def test_a_failed_pod_volume_backup_is_an_error_and_recorded(scene: PodVolumeScene) -> None:
    scene.answer = lambda _obj: {"phase": "Failed", "message": "no room"}
    work = backups(scene)

    [error] = await back_up(work, a_pod(empty_dir("data")), ["data"], scene.log)

    assert isinstance(error, PodVolumeBackupFailed)
    assert str(error) == "pod volume backup failed: no room"
    assert len(work.pod_volume_backups) == 1


async def test_a_pod_volume_backup_that_is_deleted_meanwhile_is_an_error(scene: PodVolumeScene) -> None:
    scene.answer = silent
    work = backups(scene)
    task = asyncio.create_task(back_up(work, a_pod(empty_dir("data")), ["data"], scene.log))
    await scene.created.wait()

    scene.outcomes.gone(scene.cluster.of(PLURAL)[0])

    [error] = await task
    assert str(error).endswith("was deleted")
    [record] = work.pod_volume_backups
    assert record["status"]["phase"] == "Failed", "a restore must name the volume that stays empty"
    assert record["status"]["message"] == "it was deleted before it ended"


async def test_pod_volume_backups_that_end_too_late_are_one_error_and_recorded_as_failed(
    scene: PodVolumeScene,
) -> None:
    scene.answer = lambda obj: None if obj["spec"]["volume"] == "late" else {"phase": "Completed"}
    work = backups(scene, scene.timeout(0.0))
    pod = a_pod(empty_dir("late"), empty_dir("done"))

    errors = [
        *await back_up(work, pod, ["late", "done"], scene.log),
        *await back_up(work, pod, ["late"], scene.log),
    ]

    text = "timed out waiting for all PodVolumeBackups to complete"
    assert [str(error) for error in errors] == [text, text]
    recorded = sorted((obj["spec"]["volume"], obj["status"]["phase"]) for obj in work.pod_volume_backups)
    assert recorded == [("done", "Completed"), ("late", "Failed"), ("late", "Failed")]
    assert len(scene.cluster.of(PLURAL)) == 3


async def test_pod_volume_backups_that_end_too_late_are_canceled(scene: PodVolumeScene) -> None:
    """It would be saved for nothing: the backup does not list its snapshot."""
    phases = {"new": {}, "begun": {"phase": "InProgress"}}

    def answer(obj: JSONObject) -> None:
        stored = scene.cluster.stored(PLURAL, obj["metadata"]["name"])
        stored["status"] |= phases[obj["spec"]["volume"]]

    scene.answer = answer
    work = backups(scene, scene.timeout(0.0))

    await back_up(work, a_pod(empty_dir("new"), empty_dir("begun")), ["new", "begun"], scene.log)

    made = {obj["spec"]["volume"]: obj for obj in scene.cluster.of(PLURAL)}
    assert [made[volume]["spec"].get("cancel") for volume in phases] == [True, True]
    message = "it was canceled, as its Backup b1 did not wait for it any longer"
    assert {obj["status"]["message"] for obj in made.values()} == {message}
    assert made["new"]["status"]["phase"] == "Canceled"
    assert made["new"]["status"]["completionTimestamp"] == format_time(scene.cluster.clock.now())
    assert made["begun"]["status"]["phase"] == "InProgress", "its agent ends it"


@pytest.mark.spec("AFT-169")
@pytest.mark.parametrize(
    ("ends_as", "recorded"),
    [("Canceled", "Failed"), ("Completed", "Completed"), ("Failed", "Failed"), ("", "Failed")],
    ids=["canceled", "saved at that moment", "failed at that moment", "its agent is gone"],
)
async def test_a_volume_that_is_late_is_canceled_and_waited_for_and_the_others_are_kept(
    scene: PodVolumeScene, ends_as: str, recorded: str
) -> None:
    """A snapshot that its agent stores meanwhile belongs to the backup, or nobody would delete it."""
    late = {"phase": "InProgress"}
    scene.answer = lambda obj: late if obj["spec"]["volume"] == "late" else completed(obj)
    settle_seconds = 0.01 if not ends_as else 60.0
    work = PodVolumeBackups(scene.cluster.client, BACKUP, scene.run(scene.timeout(0.0), settle_seconds))

    def agent(verb: str, plural: str, name: str) -> None:
        obj = scene.cluster.peek(plural, name) or {}
        if (verb, plural) == ("patch", PLURAL) and ends_as:
            snapshot = {"snapshotID": "f00d"} if ends_as == "Completed" else {}
            scene.outcomes.seen({**obj, "status": {"phase": ends_as, **snapshot}})

    scene.cluster.after = agent
    pods = [a_pod(empty_dir("one"), empty_dir("late")), a_pod(empty_dir("two"), name="q")]
    asked = [
        await work.request(pods[0], ["one", "late"], scene.log),
        await work.request(pods[1], ["two"], scene.log),
    ]

    errors = [str(error) for each in asked for error in await each.ended()]

    text = "timed out waiting for all PodVolumeBackups to complete"
    assert errors == ([text] if recorded == "Failed" else [])
    [canceled] = [obj for obj in scene.cluster.of(PLURAL) if obj["spec"].get("cancel")]
    assert canceled["spec"]["volume"] == "late"
    kept = {obj["spec"]["volume"]: obj["status"] for obj in work.pod_volume_backups}
    assert {volume: status["phase"] for volume, status in kept.items()} == {
        "one": "Completed",
        "two": "Completed",
        "late": recorded,
    }
    assert kept["late"].get("snapshotID") == ("f00d" if recorded == "Completed" else None)


async def test_volumes_that_are_late_are_all_canceled_at_once(scene: PodVolumeScene) -> None:
    """Their agents so have the same time, and the backup does not wait for one after the other."""
    scene.answer = lambda _obj: {"phase": "InProgress"}
    work = PodVolumeBackups(scene.cluster.client, BACKUP, scene.run(scene.timeout(0.0), 0.01))
    asked = [
        await work.request(a_pod(empty_dir("data"), name=name), ["data"], scene.log) for name in ("p", "q")
    ]

    await asked[0].ended()

    assert [obj["spec"]["cancel"] for obj in scene.cluster.of(PLURAL)] == [True, True]
    before = len(scene.cluster.calls)
    assert len(await asked[1].ended()) == 1
    assert len(scene.cluster.calls) == before


async def test_a_pod_volume_backup_that_is_claimed_while_it_is_canceled_gets_spec_cancel(
    scene: PodVolumeScene,
) -> None:
    scene.answer = silent
    work = backups(scene, scene.timeout(0.0))

    def claim(method: str, plural: str, name: str) -> None:
        obj = scene.cluster.peek(plural, name) or {}
        if method == "patch" and not scene.cluster.patches:
            scene.cluster.before = lambda *_call: None
            obj["status"] |= {"phase": "InProgress"}
            obj["metadata"]["resourceVersion"] = "of the claim"

    scene.cluster.before = claim
    await back_up(work, a_pod(empty_dir("data")), ["data"], scene.log)

    [obj] = scene.cluster.of(PLURAL)
    assert (obj["status"]["phase"], obj["spec"]["cancel"]) == ("InProgress", True)


async def test_a_watch_that_does_not_begin_is_an_error(scene: PodVolumeScene) -> None:
    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    scene.outcomes._wait_for_sync = never
    work = backups(scene, scene.timeout(0.0))

    [error] = await back_up(work, a_pod(empty_dir("data")), ["data"], scene.log)

    assert str(error) == "timed out waiting for caches to sync"
    assert scene.cluster.of(PLURAL) == []


async def test_without_repository_no_pod_volume_backup_is_created(scene: PodVolumeScene) -> None:
    repository = scene.cluster.stored("backuprepositories", "repo")
    repository["status"] = {"phase": "NotReady", "message": "m"}
    repository["metadata"]["annotations"] = {labels.INITIALIZE_REPOSITORY: "true"}

    [error] = await back_up(backups(scene), a_pod(empty_dir("data")), ["data"], scene.log)

    assert str(error) == "restic repository is not ready: m"
    assert scene.cluster.of(PLURAL) == []


@pytest.mark.spec("PVL-057")
async def test_a_pod_shares_the_repository_until_its_volumes_are_done(scene: PodVolumeScene) -> None:
    scene.answer = silent
    work = backups(scene)
    task = asyncio.create_task(back_up(work, a_pod(empty_dir("data")), ["data"], scene.log))
    await scene.created.wait()
    prune = asyncio.create_task(_prune(scene))
    await settled()
    assert not prune.done()

    obj = scene.cluster.of(PLURAL)[0]
    scene.outcomes.seen({**obj, "status": {"phase": "Completed"}})

    assert await task == []
    await prune


async def test_a_backup_that_is_cut_short_gives_the_repository_back(scene: PodVolumeScene) -> None:
    scene.answer = silent
    work = backups(scene)
    await work.request(a_pod(empty_dir("data")), ["data"], scene.log)
    prune = asyncio.create_task(_prune(scene))
    await settled()
    assert not prune.done()

    await work.close()

    await prune


@pytest.mark.found("E-F8")
async def test_the_volumes_of_a_second_pod_are_asked_for_before_those_of_the_first_are_saved(
    scene: PodVolumeScene,
) -> None:
    scene.answer = silent
    work = backups(scene)
    pods = [a_pod(empty_dir("data"), name=name) for name in ("p", "q")]

    first, second = [await work.request(pod, ["data"], scene.log) for pod in pods]

    one, two = scene.cluster.of(PLURAL)
    waiting = [asyncio.create_task(asked.ended()) for asked in (first, second)]
    scene.outcomes.seen({**two, "status": {"phase": "Completed"}})
    assert await waiting[1] == []
    assert not waiting[0].done()
    scene.outcomes.seen({**one, "status": {"phase": "Completed"}})
    assert await waiting[0] == []


async def _prune(scene: PodVolumeScene) -> None:
    async with scene.locks.exclusive("repo"):
        return


async def test_a_timeout_that_cannot_be_read_is_one_error_of_the_backup(scene: PodVolumeScene) -> None:
    timeout = Timeout({"velero.io/pod-volume-timeout": "soon"}, Duration.minutes(1))
    work = backups(scene, timeout)

    for _ in range(2):
        assert await back_up(work, a_pod(empty_dir("data")), ["data"], scene.log) == []

    assert scene.log.errors == 1


@pytest.mark.parametrize(
    ("annotations", "duration", "is_bad"),
    [
        ({}, Duration.hours(4), False),
        ({"velero.io/pod-volume-timeout": "90s"}, Duration.seconds(90), False),
        ({"velero.io/pod-volume-timeout": "soon"}, Duration.hours(4), True),
    ],
)
def test_the_timeout_of_an_annotation_or_the_default(
    annotations: dict[str, str], duration: Duration, is_bad: bool
) -> None:
    found, problem = parse_timeout(annotations, Duration.hours(4))

    assert (found, problem is not None) == (duration, is_bad)


@pytest.mark.spec("KOP-006")
async def test_a_snapshot_that_lacks_files_is_a_warning_of_the_backup(scene: PodVolumeScene) -> None:
    def lacking(obj: JSONObject) -> JSONObject:
        return {**completed(obj), "message": "sockets were not saved: s"}

    scene.answer = lacking

    errors = await back_up(backups(scene), a_pod(empty_dir("one")), ["one"], scene.log)

    assert errors == []
    assert scene.log.warnings == 1


@pytest.mark.found("DOC16")
@pytest.mark.parametrize(
    "says", [{"os": {"name": "windows"}}, {"nodeSelector": {"kubernetes.io/os": "windows"}}]
)
async def test_volumes_of_a_pod_on_a_windows_node_are_errors_at_once(
    scene: PodVolumeScene, says: JSONObject
) -> None:
    pod = a_pod(empty_dir("one"), empty_dir("two"))
    pod["spec"] |= says

    errors = await back_up(backups(scene), pod, ["one", "two"], scene.log)

    assert [str(error).partition(":")[0] for error in errors] == [
        f"volume {volume} of the pod is not saved, as the pod needs a Windows node, where no node agent runs"
        for volume in ("one", "two")
    ]
    assert scene.cluster.of(PLURAL) == []
