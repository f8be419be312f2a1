"""If any step fails with any error, a restore ends, and is Completed only if all of it was done."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from pinnace.api.phases import RestorePhase
from pinnace.api.values.error_texts import NO_MORE_THREADS
from pinnace.archive.reader import ArchiveIndex
from pinnace.archive.runlog import RunLog
from pinnace.restore.engine import RestoreEngine
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StoreUnavailable
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.failing import Break, failing_at
from tests.unit.restore.stage import Stage
from tests.unit.restore.world import Numbers, configmap

STEPS: dict[str, Break] = {
    "folder made": failing_at(tempfile, "mkdtemp"),
    "log made": failing_at(RunLog, "__init__"),
    "contents downloaded": failing_at(BackupStore, "download_contents"),
    "snapshots read": failing_at(BackupStore, "read_snapshots"),
    "volume infos read": failing_at(BackupStore, "read_volume_infos"),
    "archive opened": failing_at(ArchiveIndex, "open"),
    "archive closed": failing_at(ArchiveIndex, "__exit__", after=True),
    "engine": failing_at(RestoreEngine, "run"),
    "engine's end": failing_at(RestoreEngine, "run", after=True),
    "created": failing_at(ScriptedCluster, "create_bytes"),
    "progress": failing_at(Numbers, "publish"),
    "log closed": failing_at(RunLog, "close"),
    "log stored": failing_at(BackupStore, "put_restore_log"),
    "results stored": failing_at(BackupStore, "put_restore_results"),
    "folder removed": failing_at(shutil, "rmtree"),
}
ERRORS = [
    OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
    OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    StoreUnavailable("the store is away"),
    RuntimeError("can't start new thread"),
]
HARMLESS = {"results stored", "folder removed", "progress"}
"""Everything was restored when these fail, or they are not needed."""


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__ + str(error)[:10])
async def test_a_restore_ends_and_is_completed_only_if_all_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception
) -> None:
    stage = Stage(tmp_path)
    await stage.put_backup(configmap("a"))
    with monkeypatch.context() as patch:
        STEPS[step](patch, error)
        done = await stage.restore()

    status = done.status
    assert status.completion_timestamp is not None
    if status.phase == RestorePhase.COMPLETED:
        assert step in HARMLESS
        assert stage.world.objects
    elif status.phase == RestorePhase.PARTIALLY_FAILED:
        assert status.errors
    else:
        assert status.phase == RestorePhase.FAILED
        assert status.failure_reason
        assert "\n" not in status.failure_reason


async def test_a_defect_is_in_the_log_of_the_restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path)
    await stage.put_backup(configmap("a"))
    with monkeypatch.context() as patch:
        failing_at(RestoreEngine, "run")(patch, RuntimeError("can't start new thread"))
        done = await stage.restore()

    assert done.status.failure_reason == f"error running restore: {NO_MORE_THREADS}"
    assert "can't start new thread" in await stage.log()
