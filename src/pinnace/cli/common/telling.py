"""Messages of a run without a server, by the file of `--messages-file`. (ADR 129)"""

import asyncio
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.aio.small_files import read_small_file
from pinnace.api.phases import FINISHED_IN_PART, BackupPhase
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.cli.errors import InvalidInput
from pinnace.cli.guard import complain
from pinnace.messages.errors import MessageSettingsError
from pinnace.messages.problem import (
    Cause,
    Notification,
    Problem,
    RunStage,
    Signal,
    Topic,
    of_problem,
    of_stage,
)
from pinnace.messages.settings import MessageSettings, PingSettings, parse_messages

VARIABLE: Final = "PINNACE_MESSAGES_FILE"
CURRENT_CLUSTER: Final = "current cluster"
"""Its name in messages, where neither the file nor a flag names it."""


def messages_of(given: str) -> MessageSettings | None:
    """The settings in the file of the flag, or of the variable; None if neither names one.

    Raises:
        InvalidInput: it cannot be read.
    """
    path = given or os.environ.get(VARIABLE)
    if not path:
        return None
    try:
        settings = parse_messages(read_small_file(Path(path).expanduser()).decode())
    except OSError as error:
        raise InvalidInput(f"cannot read the messages file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the messages file {path} is not UTF-8") from error
    except MessageSettingsError as error:
        raise InvalidInput(f"the messages file {path} cannot be used: {error}") from error
    for sink in settings.sinks:
        if isinstance(sink.target, PingSettings) and "{schedule}" in sink.target.url:
            raise InvalidInput(
                f"the messages file {path} cannot be used: sink {sink.name} names {{schedule}}, "
                "which only a server replaces"
            )
    return settings


class ToldRun:
    """Tells how a run ends: also one that ends by an error, but not one that the user interrupts.

    Nothing here delays the run, or changes its exit code. What is not delivered is a warning.

    Args:
        settings: None: nobody is told.
        cluster: the name of the cluster where the settings give none.
    """

    def __init__(self, settings: MessageSettings | None, run: Backup | Restore, cluster: str) -> None:
        self._settings = settings
        self._run = run
        self._cluster = (settings.cluster if settings is not None else "") or cluster
        self._began = SYSTEM_CLOCK.now().timestamp()
        self._start: asyncio.Task[None] | None = None
        self._phase = ""
        self._text = ""

    async def __aenter__(self) -> Self:
        if self._settings is not None:
            self._start = asyncio.create_task(self._send(self._stage(Signal.START), tries=1))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._start is None:
            return
        if error is not None and not isinstance(error, Exception):  # an interruption
            self._start.cancel()
            await asyncio.wait({self._start})
            return
        await self._start
        if error is not None and not self._phase:
            self._phase, self._text = BackupPhase.FAILED, str(error)
        if not self._phase:
            return
        is_good = self._phase == BackupPhase.COMPLETED
        await self._send(self._stage(Signal.OK if is_good else Signal.FAIL))
        if not is_good:
            await self._send(self._problem())

    def ended(self, run: Backup | Restore) -> None:
        """Note how the run ended."""
        self._run = run
        self._phase = str(run.status.phase)
        errors = f"{run.status.errors} errors" if run.status.errors else ""
        self._text = "; ".join(filter(None, (self._phase, run.status.failure_reason, errors)))

    @property
    def _topic(self) -> Topic:
        return Topic(kind=self._run.kind, namespace="", name=self._run.metadata.name)

    def _stage(self, signal: Signal) -> Notification:
        now = SYSTEM_CLOCK.now().timestamp()
        stage = RunStage(
            topic=self._topic, run=f"{self._run.metadata.name} {self._began}", signal=signal, since=now
        )
        return of_stage(stage, self._cluster, now)

    def _problem(self) -> Notification:
        now = SYSTEM_CLOCK.now().timestamp()
        cause = Cause.PARTIAL_FAILURE if self._phase in FINISHED_IN_PART else Cause.FAILURE
        problem = Problem(topic=self._topic, cause=cause, since=now, text=self._text, passes=False)
        return of_problem(problem, Signal.PROBLEM, self._cluster, now)

    async def _send(self, message: Notification, *, tries: int = 3) -> None:
        from pinnace.messages.once import tell_once  # loads HTTP, and most runs tell nobody

        assert self._settings is not None
        sinks = [
            each
            for each in self._settings.sinks
            if not each.only_named
            and isinstance(each.target, PingSettings) == (message.cause is None)
            and (message.cause is None or not each.causes or message.cause in each.causes)
        ]
        for name, error in (await tell_once(sinks, message, tries=tries)).items():
            if error:
                complain(f"WARNING: sink {name} was not told of {message.signal}: {error}")
