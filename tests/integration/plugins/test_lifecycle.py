"""The life of plugins' processes: invalid programs, crashes, hangs, noise, ends."""

import asyncio
import os
import signal
import stat
import sys
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from pinnace.api.codec import encode
from pinnace.api.velero.backup import Backup
from pinnace.plugins.calling import Deadlines
from pinnace.plugins.errors import DuplicatePlugin, PluginCallError, PluginError, PluginGone, PluginStartError
from pinnace.plugins.host.actions import RemoteBackupItemAction
from pinnace.plugins.host.options import LaunchOptions, ProcessLimits
from pinnace.plugins.host.stores import RemoteObjectStore, RemoteVolumeSnapshotter
from pinnace.plugins.host.supervisor import MAX_FAILURES, MAX_SILENCES, Supervisor
from pinnace.plugins.installed import PluginOptions, find_plugins
from pinnace.plugins.kinds import PluginId, PluginKind
from pinnace.plugins.object_store import PluginStore
from pinnace.plugins.protocol import methods
from pinnace.plugins.protocol import velero_pb2 as wire
from pinnace.storage.errors import ObjectNotFound
from tests.support.plugins.programs import CHECKOUT, RecordingLog, pod, put_own, put_script
from tests.support.waiting import PATIENCE_SECONDS, eventually

BACKUP = Backup()
MEMORY = "example.io/memory"
TTL = timedelta(minutes=10)


def launch(*, work: float = 30.0, start: float = 30.0, stop: float = 2.0) -> LaunchOptions:
    return LaunchOptions(
        environ=dict(os.environ),
        limits=ProcessLimits(start=start, stop=stop),
        deadlines=Deadlines(work=work),
    )


def supervisor(program: Path, log: RecordingLog, options: LaunchOptions | None = None) -> Supervisor:
    return Supervisor(program, options or launch(), lambda: log)


def is_alive(pid: int) -> bool:
    """Whether a process runs. A child counts until it can be waited for: its last thread may be ending."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    except ChildProcessError:
        return Path(f"/proc/{pid}").exists()


async def ended(pid: int) -> None:
    async def is_gone() -> bool:
        return not is_alive(pid)

    await eventually(is_gone)


def started_pids(folder: Path) -> list[int]:
    """The process ids that scripts with `note_pid` wrote."""
    return [int(line) for line in (folder / "pids").read_text().split()]


# --- What is no plugin


@pytest.mark.spec("PLG-009")
@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("#!/bin/sh\necho 'usage: x'\n", "Unrecognized remote plugin message: 'usage: x'"),
        ("#!/bin/sh\necho sorry >&2; exit 4\n", r"exited before we could connect \(exit code 4\).*sorry"),
        ("#!/bin/sh\nsleep 600\n", r"timeout while waiting for plugin to start"),
        ("#!/bin/sh\nexec cat /dev/zero\n", "the first line is longer than"),
        ("#!/nonexistent/interpreter\n", "cannot be started: No such file"),
        ("just text\n", "cannot be started: Exec format error"),
        ("#!/bin/sh\necho '1|2|unix|/nonexistent/socket|grpc'; sleep 600\n", "failed to connect"),
        ("#!/bin/sh\necho '1|1|unix|/s|grpc'; sleep 600\n", "Incompatible API version"),
    ],
    ids=["usage", "exits", "silent", "garbage", "no interpreter", "no program", "no server", "version"],
)
async def test_what_is_no_plugin_is_refused_by_name(tmp_path: Path, script: str, problem: str) -> None:
    note_pid = f"\necho $$ >> {tmp_path}/pids\n"
    first, _, rest = script.partition("\n")
    put_script(tmp_path / "plugins", "strange", first + note_pid + rest if first == "#!/bin/sh" else script)
    options = PluginOptions(
        directory=tmp_path / "plugins",
        modules=[],
        limits=ProcessLimits(start=5.0, stop=0.2),
        deadlines=Deadlines(question=5.0),
    )

    with pytest.raises(PluginStartError, match=f"(?s)plugins/strange.*{problem}"):
        await find_plugins(options)
    if first == "#!/bin/sh":
        (pid,) = started_pids(tmp_path)
        assert not is_alive(pid)


async def test_a_person_who_starts_a_plugin_is_reported(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        put_own(tmp_path), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        stdout, stderr = await process.communicate()

    assert process.returncode == 1
    assert stdout == b""
    assert b"put it into the server's plugin directory" in stderr


@pytest.mark.spec("PLG-005", "SRV-011")
async def test_a_plugin_offered_by_two_programs_names_both(tmp_path: Path) -> None:
    put_own(tmp_path, "one")
    put_own(tmp_path, "two")

    with pytest.raises(DuplicatePlugin, match=r"name=example\.io/backup, command=.*/two\).*command=.*/one\)"):
        await find_plugins(PluginOptions(directory=tmp_path, modules=[]))


@pytest.mark.spec("PLG-002")
async def test_a_built_in_name_cannot_be_used_again(tmp_path: Path) -> None:
    put_own(tmp_path)
    builtin = [PluginId(PluginKind.OBJECT_STORE, MEMORY)]

    with pytest.raises(DuplicatePlugin, match=r"name=example\.io/memory, .*\(command=built in\)"):
        await find_plugins(PluginOptions(directory=tmp_path, modules=[]), builtin=builtin)


_LISTING = """#!{python}
import sys
sys.path.insert(0, {checkout!r})
from types import SimpleNamespace
from pinnace.plugins import Plugins, serve
from pinnace.plugins.guest.instances import Instances
Instances.ids = [SimpleNamespace(kind=kind, name=name) for kind, name in {listed!r}]
serve(Plugins())
"""


def put_listing(directory: Path, *listed: tuple[str, str]) -> None:
    """A plugin's program that lists the given plugins."""
    text = _LISTING.format(python=sys.executable, checkout=str(CHECKOUT), listed=listed)
    put_script(directory, "listing", text)


@pytest.mark.spec("PLG-006")
async def test_kinds_of_later_releases_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put_listing(
        tmp_path,
        ("PluginLister", "example.io/lister"),
        ("Foo", "example.io/foo"),
        ("ObjectStore", "example.io/store"),
    )

    found = await find_plugins(PluginOptions(directory=tmp_path, modules=[]))

    assert [str(plugin) for plugin in found.ids] == ["ObjectStore example.io/store"]
    assert "example.io/foo is left out: invalid plugin kind: Foo" in caplog.messages


@pytest.mark.spec("PLG-002")
async def test_a_program_with_a_wrong_name_is_refused(tmp_path: Path) -> None:
    put_listing(tmp_path, ("ObjectStore", "nodomain"))

    with pytest.raises(PluginStartError, match=r"/listing: plugin name must have exactly two parts"):
        await find_plugins(PluginOptions(directory=tmp_path, modules=[]))


async def test_without_a_directory_there_are_no_plugins(tmp_path: Path) -> None:
    found = await find_plugins(PluginOptions(directory=tmp_path / "missing", modules=[]))

    assert found.ids == []


async def test_a_plugin_that_does_not_know_features_is_started_without(tmp_path: Path) -> None:
    program = put_own(tmp_path)
    program.write_text(
        program.read_text().replace(
            "#!/bin/sh\n",
            '#!/bin/sh\ncase "$*" in *--features*) echo "unknown flag: --features"; exit 1;; esac\n',
        )
    )
    options = PluginOptions(directory=tmp_path, modules=[], features=frozenset({"EnableCSI"}))

    assert len((await find_plugins(options)).ids) == 5


# --- Crashes and restarts


@pytest.mark.spec("PLG-020")
async def test_a_killed_process_is_started_and_configured_again(tmp_path: Path) -> None:
    log = RecordingLog()
    running = supervisor(put_own(tmp_path), log)
    try:
        store = RemoteObjectStore(MEMORY, running)
        await store.init({"bucket": "b", "marker": "m1"})
        before = running.pid
        assert before is not None
        os.kill(before, signal.SIGKILL)
        await ended(before)

        assert (await store.create_signed_url("b", "k", TTL)).endswith("marker=m1")
        assert running.pid != before
        assert log.messages("warning") == ["plugin process ended: killed by SIGKILL; starting it again"]
    finally:
        await running.close()


@pytest.mark.spec("PLG-020")
async def test_after_eleven_failures_in_a_row_a_program_is_given_up(tmp_path: Path) -> None:
    program = put_script(tmp_path, "broken", f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexit 1\n")
    running = supervisor(program, RecordingLog())
    action = RemoteBackupItemAction("example.io/backup", running)
    for _ in range(MAX_FAILURES):
        with pytest.raises(PluginGone, match="exited before we could connect"):
            await action.applies_to()

    with pytest.raises(PluginGone, match="unable to restart plugin process: exceeded maximum"):
        await action.applies_to()
    assert len(started_pids(tmp_path)) == MAX_FAILURES == 11
    await running.close()


@pytest.mark.spec("PLG-020")
async def test_a_start_that_succeeds_forgets_the_failures(tmp_path: Path) -> None:
    program = put_own(tmp_path)
    good, bad = program.read_text(), "#!/bin/sh\nexit 1\n"
    running = supervisor(program, RecordingLog())
    action = RemoteBackupItemAction("example.io/backup", running)
    try:
        for _ in range(2):
            program.write_text(bad)
            for _ in range(MAX_FAILURES - 1):
                with pytest.raises(PluginGone):
                    await action.applies_to()
            program.write_text(good)
            await action.applies_to()
            pid = running.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await ended(pid)
    finally:
        await running.close()


@pytest.mark.spec("PLG-021")
async def test_a_second_init_is_refused(tmp_path: Path) -> None:
    running = supervisor(put_own(tmp_path), RecordingLog())
    try:
        store = RemoteObjectStore(MEMORY, running)
        await store.init({"bucket": "b"})
        with pytest.raises(PluginCallError, match="already initialized"):
            await store.init({"bucket": "b"})
    finally:
        await running.close()


@pytest.mark.spec("PLG-028")
async def test_of_two_stores_of_one_name_the_last_configuration_counts(tmp_path: Path) -> None:
    running = supervisor(put_own(tmp_path), RecordingLog())
    try:
        first, second = RemoteObjectStore(MEMORY, running), RemoteObjectStore(MEMORY, running)
        await first.init({"bucket": "b", "marker": "m1"})
        await second.init({"bucket": "b", "marker": "m2"})
        pid = running.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await ended(pid)

        assert (await first.create_signed_url("b", "k", TTL)).endswith("marker=m2")
    finally:
        await running.close()


@pytest.mark.found("P1")
async def test_a_crash_among_items_at_once_fails_only_the_item_that_caused_it(tmp_path: Path) -> None:
    running = supervisor(put_own(tmp_path), RecordingLog())
    action = RemoteBackupItemAction("example.io/backup", running)
    try:
        await action.applies_to()
        guilty = {20, 33}
        wishes = ["crash" if number in guilty else "change" for number in range(40)]
        calls = (action.execute(pod(wish), BACKUP) for wish in wishes)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)

        failed = {number for number, one in enumerate(outcomes) if isinstance(one, BaseException)}
        assert failed == guilty
        for number in guilty:
            assert isinstance(outcomes[number], PluginGone)
            assert "exit code 3), for the second time, while it did nothing else" in str(outcomes[number])
        assert await action.execute(pod(), BACKUP) == (pod(), [])
    finally:
        await running.close()


@pytest.mark.found("P1")
@pytest.mark.parametrize("is_first", [True, False], ids=["first call", "later call"])
async def test_a_process_that_ends_once_fails_no_call(tmp_path: Path, is_first: bool) -> None:
    """As one that the kernel kills for want of memory: the next process answers."""
    running = supervisor(put_own(tmp_path), RecordingLog())
    action = RemoteBackupItemAction("example.io/backup", running)
    wish = f"crash once {tmp_path}/crashed"
    try:
        if not is_first:
            await action.applies_to()

        outcomes = await asyncio.gather(*(action.execute(pod(wish), BACKUP) for _ in range(5)))

        assert outcomes == [(pod(wish), [])] * 5
        assert (tmp_path / "crashed").exists()
    finally:
        await running.close()


@pytest.mark.found("P1")
async def test_calls_of_a_process_that_is_killed_for_another_call_are_repeated(tmp_path: Path) -> None:
    running = supervisor(put_own(tmp_path), RecordingLog(), launch(work=1.0))
    action = RemoteBackupItemAction("example.io/backup", running)
    innocent = wire.ExecuteRequest(
        plugin="example.io/backup",
        item=orjson.dumps(pod(f"hang once {tmp_path}/hung")),
        backup=orjson.dumps(encode(BACKUP)),
    )
    try:
        await action.applies_to()
        plugin = PluginId(PluginKind.BACKUP_ITEM_ACTION, "example.io/backup")
        patient = asyncio.create_task(running.question(plugin, methods.BACKUP_EXECUTE, innocent))

        async def is_in_flight() -> bool:
            return (tmp_path / "hung").exists()

        await eventually(is_in_flight)
        with pytest.raises(PluginCallError, match="no answer to Execute within 1s"):
            await action.execute(pod("hang"), BACKUP)

        assert orjson.loads((await patient).item)["kind"] == "Pod"
    finally:
        await running.close()


@pytest.mark.found("P1")
async def test_a_program_that_only_crashes_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinnace.plugins.host.supervisor.MAX_CRASHES", 4)
    program = put_own(tmp_path)
    program.write_text(program.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\necho $$ >> {tmp_path}/pids\n"))
    running = supervisor(program, RecordingLog())
    action = RemoteBackupItemAction("example.io/backup", running)
    try:
        for wish in (
            "crash",
            "",
            "crash",
            "crash",
        ):  # each crash is seen twice, an answer begins the count again
            outcome = await asyncio.gather(action.execute(pod(wish), BACKUP), return_exceptions=True)
            assert isinstance(outcome[0], PluginGone) == (wish == "crash")

        with pytest.raises(PluginGone, match="is given up: it crashed 4 times without an answer in between"):
            await action.execute(pod(), BACKUP)
        assert len(started_pids(tmp_path)) == 6
    finally:
        await running.close()


@pytest.mark.found("P1")
async def test_a_store_reads_and_writes_although_its_process_ends_once(tmp_path: Path) -> None:
    running = supervisor(put_own(tmp_path), RecordingLog())
    store = PluginStore(RemoteObjectStore(MEMORY, running), {"bucket": "b"}, running.close)
    try:
        read, written = f"crash-once {tmp_path}/read", f"crash-once {tmp_path}/written"
        await store.put(written, b"content")
        async with store.get(written) as stream:
            assert [block async for block in stream] == [b"content"]
        with pytest.raises(ObjectNotFound):
            async with store.get(read):
                pass
        assert (tmp_path / "read").exists()
    finally:
        await store.close()


@pytest.mark.found("P1")
async def test_a_snapshot_is_taken_again_and_the_one_that_may_be_lost_is_named(tmp_path: Path) -> None:
    log = RecordingLog()
    running = supervisor(put_own(tmp_path), log)
    disks = RemoteVolumeSnapshotter("example.io/snapshots", running)
    volume = f"crash-once {tmp_path}/crashed"
    try:
        await disks.init({"region": "north"})

        assert await disks.create_snapshot(volume, "az", {}) == f"snapshot north {volume} az "
        (text,) = [text for text in log.messages("warning") if "repeated" in text]
        assert f"there may be a snapshot of volume {volume} that no backup knows" in text
    finally:
        await running.close()


async def test_a_plugin_that_never_answers_is_given_up(tmp_path: Path) -> None:
    running = supervisor(put_own(tmp_path), RecordingLog(), launch(work=0.3))
    action = RemoteBackupItemAction("example.io/backup", running)
    try:
        for _ in range(MAX_SILENCES):
            with pytest.raises(PluginCallError, match=r"no answer to Execute within 0\.3s"):
                await action.execute(pod("hang"), BACKUP)

        with pytest.raises(PluginGone, match="is given up: 3 calls in a row were not answered"):
            await action.execute(pod(), BACKUP)
    finally:
        await running.close()


async def test_items_that_hang_together_count_once(tmp_path: Path) -> None:
    running = supervisor(put_own(tmp_path), RecordingLog(), launch(work=2.0))
    action = RemoteBackupItemAction("example.io/backup", running)
    try:
        await action.applies_to()
        calls = (action.execute(pod("hang"), BACKUP) for _ in range(8))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)

        assert all(isinstance(one, PluginCallError) for one in outcomes)
        assert await action.execute(pod(), BACKUP) == (pod(), [])
    finally:
        await running.close()


async def test_a_process_that_hangs_with_its_connection_open(tmp_path: Path) -> None:
    """Stopped by SIGSTOP: it neither answers nor ends."""
    running = supervisor(put_own(tmp_path), RecordingLog(), launch(work=3.0, stop=0.3))
    action = RemoteBackupItemAction("example.io/backup", running)
    try:
        await action.applies_to()
        pid = running.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(PluginCallError, match="no answer to Execute"):
            await action.execute(pod(), BACKUP)
        assert await action.execute(pod(), BACKUP) == (pod(), [])
        await ended(pid)
    finally:
        await running.close()


# --- Noise


async def test_what_a_plugin_prints_is_read_and_does_not_stop_it(tmp_path: Path) -> None:
    log = RecordingLog()
    running = supervisor(put_own(tmp_path), log)
    action = RemoteBackupItemAction("example.io/backup", running)
    try:
        for _ in range(5):
            await action.execute(pod("print"), BACKUP)

        async def has_arrived() -> bool:
            return sum(len(text) for text in log.messages("debug") if "noise" in text) >= 500_000

        await eventually(has_arrived)
        assert await action.execute(pod(), BACKUP) == (pod(), [])
    finally:
        await running.close()


@pytest.mark.spec("PLG-013")
async def test_a_compiled_plugin_refuses_large_items(compiled_sample: Path) -> None:
    running = supervisor(compiled_sample, RecordingLog())
    action = RemoteBackupItemAction("example.io/backup", running)
    try:
        item = pod() | {"data": "x" * ((4 << 20) + 10)}
        with pytest.raises(PluginCallError, match=r"code = ResourceExhausted desc = .*larger than max"):
            await action.execute(item, BACKUP)
        assert await action.execute(pod(), BACKUP) == (pod(), [])
    finally:
        await running.close()


async def test_our_own_plugins_take_large_items(tmp_path: Path) -> None:
    running = supervisor(put_own(tmp_path), RecordingLog())
    action = RemoteBackupItemAction("example.io/backup", running)
    try:
        item = pod() | {"data": "x" * (8 << 20)}
        assert await action.execute(item, BACKUP) == (item, [])
    finally:
        await running.close()


@pytest.mark.spec("PLG-012")
@pytest.mark.parametrize("own", [False, True], ids=["compiled", "own"])
async def test_an_error_names_its_place_in_the_code(tmp_path: Path, compiled_sample: Path, own: bool) -> None:
    running = supervisor(put_own(tmp_path) if own else compiled_sample, RecordingLog())
    store = RemoteObjectStore(MEMORY, running)
    try:
        await store.init({"bucket": "b"})
        with pytest.raises(PluginCallError) as caught:
            await anext(store.get_object("b", "missing"))

        assert caught.value.reason == "rpc error: code = Unknown desc = key not found"
        origin = caught.value.origin
        assert origin is not None
        assert origin.file.endswith("stores.py" if own else "stores.go")
        assert origin.line > 0
        assert origin.function.endswith("get_object" if own else "GetObject")
    finally:
        await running.close()


@pytest.mark.spec("PLG-018")
async def test_a_panic_is_aborted(compiled_sample: Path) -> None:
    running = supervisor(compiled_sample, RecordingLog())
    action = RemoteBackupItemAction("example.io/backup", running)
    try:
        with pytest.raises(PluginCallError, match="code = Aborted desc = plugin panicked: at the disco"):
            await action.execute(pod("panic"), BACKUP)
    finally:
        await running.close()


# --- The end


async def test_our_own_plugins_need_no_uvloop(tmp_path: Path) -> None:
    program = tmp_path / "plain"
    put_own(tmp_path, "plain", module="tests.support.sample_plugin.without_uvloop")
    running = supervisor(program, RecordingLog(), launch())
    try:
        action = RemoteBackupItemAction("example.io/backup", running)
        assert await action.execute(pod(), BACKUP) == (pod(), [])
    finally:
        await running.close()


@pytest.mark.spec("PLG-022")
@pytest.mark.parametrize("own", [False, True], ids=["compiled", "own"])
async def test_a_well_behaved_plugin_ends_at_once(tmp_path: Path, compiled_sample: Path, own: bool) -> None:
    log = RecordingLog()
    running = supervisor(put_own(tmp_path) if own else compiled_sample, log, launch(stop=200.0))
    await RemoteBackupItemAction("example.io/backup", running).applies_to()
    pid = running.pid
    assert pid is not None

    started = asyncio.get_running_loop().time()
    await running.close()

    assert asyncio.get_running_loop().time() - started < 100
    assert not is_alive(pid)
    assert log.messages("warning") == []
    assert any(text == "plugin ended: exit code 0" for text in log.messages("debug"))


@pytest.mark.spec("PLG-022")
async def test_a_plugin_that_does_not_end_is_killed_with_all_it_started(tmp_path: Path) -> None:
    log = RecordingLog()
    stubborn = f"""#!{sys.executable}
import os, subprocess, sys
sys.path.insert(0, {str(CHECKOUT)!r})
child = subprocess.Popen(["sleep", "600"])
with open({str(tmp_path / "pids")!r}, "w") as file:
    print(os.getpid(), child.pid, file=file)
from pinnace.plugins.guest import server
from pinnace.plugins.protocol import methods
register = server.PluginServer._unary
def without_shutdown(self, method, answer):
    if method is not methods.SHUTDOWN:
        register(self, method, answer)
server.PluginServer._unary = without_shutdown
from tests.support.sample_plugin import plugins
from pinnace.plugins import serve
serve(plugins)
"""
    running = supervisor(put_script(tmp_path, "stubborn", stubborn), log, launch(stop=0.3))
    await RemoteBackupItemAction("example.io/backup", running).applies_to()
    pids = started_pids(tmp_path)
    assert all(map(is_alive, pids))

    await running.close()

    for pid in pids:
        await ended(pid)
    assert log.messages("warning") == ["plugin failed to exit gracefully"]
    assert ProcessLimits().stop == 2


async def test_calls_after_the_end_are_refused(tmp_path: Path) -> None:
    running = supervisor(put_own(tmp_path), RecordingLog())
    action = RemoteBackupItemAction("example.io/backup", running)
    await running.close()

    with pytest.raises(PluginError, match="was stopped"):
        await action.applies_to()


async def test_other_users_cannot_call_our_plugins(tmp_path: Path) -> None:
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    options = LaunchOptions(environ={**os.environ, "TMPDIR": str(sockets)})
    running = supervisor(put_own(tmp_path), RecordingLog(), options)
    await RemoteBackupItemAction("example.io/backup", running).applies_to()
    try:
        (name,) = os.listdir(sockets)
        assert stat.S_IMODE(os.stat(sockets / name).st_mode) == 0o600
    finally:
        await running.close()
    assert os.listdir(sockets) == []


@pytest.mark.spec("PLG-016")
@pytest.mark.parametrize(
    ("item", "backup", "problem"),
    [
        (b"{", b"{}", "the item is not valid JSON"),
        (b"[]", b"{}", "the item is no JSON object"),
        (b"{}", b"{", "the backup cannot be read"),
        (b"{}", b'{"spec":5}', "the backup cannot be read"),
    ],
)
async def test_our_own_plugin_refuses_what_is_no_json(
    tmp_path: Path, item: bytes, backup: bytes, problem: str
) -> None:
    running = supervisor(put_own(tmp_path), RecordingLog())
    action = PluginId(PluginKind.BACKUP_ITEM_ACTION, "example.io/backup")
    request = wire.ExecuteRequest(plugin=action.name, item=item, backup=backup)
    try:
        with pytest.raises(PluginCallError, match=problem):
            await running.work(action, methods.BACKUP_EXECUTE, request)
    finally:
        await running.close()


async def test_a_killed_plugin_leaves_no_socket(tmp_path: Path, compiled_sample: Path) -> None:
    options = LaunchOptions(environ={**os.environ, "TMPDIR": str(tmp_path)}, limits=ProcessLimits(stop=0.2))
    running = supervisor(compiled_sample, RecordingLog(), options)
    await RemoteBackupItemAction("example.io/backup", running).applies_to()
    assert len(os.listdir(tmp_path)) == 1
    pid = running.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await ended(pid)
    await running.close()

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("own", [True, False], ids=["own", "compiled"])
async def test_a_plugin_ends_with_its_host(tmp_path: Path, compiled_sample: Path, own: bool) -> None:
    """The host is killed, so that it cannot ask; a compiled plugin does not watch its host."""
    program = put_own(tmp_path) if own else compiled_sample
    script = f"""
import asyncio, os, signal
from pathlib import Path
from pinnace.plugins.host.actions import RemoteBackupItemAction
from pinnace.plugins.host.options import LaunchOptions
from pinnace.plugins.host.supervisor import Supervisor
from pinnace.plugins.logs import ProcessLog
async def main():
    running = Supervisor(Path({str(program)!r}), LaunchOptions(environ=dict(os.environ)), ProcessLog)
    await RemoteBackupItemAction("example.io/backup", running).applies_to()
    print(running.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert host.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        pid = int(await host.stdout.readline())
        await host.wait()

    await ended(pid)
