"""If any step fails with any error, the returned Backup says what the location holds."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from pinnace.aio.temporary import problem_text, temporary_folder
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup
from pinnace.archive.runlog import RunLog
from pinnace.archive.writer import ArchiveWriter
from pinnace.backup import runner
from pinnace.backup.engine import BackupEngine
from pinnace.kube.resources import CONFIGMAPS
from pinnace.runs.context import ReopenedStore
from pinnace.storage.backup_files import BackupFiles
from pinnace.storage.errors import StorageError, StoreUnavailable
from tests.support.failing import Break, failing_at
from tests.support.runs.backup_runs import Store, prepared
from tests.support.runs.context import run_context
from tests.unit.backup.fakes import discovery_of, two_a_page

STEPS: dict[str, Break] = {
    "folder": failing_at(tempfile, "mkdtemp"),
    "log made": failing_at(RunLog, "__init__"),
    "log closed": failing_at(RunLog, "close"),
    "tarball opened": failing_at(ArchiveWriter, "__aenter__"),
    "tarball written": failing_at(ArchiveWriter, "_write"),
    "engine": failing_at(BackupEngine, "run"),
    "metadata encoded": failing_at(runner, "encode_metadata"),
    "files encoded": failing_at(BackupFiles, "encoded"),
    "looked for": failing_at(Store, "exists"),
    "upload": failing_at(Store, "put_backup"),
    "closed": failing_at(Store, "close", after=True),
    "folder removed": failing_at(shutil, "rmtree"),
}
ERRORS = [
    OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
    OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    StoreUnavailable("the store is away"),
    RuntimeError("can't start new thread"),
]
OF_THE_SYSTEM = ("folder", "log made", "log closed", "folder removed")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__ + str(error)[:10])
async def test_the_returned_backup_is_the_stored_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception
) -> None:
    if step in OF_THE_SYSTEM and not isinstance(error, OSError):
        pytest.skip("only the system's errors come from there")
    store, reopened = Store(tmp_path / "store"), Store(tmp_path / "store")

    async def reopen() -> ReopenedStore:
        return ReopenedStore(reopened)

    with monkeypatch.context() as patch:
        STEPS[step](patch, error)
        done = await runner.execute_backup(
            prepared(),
            run_context(
                store,
                two_a_page().add_all(CONFIGMAPS, "ns/a"),
                discovery_of(),
                tmp_path,
                reopen_store=reopen,
            ),
            actions=(),
        )

    assert_one_decision(done, Store(tmp_path / "store"), at_least_log="removed" in step or step == "closed")


def assert_one_decision(done: Backup, store: Store, *, at_least_log: bool) -> None:
    if (store.root / "backups/b1/velero-backup.json").exists():
        assert done.status.phase == store.metadata()["status"]["phase"]
        assert (store.root / "backups/b1/b1.tar.gz").exists()
    else:
        assert done.status.phase == BackupPhase.FAILED
        assert done.status.failure_reason
        assert "\n" not in done.status.failure_reason
        assert not at_least_log, "a step after the upload took the backup back"
    assert done.status.completion_timestamp is not None


@pytest.mark.parametrize("suffix", ["b1.tar.gz", "velero-backup.json", "b1-resource-list.json.gz"])
@pytest.mark.parametrize(
    "error", [OSError(errno.EMFILE, "x"), StorageError("x"), RuntimeError("x")], ids=repr
)
async def test_an_upload_that_breaks_at_any_file_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, error: Exception
) -> None:
    store = Store(tmp_path / "store")
    real = store._store.size

    async def size(key: str) -> int:
        if key.endswith(suffix):
            raise error
        return await real(key)

    monkeypatch.setattr(store._store, "size", size)
    done = await runner.execute_backup(
        prepared(),
        run_context(store, two_a_page().add_all(CONFIGMAPS, "ns/a"), discovery_of(), tmp_path),
        actions=(),
    )

    assert done.status.phase == BackupPhase.FAILED
    assert store.stored() == ["b1-logs.gz"]


def test_a_temporary_folder_that_cannot_be_listed_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when there is no file descriptor left; the folder may hold a copy of every Secret."""
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)
        with temporary_folder(tmp_path, "backup-") as folder:
            (folder / "contents.tar.gz").write_bytes(b"x")
            (folder / "log.gz").write_bytes(b"x")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (
            errno.ENOSPC,
            "No space left on device in /tmp/x: free space there, or name another folder in TMPDIR",
        ),
        (errno.EACCES, "Permission denied in /tmp/x: name a writable folder in TMPDIR"),
        (
            errno.EMFILE,
            "Too many open files: raise the limit of this process (ulimit -n)",
        ),
        (errno.EIO, "Input/output error"),
    ],
)
def test_an_error_of_the_system_says_what_to_do(number: int, text: str) -> None:
    assert problem_text(Path("/tmp/x"), OSError(number, os.strerror(number))).startswith(text)
