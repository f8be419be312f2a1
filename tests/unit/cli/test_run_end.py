"""Waiting for a server, with scripted watches."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from pinnace.api.labels import OUTCOMES
from pinnace.api.meta import ObjectMeta
from pinnace.api.phases import BackupPhase, RestorePhase
from pinnace.api.restore_outcomes import Outcome, counts_text, encode_counts
from pinnace.api.velero.backup import Backup, BackupStatus
from pinnace.api.velero.restore import Restore, RestoreStatus
from pinnace.cli.common import run_end
from pinnace.cli.common.run_end import WaitedRun, wait_for_end
from pinnace.cli.local import say_outcome
from pinnace.cli.main import run
from pinnace.cli.output.cells import empty_warning
from pinnace.cli.output.summary import numbers_of
from pinnace.cli.progress.activity import activity_of
from pinnace.cli.progress.lines import detail_lines, numbers
from pinnace.cli.progress.state import State
from pinnace.cli.progress.view import ProgressView
from pinnace.client import lease
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConnectionFailed, Forbidden, Gone, KubeError, NotFound
from pinnace.kube.resources import velero
from pinnace.kube.transport.silence import Silence
from pinnace.kube.watching import WatchEvent
from tests.support.clock import FakeClock
from tests.support.tasks import settled
from tests.unit.cli.cluster import connected

CREATED = {"metadata": {"name": "b", "namespace": "velero", "uid": "1", "resourceVersion": "10"}}
INTRODUCTION = (
    "Waiting for backup to complete. You may safely press ctrl-c to stop waiting - "
    "your backup will continue in the background."
)


def state(phase: str, version: str = "11", *, uid: str = "1") -> dict[str, Any]:
    status = {"phase": phase, "progress": {"totalItems": 9, "itemsBackedUp": 3}}
    return {"metadata": {**CREATED["metadata"], "resourceVersion": version, "uid": uid}, "status": status}


def modified(phase: str, version: str = "11") -> WatchEvent:
    return WatchEvent("MODIFIED", state(phase, version))


class Script:
    """Each watch plays the next list of events and errors, then ends; each get gives the next answer."""

    def __init__(
        self, *watches: Iterable[WatchEvent | KubeError], gets: Iterable[dict[str, Any] | KubeError] = ()
    ) -> None:
        self._watches = [list(watch) for watch in watches]
        self._gets = list(gets)
        self.versions: list[str] = []
        self.silence = Silence(300, FakeClock())

    async def watch(
        self, _resource: object, _namespace: str, *, resource_version: str, field_selector: str
    ) -> AsyncGenerator[WatchEvent, None]:
        assert field_selector == "metadata.name=b"
        self.versions.append(resource_version)
        for step in self._watches.pop(0):
            await asyncio.sleep(0)
            if isinstance(step, KubeError):
                raise step
            yield step

    async def list_with_version(self, *_where: object, **_how: object) -> tuple[list[dict[str, Any]], str]:
        raise NotFound(404, message="volumes are not served")

    async def get(self, *_where: object) -> dict[str, Any]:
        answer = self._gets.pop(0)
        if isinstance(answer, KubeError):
            raise answer
        return answer


async def waited(script: Script, created: dict[str, Any] | None = None) -> str | None:
    """The phase in which the waiting ended."""
    client = cast("KubeClient", script)
    run = WaitedRun(what="backup", done_field="itemsBackedUp")
    ended = await wait_for_end(client, velero("backups"), created or CREATED, run)
    return None if ended is None else str(ended["status"]["phase"])


async def test_waiting_ends_with_the_final_phase(capsys: pytest.CaptureFixture[str]) -> None:
    script = Script([], [modified(""), modified("New"), modified("InProgress"), modified("PartiallyFailed")])

    assert await waited(script) == "PartiallyFailed"

    introduction, result = capsys.readouterr().out.splitlines()
    assert introduction == INTRODUCTION
    assert result == (
        "Backup completed with status: PartiallyFailed. You may check for more information using the "
        "commands `pinnace backup describe b` and `pinnace backup logs b`."
    )
    assert script.versions == ["10", "10"]


@pytest.mark.spec("CLI-012")
@pytest.mark.parametrize("phase", ["Completed", "PartiallyFailed", "Failed"])
def test_without_exit_code_the_command_succeeds_in_every_final_phase(
    phase: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = connected(monkeypatch, tmp_path)
    waited_for: list[str] = []

    async def wait(_client: object, _resource: object, created: dict[str, Any], *_: object) -> Any:
        waited_for.append(created["metadata"]["name"])
        return {**created, "status": {"phase": phase}}

    monkeypatch.setattr("pinnace.cli.common.run_end.wait_for_end", wait)

    assert run(["backup", "create", "b", "--wait"]) == 0

    assert waited_for == cluster.names(velero("backups")) == ["b"]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"failureReason": "the bucket is gone"}, ["Reason: the bucket is gone"]),
        (
            {"validationErrors": ["no such location", "bad\x1b[2J"]},
            ["Reason: no such location", "Reason: bad\\x1b[2J"],
        ),
        ({}, []),
    ],
)
async def test_the_reasons_of_a_failed_run_are_printed(
    capsys: pytest.CaptureFixture[str], said: dict[str, Any], shown: list[str]
) -> None:
    ended = state("Failed")
    ended["status"] |= said

    assert await waited(Script([WatchEvent("MODIFIED", ended)])) == "Failed"

    lines = capsys.readouterr().out.splitlines()
    assert lines[lines.index(next(line for line in lines if "completed with" in line)) + 1 :] == shown


@pytest.mark.spec("BEY-017")
@pytest.mark.parametrize("end", ["Completed", "PartiallyFailed"])
async def test_waiting_continues_in_phases_of_later_versions(end: str) -> None:
    later = (
        "New",
        "Queued",
        "ReadyToStart",
        "InProgress",
        "WaitingForPluginOperations",
        "Finalizing",
        "FinalizingPartiallyFailed",
    )
    script = Script([*(modified(phase) for phase in later), modified(end)])

    assert await waited(script) == end


async def test_a_run_that_ended_before_the_watch_ends_the_waiting() -> None:
    assert await waited(Script(), state("Completed")) == "Completed"


async def test_a_watch_continues_from_the_last_event() -> None:
    script = Script([modified("InProgress", "15")], [modified("Failed", "16")])

    assert await waited(script) == "Failed"
    assert script.versions == ["10", "15"]


@pytest.mark.parametrize(
    "error",
    [Gone(410, message="too old"), ConnectionFailed("the connection broke")],
    ids=["expired", "cut"],
)
async def test_a_watch_that_breaks_starts_anew_from_a_read(
    monkeypatch: pytest.MonkeyPatch, error: KubeError
) -> None:
    """After a pause if the watch broke, so that reads do not follow each other without one."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(run_end, "_pause", pause)
    script = Script([error], [modified("Completed")], gets=[state("InProgress", "20")])

    assert await waited(script) == "Completed"
    assert script.versions == ["10", "20"]
    assert pauses == ([] if isinstance(error, Gone) else [run_end.PAUSE_SECONDS])


@pytest.mark.parametrize(
    "script",
    [
        Script([WatchEvent("DELETED", state("InProgress"))]),
        Script([Gone(410, message="too old")], gets=[NotFound(404, message="not found")]),
        Script([Gone(410, message="too old")], gets=[state("New", uid="2")]),
    ],
    ids=["seen", "while cut off", "and made again"],
)
async def test_a_deletion_ends_the_waiting(capsys: pytest.CaptureFixture[str], script: Script) -> None:
    assert await waited(script) is None
    assert capsys.readouterr().out.endswith("The backup was deleted while waiting for it.\n")


async def test_an_object_that_cannot_be_watched_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    script = Script([Forbidden(403, message="you may not watch")])

    assert await waited(script) is None
    assert capsys.readouterr().out.endswith("Error waiting: unable to watch backups: you may not watch\n")


# --- Whether a server is there --------------------------------------------------------------------------


class Leases:
    """A backup that stays in one phase for ever, and the lease as each look finds it."""

    def __init__(self, phase: str, *leases: dict[str, Any] | KubeError) -> None:
        self._phase = phase
        self._leases = list(leases)
        self.looked = asyncio.Event()
        self.silence = Silence(300, FakeClock())

    list_with_version = Script.list_with_version

    async def watch(self, *_: object, **__: object) -> AsyncGenerator[WatchEvent, None]:
        yield modified(self._phase)
        await self.looked.wait()
        await settled()
        yield modified("Completed")

    async def get(self, _resource: object, name: str, namespace: str) -> dict[str, Any]:
        assert (name, namespace) == ("pinnace-server", "velero")
        found = self._leases.pop(0)
        if not self._leases:
            self.looked.set()
        if isinstance(found, KubeError):
            raise found
        return found


def held(renewed: str, holder: str = "server-1") -> dict[str, Any]:
    return {"spec": {"holderIdentity": holder, "renewTime": renewed}}


ABSENT = NotFound(404, message="not found")
NO_ANSWER = ConnectionFailed("no answer")


@pytest.fixture
def _short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "FIRST_LOOK_SECONDS", 0.0)
    assert lease.SECOND_LOOK_SECONDS <= 10  # the documented time; here it passes at once
    monkeypatch.setattr(lease, "SECOND_LOOK_SECONDS", 0.01)


@pytest.mark.usefixtures("_short_looks")
@pytest.mark.parametrize(
    ("leases", "told"),
    [
        ([ABSENT, ABSENT], True),
        ([held("1"), held("1")], True),
        ([held("1"), held("2", holder="")], True),
        ([held("1"), held("2")], False),
        ([ABSENT, held("1")], False),
        ([Forbidden(403, message="you may not")], False),
    ],
    ids=["absent", "not renewed", "given back", "renewed", "just begun", "not allowed to look"],
)
async def test_a_backup_that_no_server_takes_is_reported(
    capsys: pytest.CaptureFixture[str], leases: list[dict[str, Any] | KubeError], told: bool
) -> None:
    assert await waited(cast("Script", Leases("New", *leases))) == "Completed"
    said = capsys.readouterr().err
    assert ("No Pinnace server holds the lease pinnace-server in namespace velero" in said) is told
    assert ("the backup may never begin" in said) is told


@pytest.mark.usefixtures("_short_looks")
async def test_the_lease_is_not_read_once_a_backup_has_begun(capsys: pytest.CaptureFixture[str]) -> None:
    world = Leases("InProgress")
    world.looked.set()
    assert await waited(cast("Script", world)) == "Completed"
    assert "No Pinnace server" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("leases", "told"),
    [
        ([held("1"), held("2"), held("2")], True),
        ([held("1"), held("2"), held("3"), NO_ANSWER], False),
        ([held("1"), held("1"), held("1"), NO_ANSWER], False),
        ([ABSENT, ABSENT, ABSENT, NO_ANSWER], False),
        ([Forbidden(403, message="you may not")], False),
    ],
    ids=["no longer renewed", "renewed", "without leader election", "of Velero", "not allowed to look"],
)
async def test_a_server_that_is_lost_while_it_works_is_reported(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    leases: list[dict[str, Any] | KubeError],
    told: bool,
) -> None:
    monkeypatch.setattr(lease, "RENEWAL_SECONDS", 0.0)
    world = Leases("InProgress", *leases)

    assert await waited(cast("Script", world)) == "Completed"

    assert ("so it may have ended. Then the backup ends as Failed" in capsys.readouterr().err) is told


@pytest.mark.usefixtures("_short_looks")
async def test_a_server_that_is_lost_before_it_begins_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was there when the command looked first, and busy with another backup."""
    monkeypatch.setattr(lease, "RENEWAL_SECONDS", 0.0)
    world = Leases("New", *map(held, "12344"))

    assert await waited(cast("Script", world)) == "Completed"

    said = capsys.readouterr().err
    assert "so it may have ended. Then the backup begins when a server runs there again." in said
    assert "No Pinnace server" not in said


FILTERS = (
    "its filters select no object. Compare included namespaces, included resources and label selector"
    " with what"
)
ERRORS = "its errors and filters say why."


@pytest.mark.parametrize(
    ("what", "done_field", "phase", "done", "warning"),
    [
        (
            "backup",
            "itemsBackedUp",
            "Completed",
            0,
            f"the backup is empty: {FILTERS} the cluster has.",
        ),
        (
            *("backup", "itemsBackedUp", "PartiallyFailed", 0),
            f"the backup is empty: no object was saved; {ERRORS}",
        ),
        ("backup", "itemsBackedUp", "Completed", 3, ""),
        ("backup", "itemsBackedUp", "Failed", 0, ""),
        (
            "restore",
            "itemsRestored",
            "Completed",
            0,
            f"the restore is empty: {FILTERS} the backup has.",
        ),
        (
            *("restore", "itemsRestored", "PartiallyFailed", 0),
            f"the restore is empty: no object was restored; {ERRORS}",
        ),
        ("restore", "itemsRestored", "PartiallyFailed", 1, ""),
    ],
)
async def test_an_empty_result_is_reported(
    capsys: pytest.CaptureFixture[str], what: str, done_field: str, phase: str, done: int, warning: str
) -> None:
    ended = modified(phase)
    ended.object["status"]["progress"] = {"totalItems": done, done_field: done}

    client = cast("KubeClient", Script([ended]))
    run = WaitedRun(what=what, done_field=done_field)
    assert await wait_for_end(client, velero(f"{what}s"), CREATED, run) is not None

    numbers, *warnings = capsys.readouterr().err.splitlines()
    assert numbers == f"{done} {'item' if done == 1 else 'items'}, 0 errors, 0 warnings."
    assert warnings == ([f"WARNING: {warning}"] if warning else [])


@pytest.mark.found("row 108")
def test_the_end_of_a_run_has_numbers_and_time() -> None:
    times = {"startTimestamp": "2021-08-11T21:43:26Z", "completionTimestamp": "2021-08-11T21:44:38Z"}
    ended = {"status": {**times, "errors": 1, "warnings": 2000}}
    assert numbers_of(ended, 1204) == "1,204 items in 1m12s, 1 error, 2,000 warnings"
    assert numbers_of({"status": {"phase": "Failed"}}, 0) == "0 items, 0 errors, 0 warnings"


@pytest.mark.parametrize("phase", ["Completed", "PartiallyFailed"])
def test_an_empty_result_without_a_server_is_reported_in_the_same_words(
    capsys: pytest.CaptureFixture[str], phase: str
) -> None:
    backup = Backup(metadata=ObjectMeta(name="b"), status=BackupStatus(phase=BackupPhase(phase)))
    say_outcome("Backup", backup, 0)
    assert capsys.readouterr().err == empty_warning("backup", phase, 0) + "\n"


@pytest.mark.found("row 107")
def test_the_end_of_a_restore_says_what_became_of_the_objects(capsys: pytest.CaptureFixture[str]) -> None:
    noted = {OUTCOMES: encode_counts({Outcome.UNCHANGED: 2, Outcome.CREATED: 1204})}
    metadata = ObjectMeta(name="r", annotations=noted)
    restore = Restore(metadata=metadata, status=RestoreStatus(phase=RestorePhase.COMPLETED))
    said = "1,206 items (1,204 created, 2 unchanged), 0 errors, 0 warnings"

    say_outcome("Restore", restore, 1206)

    assert capsys.readouterr().out == f"Restore r Completed: {said}.\n"
    assert numbers_of({"metadata": {"annotations": noted}}, 1206) == said


@pytest.mark.parametrize(
    "noted",
    ["", "created=", "created=x", "created=1,", "=1", "created=" + "9" * 5000, "a" * 10**6, "created=\u0661"],
)
def test_counts_of_another_form_are_left_out(noted: str) -> None:
    """Whoever may change Restores may have written it."""
    assert counts_text(noted) == ""


async def test_waiting_shows_the_activity_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    running = state("InProgress")
    running["status"]["activity"] = {
        "totalIsFinal": True,
        "resources": [{"name": "configmaps", "itemsDone": 3, "totalItems": 6, "totalIsFinal": True}],
        "hooks": ["shop/db freeze"],
        "waiting": ["volumes of shop/db"],
        "uploadBytes": 4096,
        "uploadedBytes": 1024,
    }
    ended = {"metadata": running["metadata"], "status": {"phase": "Completed", "progress": {"totalItems": 9}}}
    script = Script([WatchEvent("MODIFIED", running), WatchEvent("MODIFIED", ended)])
    client, run = cast("KubeClient", script), WaitedRun(what="backup", done_field="itemsBackedUp")
    shown = []

    class View(ProgressView):
        def update(self, done: int, total: int) -> None:
            super().update(done, total)
            shown.append(self._state())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_end, "ProgressView", View)
        await wait_for_end(client, velero("backups"), CREATED, run)

    before, during, _ = shown
    assert before.at_least
    assert numbers(during) == "3 of 9 items"
    assert detail_lines(during, 80) == [
        "  configmaps: 3 of 6",
        "  hook: shop/db freeze",
        "  waiting for volumes of shop/db",
        "  uploading: █████░░░░░░░░░░░░░░░ 1.0 KiB of 4.0 KiB",
    ]


@pytest.mark.parametrize(
    ("phase", "shown"),
    [
        ("New", ["  New: no server has taken it yet"]),
        ("Finalizing", ["  Finalizing"]),
        ("InProgress", []),
    ],
)
async def test_waiting_shows_the_phase_and_activity_of_the_server(phase: str, shown: list[str]) -> None:
    assert detail_lines(State(done=0, total=0, phase=run_end._explained(state(phase), phase)), 80) == shown


@pytest.mark.parametrize(
    "said",
    [None, "busy", {"resources": {"pods": 1}, "hooks": [7], "uploadBytes": "all"}],
    ids=["absent", "text", "odd-members"],
)
def test_only_the_numbers_of_other_servers_are_shown(said: object) -> None:
    assert activity_of({"activity": said}) == State(done=0, total=0, at_least=True)
