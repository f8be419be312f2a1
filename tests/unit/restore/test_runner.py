"""One restore from download to results, against a store in a directory and a cluster in a dict."""

import asyncio
import gzip
import io
import tarfile
from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path
from typing import Any

import orjson
import pytest

from pinnace.api.labels import OUTCOMES
from pinnace.api.phases import RestorePhase
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import APIResource
from pinnace.signing.keys import Ed25519Signer
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError, StoreUnavailable
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from pinnace.storage.own_settings import Signatures
from pinnace.storage.patience import Patience
from tests.support.clock import HurriedClock
from tests.unit.restore.stage import Stage
from tests.unit.restore.world import (
    configmap,
)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    made = Stage(tmp_path)
    yield made
    assert list(made.workdir.iterdir()) == [], "a restore leaves nothing in its work directory"
    await made.store.close()


async def test_a_clean_restore_is_completed(stage: Stage) -> None:
    await stage.put_backup(configmap("a"), configmap("b"))

    done = await stage.restore()

    assert done.status.phase == RestorePhase.COMPLETED
    assert (done.status.warnings, done.status.errors, done.status.failure_reason) == (0, 0, "")
    assert done.status.completion_timestamp == stage.clock.now()
    assert done.status.start_timestamp != done.status.completion_timestamp
    assert done.status.progress is not None
    assert (done.status.progress.total_items, done.status.progress.items_restored) == (3, 3)
    assert done.metadata.annotations[OUTCOMES] == "created=3"
    assert await stage.results() == {"errors": {}, "warnings": {}}
    lines = (await stage.log()).splitlines()
    assert lines
    assert all(" restore=velero/restore-1" in line for line in lines)
    assert any(
        "Restored 3 items out of an estimated total of 3 (estimate will change" in line for line in lines
    )


@pytest.mark.parametrize("is_broken", [False, True], ids=["restored", "with a defect"])
async def test_the_worker_is_needed_while_items_are_restored_and_not_for_the_upload(
    stage: Stage, is_broken: bool
) -> None:
    await stage.put_backup(configmap("a"))
    events, create, upload = stage.slot.events, stage.world.create_bytes, stage.store.put_restore_log

    async def create_bytes(
        resource: APIResource, body: bytes, namespace: str | None = None, **options: Any
    ) -> bytes:
        events.append("create")
        if is_broken:
            raise AssertionError("a defect")
        return await create(resource, body, namespace, **options)

    async def put_restore_log(restore: str, log: Path) -> None:
        events.append("upload")
        await upload(restore, log)

    stage.world.create_bytes = create_bytes  # type: ignore[method-assign]
    stage.store.put_restore_log = put_restore_log  # type: ignore[method-assign]

    done = await stage.restore()

    assert done.status.phase == (RestorePhase.FAILED if is_broken else RestorePhase.COMPLETED)
    order = [event for event, _ in groupby(events)]
    assert order == ["lent", "taken", "create", "given back", "upload"]


@pytest.mark.found("U7")
@pytest.mark.spec("RST-034")
async def test_an_archive_of_nothing_is_completed_with_a_warning(stage: Stage) -> None:
    await stage.put_backup()

    done = await stage.restore()

    assert (done.status.phase, done.status.errors) == (RestorePhase.COMPLETED, 0)
    text = "nothing was restored: the backup holds no object"
    assert await stage.results() == {"errors": {}, "warnings": {"velero": [text]}}


@pytest.mark.spec("RST-015", "CTL-051")
async def test_an_error_of_an_item_makes_it_partially_failed(stage: Stage) -> None:
    await stage.put_backup(configmap("a"))
    stage.world.refuse("create", ("configmaps", "ns-1", "a"), Forbidden(403, message="you may not"))

    done = await stage.restore()

    assert done.status.phase == RestorePhase.PARTIALLY_FAILED
    assert (done.status.warnings, done.status.errors) == (0, 1)
    text = "error restoring configmaps/ns-1/a: you may not"
    assert await stage.results() == {"errors": {"namespaces": {"ns-1": [text]}}, "warnings": {}}
    assert f'level=error msg="{text}"' in await stage.log()


@pytest.mark.found("E-F2")
async def test_a_location_that_was_moved_meanwhile_is_a_warning(stage: Stage) -> None:
    """The results are stored where the location is now, as they are read there."""
    await stage.put_backup(configmap("a"))
    stage.moved = "it was moved"

    done = await stage.restore()

    assert (done.status.phase, done.status.warnings) == (RestorePhase.COMPLETED, 1)
    said = "it was moved. What is stored of the restore is there, its backup may not be"
    assert await stage.results() == {"errors": {}, "warnings": {"velero": [said]}}
    assert f'level=warning msg="{said}"' in await stage.log()


@pytest.mark.spec("RST-017")
async def test_warnings_alone_leave_it_completed(stage: Stage) -> None:
    await stage.put_backup(configmap("a", data={"x": "ours"}), configmap("b", data={"x": "ours"}))
    stage.world.put(configmap("a", data={"x": "theirs"}))
    stage.world.put(configmap("b", data={"x": "theirs"}))

    done = await stage.restore()

    assert done.status.phase == RestorePhase.COMPLETED
    assert (done.status.warnings, done.status.errors) == (2, 0)


@pytest.mark.parametrize("altered", [".tar.gz", "-pinnace-manifest.json", "-volumesnapshots.json.gz", ""])
async def test_a_signed_backup_that_was_altered_creates_nothing(stage: Stage, altered: str) -> None:
    key = Ed25519Signer.generate()
    stage.store.signed(Signatures(key=key, trusted=(key.public,), required=True))
    await stage.put_backup(configmap("a"))
    (directory,) = [path.parent for path in stage.workdir.parent.rglob("velero-backup.json")]
    if altered:
        file = directory / f"{directory.name}{altered}"
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    stage.store.signed(Signatures(trusted=(key.public,), required=True))

    done = await stage.restore()

    created = bool(stage.world.created)
    assert created == (not altered)
    assert done.status.phase == (RestorePhase.FAILED if altered else RestorePhase.COMPLETED)
    if altered:
        assert f"{directory.name}{altered}" in done.status.failure_reason
        assert done.status.failure_reason in await stage.log()


@pytest.mark.spec("RST-014", "CTL-051")
async def test_a_download_that_fails_makes_it_failed_with_a_log_but_no_results(stage: Stage) -> None:
    done = await stage.restore()

    assert done.status.phase == RestorePhase.FAILED
    assert done.status.failure_reason.startswith("error downloading backup: ")
    assert done.status.completion_timestamp == stage.clock.now()
    assert (done.status.warnings, done.status.errors) == (0, 0)
    assert done.status.failure_reason in await stage.log()
    with pytest.raises(StorageError):
        await stage.results()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("actions", "error getting restore item actions: boom"),
        ("backups", "error listing pod volume backups: you may not list"),
        ("snapshots", "error fetching volume snapshots metadata: broken"),
    ],
)
async def test_what_keeps_a_restore_from_running_makes_it_failed(
    stage: Stage, fault: str, reason: str
) -> None:
    await stage.put_backup(configmap("a"))
    stage.fail_actions = "error getting restore item actions: boom" if fault == "actions" else ""
    stage.fail_backups = fault == "backups"
    if fault == "snapshots":
        stage.store.faults["read_snapshots"] = StorageError("broken")

    done = await stage.restore()

    assert (done.status.phase, done.status.failure_reason) == (RestorePhase.FAILED, reason)
    assert stage.world.created == []
    assert reason in await stage.log()


async def test_a_store_that_cannot_be_opened_again_makes_it_failed(stage: Stage) -> None:
    await stage.put_backup(configmap("a"))
    stage.fail_reopening = True

    done = await stage.restore()

    assert done.status.phase == RestorePhase.FAILED
    assert done.status.failure_reason == (
        "error setting up backup store to persist log and results files: no answer"
    )
    assert stage.world.created_of("configmaps") == ["ns-1/a"]


@pytest.mark.spec("RST-016", "CTL-051")
async def test_a_log_that_cannot_be_stored_is_an_error(stage: Stage) -> None:
    await stage.put_backup(configmap("a"))
    stage.store.faults["put_restore_log"] = StorageError("disk full")

    done = await stage.restore()

    assert (done.status.phase, done.status.errors) == (RestorePhase.PARTIALLY_FAILED, 1)
    assert (await stage.results())["errors"] == {
        "velero": ["error uploading log file to backup storage: disk full"]
    }


@pytest.mark.found("L6")
@pytest.mark.parametrize("method", ["put_restore_log", "put_restore_results"])
async def test_a_store_that_is_away_at_the_end_gets_log_and_results_when_it_is_back(
    stage: Stage, method: str
) -> None:
    await stage.put_backup(configmap("a"))
    stage.store.faults[method] = StoreUnavailable("connection refused")

    def back_again(_: str) -> None:
        stage.store.faults.clear()

    stage.patience = Patience(back_again, clock=HurriedClock())
    done = await stage.restore()

    assert (done.status.phase, done.status.errors) == (RestorePhase.COMPLETED, 0)
    assert await stage.results() == {"errors": {}, "warnings": {}}
    assert "restore completed" in await stage.log()


@pytest.mark.spec("CTL-051")
async def test_results_that_cannot_be_stored_do_not_change_the_outcome(stage: Stage) -> None:
    await stage.put_backup(configmap("a"))
    stage.store.faults["put_restore_results"] = StorageError("disk full")

    done = await stage.restore()

    assert (done.status.phase, done.status.errors) == (RestorePhase.COMPLETED, 0)


@pytest.mark.parametrize(
    "contents", [b"", b"no gzip", gzip.compress(b"no tar" * 100)], ids=["empty", "no gzip", "no tar"]
)
async def test_an_archive_that_cannot_be_read_is_one_velero_error(stage: Stage, contents: bytes) -> None:
    await stage.put_backup(contents=contents)

    done = await stage.restore()

    assert (done.status.phase, done.status.errors) == (RestorePhase.PARTIALLY_FAILED, 1)
    errors = (await stage.results())["errors"]
    assert list(errors) == ["velero"]
    assert stage.world.created == []


@pytest.mark.spec("RST-036")
async def test_an_archive_that_would_leave_its_directory_is_refused(stage: Stage, tmp_path: Path) -> None:
    item = orjson.dumps(configmap("a"))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name in ("resources/configmaps/namespaces/ns-1/a.json", "../../x"):
            member = tarfile.TarInfo(name)
            member.size = len(item)
            tar.addfile(member, io.BytesIO(item))
    await stage.put_backup(contents=buffer.getvalue())
    done = await stage.restore()

    assert (done.status.phase, done.status.errors) == (RestorePhase.PARTIALLY_FAILED, 1)
    assert stage.world.created == []
    assert [path for path in _everything_below(tmp_path) if path.name == "x"] == []


async def test_a_cancelled_restore_leaves_no_task_and_no_file_and_can_be_run_again(stage: Stage) -> None:
    await stage.put_backup(*(configmap(str(index)) for index in range(100)))
    create, reached = stage.world.create_bytes, asyncio.Event()

    async def hang(resource: APIResource, body: bytes, namespace: str | None = None, **options: Any) -> bytes:
        answer = await create(resource, body, namespace, **options)
        if len(stage.world.created) == 50:
            reached.set()
            await asyncio.Event().wait()
        return answer

    stage.world.create_bytes = hang  # type: ignore[method-assign]
    running = asyncio.create_task(stage.restore())
    await reached.wait()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()

    stage.world.create_bytes = create  # type: ignore[method-assign]
    done = await stage.restore()

    assert (done.status.phase, done.status.warnings) == (RestorePhase.COMPLETED, 0)
    assert len(stage.world.created_of("configmaps")) == 100


async def test_a_work_directory_that_is_not_there_makes_it_failed(stage: Stage, tmp_path: Path) -> None:
    await stage.put_backup(configmap("a"))
    real, stage.workdir = stage.workdir, tmp_path / "missing"

    done = await stage.restore()

    stage.workdir = real
    assert done.status.phase == RestorePhase.FAILED
    assert done.status.failure_reason.startswith("error making temporary files: ")


def _everything_below(directory: Path) -> list[Path]:
    return list(directory.rglob("*"))


async def test_a_reopened_store_that_cannot_be_closed_does_not_change_the_outcome(
    stage: Stage, tmp_path: Path
) -> None:
    class Stubborn(BackupStore):
        async def close(self) -> None:
            raise OSError("cannot be closed")

    await stage.put_backup(configmap("a"), configmap("b"))
    stage.reopened = Stubborn(FilesystemStore(tmp_path / "bucket"), Layout(""), location="default")

    assert (await stage.restore()).status.phase == RestorePhase.COMPLETED


async def test_a_restore_without_volumes_stores_an_empty_list_of_them(
    stage: Stage,
) -> None:
    await stage.put_backup(configmap("a"))

    await stage.restore()

    async with stage.store.read_bytes(DownloadTargetKind.RESTORE_VOLUME_INFO, "restore-1") as stream:
        assert gzip.decompress(b"".join([chunk async for chunk in stream])) == b"null\n"
