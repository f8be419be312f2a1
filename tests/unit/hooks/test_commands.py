"""What hooks see of a command: output within bounds, and one sentence for whatever goes wrong."""

from dataclasses import replace

import pytest

from pinnace.api.values.durations import Duration
from pinnace.hooks.commands import KEPT_BYTES, CommandReport, KeptOutput, PodCommand, run_pod_command
from pinnace.kube.errors import ExecTimeout, Forbidden
from tests.support.cluster.containers import Behaviour, FakeContainers


def container(behaviour: Behaviour) -> FakeContainers:
    """One where the command `x` does this."""
    return FakeContainers({"x": behaviour})


def command(*words: str, timeout: Duration = Duration()) -> PodCommand:  # noqa: B008
    return PodCommand(namespace="ns", pod="p", container="c", command=words, timeout=timeout)


async def test_both_outputs_as_text_and_no_failure() -> None:
    umlaut = "ü".encode()
    says = Behaviour(stdout=[b"a" + umlaut[:1], umlaut[1:]], stderr=[b"\xff!"])
    report = await run_pod_command(container(says), command("x"))
    assert report == CommandReport(stdout="aü", stderr="\ufffd!", failure="")
    assert report.outputs == {"stdout": "aü", "stderr": "\ufffd!"}
    assert CommandReport(stderr="e").outputs == {"stderr": "e"}


@pytest.mark.parametrize(
    ("behaviour", "failure"),
    [
        (Behaviour(code=3), "command terminated with exit code 3"),
        (Behaviour(error=ExecTimeout("late")), "timed out after 1m5s"),
        (Behaviour(error=Forbidden(403, message="you may not")), "you may not"),
    ],
    ids=["exit-code", "timeout", "refused"],
)
async def test_failures_are_data_and_keep_the_output(behaviour: Behaviour, failure: str) -> None:
    says = container(replace(behaviour, stdout=[b"so far"]))
    report = await run_pod_command(says, command("x", timeout=Duration.seconds(65)))
    assert report == CommandReport(stdout="so far", failure=failure)


async def test_an_empty_command_is_not_sent() -> None:
    containers = FakeContainers()
    assert (await run_pod_command(containers, command())).failure == "command is required"
    assert containers.ran == []


@pytest.mark.parametrize(
    ("timeout", "seconds"), [(Duration(), 30.0), (Duration.seconds(0.5), 0.5), (Duration.seconds(-1), None)]
)
async def test_zero_is_thirty_seconds_and_less_is_no_limit(timeout: Duration, seconds: float | None) -> None:
    containers = FakeContainers()
    await run_pod_command(containers, command("x", timeout=timeout))
    assert containers.timeouts == [seconds]


def test_an_output_that_fits_is_whole() -> None:
    kept = KeptOutput(8)
    for data in (b"abc", b"", b"defgh"):
        kept.write(data)
    assert kept.text() == "abcdefgh"


@pytest.mark.parametrize("piece", [1, 3, 100])
def test_of_a_long_output_both_ends_are_kept(piece: int) -> None:
    whole = bytes(range(48, 58)) * 2
    kept = KeptOutput(8)
    for start in range(0, len(whole), piece):
        kept.write(whole[start : start + piece])
    assert kept.text() == "0123\n[... 12 bytes left out ...]\n6789"


def test_memory_does_not_grow_with_the_output() -> None:
    kept = KeptOutput()
    for _ in range(100):
        kept.write(b"x" * 2**20)
    assert len(kept.text()) < KEPT_BYTES + 100
