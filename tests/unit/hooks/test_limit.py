"""The hooks of a tenant's backup or restore share a total time, whatever their own timeouts are."""

from collections.abc import Sequence

import pytest

from pinnace.api.nonadmin.names import MAX_HOOK_TIME_ANNOTATION, Origin
from pinnace.api.nonadmin.restore_limits import DEFAULT_HOOK_TIME
from pinnace.api.values.durations import Duration
from pinnace.hooks.commands import PodCommand, run_pod_command
from pinnace.hooks.limit import HookTimeUsedUp, LimitedExecutor, hook_limit, limited
from pinnace.kube.errors import ExecTimeout
from pinnace.kube.transport.requests import Output
from tests.support.clock import FakeClock


class Pods:
    """Commands take as long as they say, or as they may."""

    def __init__(self) -> None:
        self.clock = FakeClock(0.0)
        self.given: list[float | None] = []

    async def exec(
        self,
        _namespace: str,
        _pod: str,
        command: Sequence[str],
        *,
        container: str,
        stdout: Output,
        stderr: Output,
        timeout_seconds: float | None,
    ) -> int:
        self.given.append(timeout_seconds)
        wanted = float(command[1])
        if timeout_seconds is not None and wanted > timeout_seconds:
            self.clock.time += timeout_seconds
            raise ExecTimeout("too long")
        self.clock.time += wanted
        return 0


def sleep(seconds: int, timeout: int) -> PodCommand:
    return PodCommand(
        namespace="shop",
        pod="web",
        container="c",
        command=["sleep", str(seconds)],
        timeout=Duration.seconds(timeout),
    )


async def test_commands_share_a_time_and_none_runs_when_it_is_used_up() -> None:
    pods = Pods()
    executor = LimitedExecutor(pods, Duration.seconds(100), clock=pods.clock)
    failures = [
        (await run_pod_command(executor, command)).failure
        for command in (sleep(60, 70), sleep(90, 5), sleep(9999, -1), sleep(1, 30))
    ]
    assert pods.given == [70.0, 5.0, 35.0]
    assert pods.clock.time == 100.0
    assert failures[:2] == ["", "timed out after 5s"]
    assert failures[2] == failures[3] == str(HookTimeUsedUp(Duration.seconds(100)))
    assert "1m40s" in failures[2]
    assert "maxHookTime" in failures[2]


@pytest.mark.parametrize(
    ("annotations", "limit"),
    [
        ({}, None),
        ({MAX_HOOK_TIME_ANNOTATION: "1m0s"}, None),
        ({Origin.BACKUP.namespace_annotation: "shop"}, DEFAULT_HOOK_TIME),
        ({Origin.BACKUP.namespace_annotation: "shop", MAX_HOOK_TIME_ANNOTATION: "odd"}, DEFAULT_HOOK_TIME),
        ({Origin.BACKUP.namespace_annotation: "shop", MAX_HOOK_TIME_ANNOTATION: "1m0s"}, Duration.minutes(1)),
        ({Origin.BACKUP.namespace_annotation: "shop", MAX_HOOK_TIME_ANNOTATION: "0s"}, None),
    ],
    ids=["plain", "administrators", "older", "unreadable", "set", "none"],
)
def test_only_tenants_have_a_limit(annotations: dict[str, str], limit: Duration | None) -> None:
    assert hook_limit(annotations, Origin.BACKUP) == limit
    pods = Pods()
    assert (limited(pods, limit) is pods) == (limit is None)
