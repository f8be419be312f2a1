"""Runs exec hooks in pods that a restore created, as soon as their containers run. (docs/spec: RST 21)

Pods are handled in parallel; within a pod one command runs at a time. The first error in any pod cancels all
hooks that have not started, but not the commands that are running.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.timing import wait_for
from pinnace.api.kinds import PODS
from pinnace.api.objects import JSONObject, listed, mapping, member, objects, text
from pinnace.api.pod_hooks import container_names, is_ended
from pinnace.api.values.durations import Duration
from pinnace.archive.eventlog import EventLog
from pinnace.hooks.commands import Executor, PodCommand, run_pod_command
from pinnace.hooks.counts import HookCounts
from pinnace.hooks.limit import limited
from pinnace.hooks.pod_watches import PodReader, PodWatches
from pinnace.hooks.records import HookKey, HookRecords, NoHookRecords
from pinnace.hooks.restore_selection import PodExecHook, pod_wait_seconds
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of

COMMANDS_AT_ONCE: Final = 32
"""The limit for all pods together: each command is a connection, here and at the API server."""
LOOK_SECONDS: Final = 60.0
"""How often a pod that is waited for is read in addition to its watch, and mentioned in the log."""


class _Common(msgspec.Struct, kw_only=True):
    """The state that the pods of one restore share."""

    executor: Executor
    pod_reader: PodReader
    clock: Clock
    records: HookRecords = msgspec.field(default_factory=NoHookRecords)
    longest_wait_seconds: float | None = None
    slots: asyncio.Semaphore = msgspec.field(default_factory=lambda: asyncio.Semaphore(COMMANDS_AT_ONCE))
    waiting: set[asyncio.Event] = msgspec.field(default_factory=set)
    failed: bool = False
    given_up: dict[str, str] = msgspec.field(default_factory=dict)
    counts: HookCounts = msgspec.field(default_factory=HookCounts)

    def fail(self) -> None:
        """Cancel all hooks that have not started."""
        self.failed = True
        self.wake()

    def wake(self) -> None:
        """Let the pods that wait look again."""
        for news in self.waiting:
            news.set()


class PodExecHooks:
    """The `ExecHooks` of one restore.

    Args:
        executor: runs commands.
        pod_reader: reads and follows the pods.
        clock: for the waits for containers.
        longest_wait_seconds: the limit for waiting for the containers of a pod; None if only the limits of
            the hooks apply.
        records: of the hooks that an interrupted run of the restore began.
    """

    def __init__(
        self,
        executor: Executor,
        pod_reader: PodReader,
        *,
        clock: Clock = SYSTEM_CLOCK,
        longest_wait_seconds: float | None = None,
        records: HookRecords | None = None,
    ) -> None:
        self._common = _Common(
            executor=executor,
            pod_reader=pod_reader,
            clock=clock,
            longest_wait_seconds=longest_wait_seconds,
            records=records or NoHookRecords(),
        )

    @classmethod
    def of(
        cls, client: KubeClient, limit: Duration | None = None, records: HookRecords | None = None
    ) -> "PodExecHooks":
        """The hooks of one restore in a cluster; `limit` is how long all hooks, and each wait, may take."""
        longest = None if limit is None else limit.total_seconds()
        executor, pods = limited(client, limit), PodWatches(client)
        return cls(executor, pods, longest_wait_seconds=longest, records=records)

    @property
    def counts(self) -> HookCounts:
        """How many hooks there were so far, and how many failed."""
        return self._common.counts

    async def run(self, pod: JSONObject, hooks: Sequence[PodExecHook], log: EventLog) -> list[Notice]:
        """Wait for the pod's containers and run their hooks; return an error for each that failed."""
        work = _PodWork(self._common, pod, log)
        await work.run(hooks)
        return work.errors

    def give_up(self, pod: JSONObject, reason: str) -> None:
        """Wait no longer for the containers of a pod, as it will never start them."""
        self._common.given_up[pod["metadata"]["uid"]] = reason
        self._common.wake()


class _PodWork:
    """Runs the hooks of one pod until none is left or none can run any more."""

    def __init__(self, common: _Common, pod: JSONObject, log: EventLog) -> None:
        self.errors: list[Notice] = []
        self._common = common
        self._pod = pod
        self._log = log
        self._namespace: str = pod["metadata"].get("namespace", "")
        self._name: str = pod["metadata"]["name"]
        self._state: JSONObject | None = pod
        self._news = asyncio.Event()
        self._pending: dict[str, deque[PodExecHook]] = {}
        self._keys: dict[int, HookKey] = {}
        self._begun = common.clock.monotonic()
        self._wait_seconds: float | None = None

    async def run(self, hooks: Sequence[PodExecHook]) -> None:
        """Run all hooks; failures are logged and added to `errors`."""
        self._common.counts.attempted += len(hooks)
        self._sort(hooks)
        if not self._pending:
            return
        self._common.waiting.add(self._news)
        try:
            async with self._common.pod_reader.following(self._pod, self._observe):
                await self._look()
                reason = await self._run_pending()
        finally:
            self._common.waiting.discard(self._news)
        for hook in self._left():
            where = f"in container {hook.container} in pod {self._namespace}/{self._name}"
            self._failed(hook, Notice(Code.HOOKS_NOT_RUN, f"Hook {hook.name} {where} not executed: {reason}"))

    def _sort(self, hooks: Sequence[PodExecHook]) -> None:
        """Sort the hooks by the order of the pod's containers, and within a container by their own.

        Those that an interrupted restore began are left out: each runs once.
        """
        names = container_names(self._pod)
        for position, hook in enumerate(hooks):
            self._keys[id(hook)] = HookKey(
                namespace=self._namespace, pod=self._name, container=hook.container, position=position
            )
        hooks = [hook for hook in hooks if not self._is_known(hook)]
        for hook in hooks:
            for annotation, written in hook.bad_durations:
                self._log.warning(
                    Notice(
                        Code.HOOK_INVALID, f"Ignoring annotation {annotation}: {written!r} is not a duration"
                    ),
                    **self._fields(hook),
                )
            if hook.container not in names:
                text = f"Hook {hook.name} not executed: the pod has no such container: {hook.container}"
                problem = Notice(Code.HOOK_CONTAINER_MISSING, text, container=hook.container)
                self._failed(hook, problem, is_defective=True)
        for name in names:
            found = deque(hook for hook in hooks if hook.container == name)
            if found:
                self._pending[name] = found
        waits = (pod_wait_seconds(self._left()), self._common.longest_wait_seconds)
        self._wait_seconds = min((wait for wait in waits if wait is not None), default=None)

    def _is_known(self, hook: PodExecHook) -> bool:
        """Whether an interrupted restore began a hook; a failure of then counts now."""
        record = self._common.records.known(self._keys[id(hook)])
        if record is None:
            return False
        if not record.has_ended:
            where = f"in container {hook.container} in pod {self._namespace}/{self._name}"
            text = (
                f"Hook {hook.name} {where} was running when the restore was interrupted. Whether it came to"
                " its end is not known, and it was not run again: look at what it did, and run its command"
                " yourself if that is needed"
            )
            self._failed(hook, Notice(Code.HOOK_END_UNKNOWN, text))
        elif record.failure is not None:
            self._failed(hook, record.failure)
        else:
            self._log.info("exec hook has run before the restore was interrupted", **self._fields(hook))
        return True

    def _left(self) -> list[PodExecHook]:
        return [hook for hooks in self._pending.values() for hook in hooks]

    async def _run_pending(self) -> str:
        """Run hooks as their containers start; return why the remaining ones were not run."""
        common = self._common
        while self._pending:
            self._news.clear()
            if (obstacle := self._obstacle()) is not None:
                return f"{obstacle}: context canceled"
            container = self._running_container()
            waited = common.clock.monotonic() - self._begun
            if container is not None:
                async with common.slots:
                    if not common.failed:
                        await self._run(self._take(container), waited)
            elif self._wait_seconds is None or waited < self._wait_seconds:
                await self._wait(waited)
            else:
                return f"{self._waited_for()}: context deadline exceeded"
        return ""

    def _obstacle(self) -> str | None:
        """Why no further hook can run."""
        if self._common.failed:
            return "a restore hook failed"
        if self._state is None:
            return "the pod was deleted"
        if is_ended(self._state):
            return f"the pod is {text(self._state, 'status', 'phase')}"
        given_up = self._common.given_up.get(text(self._pod, "metadata", "uid"))
        return given_up if self._running_container() is None else None

    def _waited_for(self) -> str:
        """The phase of the pod, and the reasons in its status why it does not run."""
        status = mapping(self._state, "status")
        reasons = [
            f"{text(found, 'name')}: {text(found, 'state', 'waiting', 'reason')}"
            for field in ("initContainerStatuses", "containerStatuses")
            for found in listed(status, field)
            if text(found, "state", "waiting", "reason")
        ]
        reasons += [
            text(found, "message") or text(found, "reason")
            for found in listed(status, "conditions")
            if text(found, "type") == "PodScheduled" and text(found, "status") == "False"
        ]
        phase = text(status, "phase") or "not known"
        return "; ".join([f"the phase of the pod is {phase}", *filter(None, reasons)])

    def _running_container(self) -> str | None:
        """The first running container whose next hook can run: some hooks need it to be ready, too."""
        ready = {
            text(container, "name"): member(container, "ready") is True
            for field in ("containerStatuses", "initContainerStatuses")
            for container in objects(self._state, "status", field)
            if member(container, "state", "running") is not None
        }
        return next(
            (
                name
                for name, hooks in self._pending.items()
                if name in ready and (ready[name] or not hooks[0].wait_for_ready)
            ),
            None,
        )

    def _take(self, container: str) -> PodExecHook:
        hooks = self._pending[container]
        hook = hooks.popleft()
        if not hooks:
            del self._pending[container]
        return hook

    async def _run(self, hook: PodExecHook, waited: float) -> None:
        what = f"Hook {hook.name} in container {hook.container}"
        if hook.wait_seconds is not None and waited > hook.wait_seconds:
            self._failed(hook, Notice(Code.HOOKS_NOT_RUN, f"{what} expired before executing"))
            return
        command = PodCommand(
            namespace=self._namespace,
            pod=self._name,
            container=hook.container,
            command=hook.command,
            timeout=hook.exec_timeout,
        )
        fields = self._fields(hook)
        timeout = str(command.effective_timeout or "none")
        fields["hookCommand"] = str(list(hook.command))
        self._log.info("running exec hook", hookTimeout=timeout, **fields)
        records, key = self._common.records, self._keys[id(hook)]
        await records.begins(key)
        report = await run_pod_command(self._common.executor, command)
        if report.outputs:
            self._log.info("Output of hook", **report.outputs, **fields)
        failure = Notice(Code.HOOK_FAILED, f"{what} failed: {report.failure}") if report.failure else None
        await records.ended(key, failure)
        if failure is not None:
            self._failed(hook, failure)

    def _failed(self, hook: PodExecHook, notice: Notice, *, is_defective: bool = False) -> None:
        """Log and count a failure, and add it to the errors of the restore. (docs/spec: BEY 4.9)

        A hook that must succeed also cancels all hooks, unless it is defective.
        """
        self._common.counts.failed += 1
        self._log.error(notice, **self._fields(hook))
        self.errors.append(notice.saying(f"pod {self._namespace}/{self._name}: {notice}"))
        if hook.must_succeed and not is_defective:
            self._common.fail()

    async def _wait(self, waited: float) -> None:
        """Wait until the pod changes, for a limited time: a broken watch must not hold up a restore."""
        left = LOOK_SECONDS if self._wait_seconds is None else self._wait_seconds - waited
        pause = min(left, LOOK_SECONDS)
        if await wait_for(self._news, clock=self._common.clock, timeout_seconds=pause):
            return
        if pause == LOOK_SECONDS:
            containers = ", ".join(self._pending)
            self._log.info(
                f"Waiting for containers to run, to run their hooks: {containers} ({self._waited_for()})",
                **self._fields(None),
            )
        await self._look()

    async def _look(self) -> None:
        try:
            self._observe(await self._common.pod_reader.look(self._pod))
        except KubeError as error:
            self._log.warning(
                notice_of(error, Code.CLUSTER_FAULT, "Cannot read a pod with hooks"),
                error=error,
                **self._fields(None),
            )

    def _observe(self, state: JSONObject | None) -> None:
        # A pod of this name with another uid was not created by this restore.
        same = state is not None and state["metadata"].get("uid") == self._pod["metadata"].get("uid")
        self._state = state if same else None
        self._news.set()

    def _fields(self, hook: PodExecHook | None) -> dict[str, str]:
        fields = {"resource": PODS.group_resource, "namespace": self._namespace, "name": self._name}
        if hook is not None:
            fields |= {
                "hookName": hook.name,
                "hookSource": hook.source,
                "hookType": "exec",
                "hookPhase": "post",
                "hookContainer": hook.container,
            }
        return fields
