from pinnace.archive.runlog import RunLog
from pinnace.kube.errors import Conflict
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.runs.activity import Activity
from pinnace.runs.progress import ProgressReporter
from tests.support.clock import FakeClock
from tests.support.tasks import settled

FAILURE = Notice(Code.PROGRESS_NOT_SHOWN, "not stored")


class Sink:
    """Keeps what it is given; its first calls fail."""

    def __init__(self, failures: int = 0) -> None:
        self.kept: list[tuple[int, int]] = []
        self._failures = failures

    async def __call__(self, total: int, done: int) -> None:
        if self._failures:
            self._failures -= 1
            raise Conflict(409, message="modified")
        self.kept.append((total, done))


def reporter_of(sink: Sink, log: RunLog, clock: FakeClock) -> ProgressReporter:
    return ProgressReporter(sink, Activity(), log=log, failure=FAILURE, clock=clock)


async def test_it_is_reported_once_a_second_and_only_when_new() -> None:
    sink, clock = Sink(), FakeClock()
    async with reporter_of(sink, RunLog(None, fields={}), clock) as reporter:
        for done in (1, 2, 3):
            reporter.update(done, 10)
            await settled()
        clock.time += 1
        reporter.update(3, 10)
        await settled()
        reporter.update(5, 11)
        await settled()
        clock.time += 1
        reporter.update(5, 11)
        await settled()
    await reporter.finish(11)
    await reporter.finish(11)

    assert sink.kept == [(10, 1), (10, 3), (11, 5), (11, 11)]


async def test_a_refused_number_is_logged_once_and_reported_again_at_the_end() -> None:
    sink, log = Sink(failures=2), RunLog(None, fields={})
    async with reporter_of(sink, log, FakeClock()) as reporter:
        reporter.update(2, 2)
    await reporter.finish(2)
    assert (sink.kept, log.warnings) == ([], 1)

    await reporter.finish(2)

    assert (sink.kept, log.warnings) == ([(2, 2)], 1)
