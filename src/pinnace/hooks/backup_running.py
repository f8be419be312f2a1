"""Runs the hooks of a backup in the containers of its pods. (docs/spec: BKP 7.2, API 15.2)"""

from pinnace.api.objects import JSONObject
from pinnace.api.pod_hooks import container_names
from pinnace.api.velero.backup import HookErrorMode
from pinnace.archive.runlog import RunLog
from pinnace.hooks.backup_selection import PodHook
from pinnace.hooks.commands import NO_COMMAND, Executor, PodCommand, run_pod_command
from pinnace.hooks.errors import HookFailed
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice


class PodHookRunner:
    """A `HookRunner` that uses the API server. The default container is chosen for each pod."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    async def run(self, hook: PodHook, pod: JSONObject, log: RunLog) -> None:
        """Run one hook, and log its output even if it fails. In a pod that does not run yet, it fails.

        Raises:
            HookFailed: no such container, no command, or the command failed or took too long.
        """
        if not hook.exec.command:
            raise HookFailed(Notice(Code.HOOK_INVALID, NO_COMMAND))
        metadata = pod.get("metadata") or {}
        command = PodCommand(
            namespace=metadata.get("namespace", ""),
            pod=metadata.get("name", ""),
            container=_container(hook.exec.container, pod),
            command=hook.exec.command,
            timeout=hook.exec.timeout,
        )
        # Velero's guide says to look for `hookCommand`, which finds the output as well.
        log = log.child(hookContainer=command.container, hookCommand=str(command.command))
        log.info(
            "running exec hook",
            hookOnError=hook.exec.on_error or HookErrorMode.CONTINUE.value,
            hookTimeout=str(command.effective_timeout or "none"),
        )
        report = await run_pod_command(self._executor, command)
        if report.outputs:
            log.info("Output of hook", **report.outputs)
        if report.failure:
            raise HookFailed(Notice(Code.HOOK_FAILED, report.failure))


def _container(wanted: str, pod: JSONObject) -> str:
    names = container_names(pod)
    if wanted:
        if wanted not in names:
            text = f'no such container: "{wanted}"'
            raise HookFailed(Notice(Code.HOOK_CONTAINER_MISSING, text, container=wanted))
        return wanted
    if not names:
        raise HookFailed(Notice(Code.HOOK_INVALID, "the pod has no container to run the hook in"))
    return names[0]
