"""A blocked loop is logged with its stack, and a process that does not stop is ended."""

import asyncio
import logging
import subprocess
import sys
import textwrap

import pytest

from pinnace.server.watchdog import BLOCKED_SECONDS, STUCK_EXIT_CODE, Watchdog
from tests.support.clock import FakeClock

pytestmark = pytest.mark.found("K-F4", "L3")


class Ends(list[int]):
    """The exit codes of the process that was ended."""

    def __call__(self, code: int) -> None:
        self.append(code)


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
def watchdog(clock: FakeClock, ends: Ends) -> Watchdog:
    return Watchdog(40.0, clock=clock, end=ends)


def look_for(watchdog: Watchdog, clock: FakeClock, seconds: int) -> None:
    """Let the thread look each second; the loop does not run meanwhile."""
    for _ in range(seconds):
        clock.turn(1)
        watchdog.look()


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, object]]]:
    return [(record.getMessage(), record.__dict__["fields"]) for record in caplog.records]


async def test_a_loop_that_is_blocked_is_logged_once_with_its_stack(
    watchdog: Watchdog, clock: FakeClock, caplog: pytest.LogCaptureFixture, ends: Ends
) -> None:
    watchdog._beat()
    look_for(watchdog, clock, int(BLOCKED_SECONDS) - 1)
    assert caplog.records == []
    look_for(watchdog, clock, 5)
    ((message, fields),) = lines(caplog)
    assert message.startswith("The event loop is blocked")
    assert fields["seconds"] == 10
    assert "test_a_loop_that_is_blocked_is_logged_once_with_its_stack" in str(fields["stack"])
    assert str(fields["stack"]).index("look") < str(fields["stack"]).index("test_a_loop")

    watchdog._beat()
    watchdog.look()
    assert lines(caplog)[-1] == ("The event loop goes on", {"seconds": 14})
    assert ends == []


async def test_a_process_that_stood_still_was_not_blocked(
    watchdog: Watchdog, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    watchdog._beat()
    clock.turn(17)
    watchdog.look()
    assert [message for message, _ in lines(caplog)] == [
        "The process stood still: it was suspended, or got no time"
    ]


async def test_a_process_that_does_not_stop_in_time_is_ended(
    watchdog: Watchdog, clock: FakeClock, caplog: pytest.LogCaptureFixture, ends: Ends
) -> None:
    watchdog.ending()
    for _ in range(39):
        watchdog._beat()
        look_for(watchdog, clock, 1)
    watchdog.ending()  # a second signal gives no more time
    assert ends == []
    look_for(watchdog, clock, 1)
    assert ends == [STUCK_EXIT_CODE]
    assert "does not stop by itself and is ended" in caplog.text


async def test_without_a_stop_it_never_ends_anything(
    watchdog: Watchdog, clock: FakeClock, ends: Ends
) -> None:
    look_for(watchdog, clock, 1000)
    assert ends == []


async def test_the_loop_beats_while_it_runs_and_the_thread_ends_with_the_context() -> None:
    with Watchdog(40.0) as watchdog:
        before = watchdog._beat_at
        async with asyncio.timeout(60):
            while watchdog._beat_at == before:  # noqa: ASYNC110 - what is awaited is a timer of the watchdog
                await asyncio.sleep(0.05)
    assert watchdog._over.is_set()


def test_a_real_process_that_hangs_after_a_signal_ends_itself() -> None:
    """Its task swallows the cancellation of the stop, as the waiter of a limiter once did."""
    program = """
        import asyncio, logging, os, signal
        from pinnace.runtime.controller import Controller, DONE
        from pinnace.runtime.keys import Key
        from pinnace.runtime.manager import Manager
        from pinnace.server.signals import stop_on_signals
        from pinnace.server.watchdog import Watchdog

        async def reconcile(key):
            os.kill(os.getpid(), signal.SIGTERM)
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass

        async def main():
            stop = asyncio.Event()
            controller = Controller("stuck", reconcile)
            controller.enqueue(Key("n", "a"))
            manager = Manager(grace_period_seconds=0.1)
            manager.add_controller(controller)
            with Watchdog(2.0) as watchdog, stop_on_signals(stop, on_stop=watchdog.ending):
                await manager.run(stop, on_ending=watchdog.ending)

        logging.basicConfig(level=logging.ERROR)
        asyncio.run(main())
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == STUCK_EXIT_CODE, ended.stderr
    assert "does not stop by itself and is ended" in ended.stderr


def test_the_level_of_a_blocked_loop_is_error(
    clock: FakeClock, ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    watchdog = Watchdog(40.0, clock=clock, end=ends)
    look_for(watchdog, clock, 11)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
