"""A backup whose process is killed or interrupted leaves a whole backup or none, and its name is free."""

import asyncio
import dataclasses
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import DropResponse, Rule, Stall
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.api.phases import BackupPhase
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from tests.integration.faults import killed_writes
from tests.integration.faults.commands import COMMAND_SECONDS, CommandLine
from tests.integration.faults.world import SELECTED, Lab, stored_keys
from tests.support.clock import HurriedClock
from tests.support.faulty_parts import OpenBucket

StartProxy = Callable[[ControlPlane | S3Server], Awaitable[FaultProxy]]

FILES = 10
FAILED, INTERRUPTED = 4, 130
SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture
def command_line(control_plane: ControlPlane, s3: S3Server, tmp_path: Path) -> CommandLine:
    return CommandLine(
        directory=tmp_path, kubeconfig=control_plane.kubeconfig, credentials=s3.credentials_file
    )


def create(lab: Lab, name: str = "b1") -> list[str]:
    """The arguments that back up the application."""
    return [
        *("backup", "create", name, "--include-namespaces", lab.namespace),
        *("--include-resources", ",".join(SELECTED), "--include-cluster-resources=false"),
    ]


def directory_store(root: Path) -> BackupStore:
    return BackupStore(FilesystemStore(root), Layout(""), location="default", clock=HurriedClock())


def files_below(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


async def test_a_backup_killed_at_any_step_leaves_a_whole_backup_or_none_in_a_folder(
    lab: Lab, command_line: CommandLine, tmp_path: Path
) -> None:
    """Every step on the disk: spool file opened, block written, file published, spool file dropped."""
    locations, temporary = tmp_path / "locations", tmp_path / "tmp"
    locations.mkdir()
    temporary.mkdir()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, killed_writes.__file__, str(locations), *create(lab)),
        stdout=asyncio.subprocess.PIPE,
        env=command_line.environment(temporary),
    )
    async with asyncio.timeout(3 * COMMAND_SECONDS):
        out, _ = await process.communicate()
    ends = {int(number): int(end) for number, end in map(str.split, out.decode().splitlines())}

    last = len(ends)
    assert list(ends.values()) == [-signal.SIGKILL] * (last - 1) + [0]
    assert last > FILES * 3
    finished = [number for number in ends if await look_at_what_was_killed(lab, locations / str(number))]
    # Once the metadata is there all is there; that happens in the last steps only.
    assert finished == list(range(finished[0], last + 1))
    assert len(finished) <= 3


async def look_at_what_was_killed(lab: Lab, root: Path) -> bool:
    """Return whether the backup exists. Assert that it is whole, or else that its name can be used again."""
    async with directory_store(root) as store:
        if await store.exists("b1"):
            stored = await store.read_backup("b1")
            assert stored.status.phase == BackupPhase.COMPLETED
            # A claim that could not be deleted does no harm.
            left = [key for key in await stored_keys(store) if not key.endswith("-pinnace-writer.json")]
            assert len(left) == FILES
            await lab.assert_whole(store)
            return True
        done = await lab.back_up(store)
    assert done.status.phase == BackupPhase.COMPLETED
    files = files_below(root)
    assert len(files) == FILES
    assert all(file.startswith("backups/b1/") for file in files)
    return False


async def test_a_killed_backup_is_not_listed_and_its_name_is_free(
    lab: Lab, command_line: CommandLine, control_plane: ControlPlane, fault_proxy: StartProxy, tmp_path: Path
) -> None:
    """The command is killed while it still reads the cluster."""
    proxy = await fault_proxy(control_plane)
    held = proxy.rules.add(Stall(), path="/secrets$")
    slow = CommandLine(
        directory=tmp_path, kubeconfig=control_plane.write_kubeconfig(tmp_path / "slow", server=proxy.url)
    )
    at = ["--location", str(tmp_path / "store")]
    async with slow.started(*at, *create(lab)) as command:
        await held.struck()
        command.send(signal.SIGKILL)
        assert (await command.ended()).code == -signal.SIGKILL
    left = files_below(tmp_path / "tmp")
    assert any(file.endswith("/contents.tar.gz") for file in left)
    # It had written nothing but the claim on its name.
    assert files_below(tmp_path / "store") == ["backups/b1/b1-pinnace-writer.json"]
    listed = await command_line.run(*at, "backup", "get")
    assert (listed.code, listed.out) == (0, "")

    again = await command_line.run(*at, *create(lab))  # watches the claim first: nobody renews it
    assert again.code == 0, again
    assert "was begun by" in again.err
    # What was spooled may hold Secrets: the next command removes it.
    assert files_below(tmp_path / "tmp") == []
    listed = await command_line.run(*at, "backup", "get")
    assert "b1" in listed.out
    assert "Completed" in listed.out
    async with directory_store(tmp_path / "store") as store:
        await lab.assert_whole(store)


WRITES = [
    pytest.param(1, id="claim"),
    pytest.param(2, id="log"),
    pytest.param(3, id="first-file"),
    pytest.param(6, id="half-of-the-files"),
    pytest.param(FILES + 1, id="metadata"),
]


@pytest.mark.parametrize("number", WRITES)
async def test_a_backup_killed_before_any_write_leaves_no_backup_in_a_bucket(
    lab: Lab,
    command_line: CommandLine,
    s3: S3Server,
    bucket: Bucket,
    fault_proxy: StartProxy,
    open_bucket: OpenBucket,
    number: int,
) -> None:
    proxy = await fault_proxy(s3)
    held = proxy.rules.add(Stall(), method="PUT", skip=number - 1)
    async with command_line.started("--location", url_of(bucket, proxy), *create(lab)) as command:
        await held.struck()
        command.send(signal.SIGKILL)
        assert (await command.ended()).code == -signal.SIGKILL
    # Held requests are not passed on: their sender is dead.
    proxy.rules.clear()

    store = open_bucket(bucket)
    assert not await store.exists("b1")
    assert (await lab.back_up(store)).status.phase == BackupPhase.COMPLETED
    assert len(await stored_keys(store)) == FILES
    await lab.assert_whole(store)


async def test_a_backup_killed_before_the_last_answer_is_whole_in_a_bucket(
    lab: Lab,
    command_line: CommandLine,
    s3: S3Server,
    bucket: Bucket,
    fault_proxy: StartProxy,
    open_bucket: OpenBucket,
) -> None:
    proxy = await fault_proxy(s3)
    held = hold_after_metadata(proxy)
    async with command_line.started("--location", url_of(bucket, proxy), *create(lab)) as command:
        await held.struck()
        command.send(signal.SIGKILL)
        assert (await command.ended()).code == -signal.SIGKILL

    await lab.assert_whole(open_bucket(bucket))


def url_of(bucket: Bucket, proxy: FaultProxy) -> str:
    """The location as the command line takes it, through the proxy."""
    return f"s3://{bucket.name}?region={bucket.server.region}&s3ForcePathStyle=true&s3Url={proxy.url}"


def hold_after_metadata(proxy: FaultProxy) -> Rule:
    """Drop the answer to the last write, which is carried out, and hold the second attempt."""
    proxy.rules.add(DropResponse(), method="PUT", path="/velero-backup.json$", times=1)
    return proxy.rules.add(Stall(), method="PUT", path="/velero-backup.json$")


@pytest.mark.parametrize("signum", SIGNALS)
async def test_a_backup_interrupted_while_reading_the_cluster_leaves_nothing(
    lab: Lab, control_plane: ControlPlane, fault_proxy: StartProxy, tmp_path: Path, signum: signal.Signals
) -> None:
    proxy = await fault_proxy(control_plane)
    held = proxy.rules.add(Stall(), path="/secrets$")
    kubeconfig = control_plane.write_kubeconfig(tmp_path / "slow", server=proxy.url)
    slow = CommandLine(directory=tmp_path, kubeconfig=kubeconfig)
    async with slow.started("--location", str(tmp_path / "store"), *create(lab)) as command:
        await held.struck()
        command.send(signum)
        ended = await command.ended()

    assert ended.code == INTERRUPTED
    assert "Completed" not in ended.out
    assert files_below(command.temporary) == []
    assert list((tmp_path / "store").iterdir()) == []


@pytest.mark.parametrize("file", ["b1-logs.gz", "b1.tar.gz", "velero-backup.json", "metadata-stored"])
async def test_a_backup_interrupted_while_writing_to_a_bucket_is_taken_back(
    lab: Lab,
    command_line: CommandLine,
    s3: S3Server,
    bucket: Bucket,
    fault_proxy: StartProxy,
    open_bucket: OpenBucket,
    file: str,
) -> None:
    """The command removes what it stored, whatever the outcome of the write in flight."""
    proxy = await fault_proxy(s3)
    if file == "metadata-stored":
        held = hold_after_metadata(proxy)
    else:
        held = proxy.rules.add(Stall(), method="PUT", path=f"/{file}$", times=1)
    async with command_line.started("--location", url_of(bucket, proxy), *create(lab)) as command:
        await held.struck()
        command.send(signal.SIGTERM)
        held.release()
        ended = await command.ended()

    assert ended.code == INTERRUPTED
    assert "Completed" not in ended.out
    assert files_below(command.temporary) == []
    await lab.assert_no_backup(open_bucket(bucket))


async def test_a_limit_on_file_sizes_fails_the_backup(
    lab: Lab, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """The kernel refuses what a file grows beyond 1 KiB, in the temporary files and in the location alike."""
    limited = CommandLine(
        directory=tmp_path,
        kubeconfig=control_plane.kubeconfig,
        wrapper=("sh", "-c", 'ulimit -f 2; exec "$@"', "sh"),
    )
    ended = await limited.run("--location", str(tmp_path / "store"), *create(lab))

    assert ended.code == FAILED
    assert "Backup b1 Failed" in ended.out
    assert "File too large" in ended.err
    async with directory_store(tmp_path / "store") as store:
        await lab.assert_no_backup(store)
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("files", [18, 20, 22, 24, 28, 40])
async def test_too_few_descriptors_leave_a_whole_backup_or_an_error_with_a_hint(
    lab: Lab, command_line: CommandLine, tmp_path: Path, files: int
) -> None:
    limited = dataclasses.replace(command_line, wrapper=("prlimit", f"--nofile={files}"))
    location = tmp_path / "location"
    location.mkdir()
    async with limited.started("--location", str(location), *create(lab)) as command:
        ended = await command.ended()

    store = directory_store(location)
    said = ended.out + ended.err
    if await store.exists("b1"):
        assert (await store.read_backup("b1")).status.phase == BackupPhase.COMPLETED
        assert ended.code == 0
        await lab.assert_whole(store)
    else:
        assert ended.code != 0
        assert "ulimit -" in said
    assert "already running" not in said
    assert [path for path in (tmp_path / "tmp").rglob("*") if path.is_file()] == []


@pytest.fixture
def small_temporary(tmp_path: Path) -> Iterator[Callable[[int], None]]:
    """A function that mounts a file system of so many pages where commands keep temporary files."""
    directory = tmp_path / "tmp"
    directory.mkdir()

    def mount(pages: int) -> None:
        command = ["mount", "-t", "tmpfs", "-o", f"size={pages * 4096}", "tmpfs", str(directory)]
        mounted = subprocess.run(command, check=False, capture_output=True, text=True)
        if mounted.returncode != 0:
            pytest.skip(f"needs the right to mount a tmpfs: {mounted.stderr.strip()}")

    yield mount
    subprocess.run(["umount", "--lazy", str(directory)], check=False, capture_output=True)


@pytest.mark.parametrize("pages", [1, 2, 3, 4, 6])
async def test_a_full_temporary_folder_is_named_with_what_helps_and_without_noise(
    lab: Lab, command_line: CommandLine, small_temporary: Callable[[int], None], tmp_path: Path, pages: int
) -> None:
    location = tmp_path / "location"
    location.mkdir()
    assert (await lab.back_up(directory_store(location), name="whole")).status.phase == BackupPhase.COMPLETED
    small_temporary(pages)
    restore = ["restore", "create", "r1", "--from-backup", "whole", "--include-resources", "configmaps"]
    for arguments in (create(lab), restore):
        async with command_line.started("--location", str(location), *arguments) as command:
            ended = await command.ended()

        for noise in ("already running", "asynchronous generator", "never retrieved", "Exception ignored"):
            assert noise not in ended.err
        if ended.code != 0 and arguments is not restore:  # a restore's errors are in its results
            assert "No space left on device" in ended.out + ended.err
            assert "TMPDIR" in ended.out + ended.err
