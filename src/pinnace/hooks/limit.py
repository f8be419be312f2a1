"""Limits the time that all hooks of a tenant's backup or restore together may take.

A tenant chooses hooks and their timeouts, also in annotations of pods, which no setting restricts; while a
hook runs, the worker is busy. (docs/spec: NAC 17 A28)
"""

from collections.abc import Mapping, Sequence

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.nonadmin.names import MAX_HOOK_TIME_ANNOTATION, Origin
from pinnace.api.nonadmin.restore_limits import DEFAULT_HOOK_TIME
from pinnace.api.values.durations import Duration
from pinnace.hooks.commands import Executor
from pinnace.kube.errors import ExecTimeout, KubeError
from pinnace.kube.transport.requests import Output


class HookTimeUsedUp(KubeError):
    """The hooks of this backup or restore have used up their time."""

    def __init__(self, limit: Duration) -> None:
        super().__init__(
            f"the hooks of this backup or restore may take {limit} in total, which is used up; an"
            " administrator can allow more by maxHookTime in the settings of self-service"
        )


def hook_limit(annotations: Mapping[str, str], origin: Origin) -> Duration | None:
    """How long all hooks of a Backup or Restore may take; None, for no limit, if it is not a tenant's.

    Args:
        annotations: of the Backup or Restore, written by self-service.
        origin: whether it is a Backup or a Restore.
    """
    if not annotations.get(origin.namespace_annotation):
        return None
    try:
        given = Duration.parse(annotations.get(MAX_HOOK_TIME_ANNOTATION, ""))
    except ValueError:
        return DEFAULT_HOOK_TIME
    return given if given > Duration() else None


class LimitedExecutor:
    """An `Executor` whose commands share a total time; the time of parallel commands is added up.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, executor: Executor, limit: Duration, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._executor = executor
        self._limit = limit
        self._clock = clock
        self._left = limit.total_seconds()

    async def exec(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str,
        stdout: Output,
        stderr: Output,
        timeout_seconds: float | None,
    ) -> int:
        """See Executor.exec. Raises HookTimeUsedUp."""
        if self._left <= 0:
            raise HookTimeUsedUp(self._limit)
        is_cut = timeout_seconds is None or timeout_seconds > self._left
        begun = self._clock.monotonic()
        try:
            return await self._executor.exec(
                namespace,
                pod,
                command,
                container=container,
                stdout=stdout,
                stderr=stderr,
                timeout_seconds=self._left if is_cut else timeout_seconds,
            )
        except ExecTimeout as error:
            if is_cut:
                raise HookTimeUsedUp(self._limit) from error
            raise
        finally:
            self._left -= self._clock.monotonic() - begun


def limited(executor: Executor, limit: Duration | None) -> Executor:
    """The executor, with a limit if there is one."""
    return executor if limit is None else LimitedExecutor(executor, limit)
