"""A restore whose process is killed or interrupted can be run again with the same result."""

import asyncio
import gzip
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import Stall
from hack.cluster.proxy import FaultProxy
from pinnace.api.labels import OUTCOMES
from pinnace.api.phases import RestorePhase
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.restore.journal import begun_restore
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import ObjectNotFound
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from tests.integration.faults import killed_writes
from tests.integration.faults.commands import COMMAND_SECONDS, CommandLine
from tests.integration.faults.world import Lab
from tests.support.servers.webhooks import document, listening

StartProxy = Callable[[ControlPlane], Awaitable[FaultProxy]]

PARTIALLY_FAILED, FAILED, INTERRUPTED = 3, 4, 130


@pytest.fixture
async def proxy(control_plane: ControlPlane, fault_proxy: StartProxy) -> FaultProxy:
    return await fault_proxy(control_plane)


@pytest.fixture
def command_line(control_plane: ControlPlane, tmp_path: Path) -> CommandLine:
    return CommandLine(directory=tmp_path, kubeconfig=control_plane.kubeconfig)


@pytest.fixture
def slow(control_plane: ControlPlane, proxy: FaultProxy, tmp_path: Path) -> CommandLine:
    """The command line through the proxy."""
    kubeconfig = control_plane.write_kubeconfig(tmp_path / "slow", server=proxy.url)
    return CommandLine(directory=tmp_path, kubeconfig=kubeconfig)


def restore(lab: Lab, tmp_path: Path, name: str, target: str) -> list[str]:
    mapping = f"{lab.namespace}:{target}"
    return [
        *("--location", str(tmp_path / "store"), "restore", "create", name),
        *("--from-backup", "b1", "--namespace-mappings", mapping),
    ]


POINTS = [
    pytest.param("/namespaces$", None, id="before-the-namespace"),
    pytest.param("/namespaces$", 0, id="namespace-created"),
    pytest.param("/secrets$", 0, id="first-kinds"),
    pytest.param("/configmaps$", None, id="in-the-middle"),
    pytest.param("/widgets$", 0, id="at-the-end"),
]


@pytest.mark.parametrize(("path", "after_bytes"), POINTS)
async def test_a_killed_restore_can_be_run_again(
    lab: Lab,
    stored: BackupStore,
    command_line: CommandLine,
    slow: CommandLine,
    proxy: FaultProxy,
    tmp_path: Path,
    path: str,
    after_bytes: int | None,
) -> None:
    target = lab.new_target()
    held = proxy.rules.add(Stall(after_bytes=after_bytes), method="POST", path=path)
    async with slow.started(*restore(lab, tmp_path, "r1", target)) as command:
        await held.struck()
        command.send(signal.SIGKILL)
        assert (await command.ended()).code == -signal.SIGKILL
    assert not await stored.has_restore("r1")

    again = await command_line.run(*restore(lab, tmp_path, "r2", target))
    assert again.code == 0, again.err
    restored = await stored.read_restore("r2")
    assert (restored.status.phase, restored.status.errors) == (RestorePhase.COMPLETED, 0)
    await lab.assert_same(target)


STEPS = 50
"""More than a restore writes."""


async def test_a_restore_that_is_killed_at_any_write_is_recorded_whole_or_not_at_all(
    lab: Lab, stored: BackupStore, command_line: CommandLine, tmp_path: Path
) -> None:
    locations, temporary, target = tmp_path / "locations", tmp_path / "killed-tmp", lab.new_target()
    temporary.mkdir()
    for number in range(1, STEPS):
        shutil.copytree(tmp_path / "store", locations / str(number))
    arguments = restore(lab, tmp_path, "r1", target)[2:]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, killed_writes.__file__, str(locations), *arguments),
        stdout=asyncio.subprocess.PIPE,
        env=command_line.environment(temporary),
    )
    async with asyncio.timeout(3 * COMMAND_SECONDS):
        out, _ = await process.communicate()
    ends = {int(number): int(end) for number, end in map(str.split, out.decode().splitlines())}

    last = len(ends)
    assert list(ends.values()) == [-signal.SIGKILL] * (last - 1) + [0]
    assert 6 < last < STEPS
    recorded = [number for number in ends if await look_at_what_was_killed(locations / str(number))]
    # The record is the last file: it is there in the last steps only.
    assert recorded == list(range(recorded[0], last + 1))
    assert len(recorded) <= 3
    await lab.assert_same(target)


async def look_at_what_was_killed(root: Path) -> bool:
    """Return whether the restore is recorded; assert that it is then Completed, with log and results."""
    async with BackupStore(FilesystemStore(root), Layout(""), location="default") as store:
        try:
            found = await store.read_restore("r1")
        except ObjectNotFound:
            return False
        assert (found.status.phase, found.status.errors) == (RestorePhase.COMPLETED, 0)
        assert await store.read_restore_results("r1") == {"errors": {}, "warnings": {}}
        async with store.read_text(DownloadTargetKind.RESTORE_LOG, "r1") as stream:
            assert b"restore completed" in b"".join([chunk async for chunk in stream])
    return True


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_restore_leaves_no_record_and_no_files(
    lab: Lab,
    stored: BackupStore,
    command_line: CommandLine,
    slow: CommandLine,
    proxy: FaultProxy,
    tmp_path: Path,
    signum: signal.Signals,
) -> None:
    target = lab.new_target()
    held = proxy.rules.add(Stall(), method="POST", path="/configmaps$")
    async with slow.started(*restore(lab, tmp_path, "r1", target)) as command:
        await held.struck()
        command.send(signum)
        ended = await command.ended()

    assert ended.code == INTERRUPTED
    assert "Completed" not in ended.out
    assert list(command.temporary.iterdir()) == []
    assert not await stored.has_restore("r1")
    assert "restore resume r1 --location" in ended.err
    # The same name serves again, and so does what was begun.
    if signum == signal.SIGINT:
        resumed = await command_line.run("--location", str(tmp_path / "store"), "restore", "resume", "r1")
    else:
        resumed = await command_line.run(*restore(lab, tmp_path, "r1", target))
        assert "was interrupted, and is begun from its start" in resumed.err
    assert resumed.code == 0, resumed.err
    await lab.assert_same(target)


async def test_a_killed_restore_that_is_resumed_ends_like_one_that_nobody_disturbed(
    lab: Lab,
    stored: BackupStore,
    command_line: CommandLine,
    slow: CommandLine,
    proxy: FaultProxy,
    tmp_path: Path,
) -> None:
    undisturbed, target = lab.new_target(), lab.new_target()
    assert (await command_line.run(*restore(lab, tmp_path, "r0", undisturbed))).code == 0
    held = proxy.rules.add(Stall(after_bytes=0), method="POST", path="/configmaps$")
    async with slow.started(*restore(lab, tmp_path, "r1", target)) as command:
        await held.struck()
        command.send(signal.SIGKILL)
        await command.ended()
    location = ["--location", str(tmp_path / "store")]

    messages = tmp_path / "messages.yaml"
    with listening() as hooks:
        messages.write_text(document(hooks))
        resumed = await command_line.run(
            *location, "restore", "resume", "r1", "--messages-file", str(messages)
        )

    assert resumed.code == 0, resumed.err
    assert hooks.paths == ["/ping/start", "/ping"]
    await lab.assert_same(target)
    wanted, found = await stored.read_restore("r0"), await stored.read_restore("r1")
    assert found.metadata.annotations[OUTCOMES] == wanted.metadata.annotations[OUTCOMES]
    assert (found.status.warnings, found.status.errors) == (wanted.status.warnings, wanted.status.errors)
    assert await begun_restore(stored, "r1") is None
    for name, said in (("r1", "has ended (Completed)"), ("nothing", "no restore named nothing")):
        refused = await command_line.run(*location, "restore", "resume", name)
        assert (refused.code, said in refused.err) == (2, True), refused.err


async def test_side_files_of_a_wrong_shape_fail_the_restore(
    lab: Lab, stored: BackupStore, command_line: CommandLine, tmp_path: Path
) -> None:
    """A user who may write to the location must not be able to crash the command."""
    side_file = tmp_path / "store" / "backups" / "b1" / "b1-podvolumebackups.json.gz"
    side_file.write_bytes(gzip.compress(b'[{"metadata": {"name": 5}, "spec": "x"}]'))
    ended = await command_line.run(*restore(lab, tmp_path, "r1", lab.new_target()))

    assert ended.code == FAILED
    assert "error listing pod volume backups" in ended.err


async def test_a_damaged_tarball_has_its_exit_code(
    lab: Lab, stored: BackupStore, command_line: CommandLine, tmp_path: Path
) -> None:
    tarball = tmp_path / "store" / "backups" / "b1" / "b1.tar.gz"
    tarball.write_bytes(tarball.read_bytes()[:-20])
    ended = await command_line.run(*restore(lab, tmp_path, "r1", lab.new_target()))

    assert ended.code == PARTIALLY_FAILED
    assert "Restore r1 PartiallyFailed" in ended.out
    assert (await stored.read_restore("r1")).status.phase == RestorePhase.PARTIALLY_FAILED


async def test_metadata_that_is_damaged_is_named(
    lab: Lab, stored: BackupStore, command_line: CommandLine, tmp_path: Path
) -> None:
    metadata = tmp_path / "store" / "backups" / "b1" / "velero-backup.json"
    metadata.write_bytes(metadata.read_bytes()[:100])
    ended = await command_line.run(*restore(lab, tmp_path, "r1", lab.new_target()))

    assert ended.code == 2
    assert "Error retrieving backup" in ended.err
