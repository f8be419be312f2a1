"""The follow-ups of created pods, which get their data and hooks.

They run while further items are restored; the engine waits for them where the order requires it.
(docs/spec: RST 19, 21)
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from pinnace.api.objects import JSONObject
from pinnace.archive.eventlog import EventLog
from pinnace.catalogue.pod_volumes import SavedPodVolumes
from pinnace.hooks.restore_selection import ExecHookFinder
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.collaborators import ExecHooks, RestoreCollaborators
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef
from pinnace.runs.activity import Activity
from pinnace.volumes.selection import claims_of


class PodFollowUps:
    """Starts the follow-ups as tasks of the given group, and collects their results.

    Args:
        tasks: outlives the restore of every item; leaving it waits for all follow-ups.
        volumes: the PodVolumeBackups of the backup.
        hook_finder: the hooks of the Restore and of pods.
        collaborators: without one that restores pod volumes, `volume_data` reports the pods without data;
            without one that runs hooks, each pod with hooks is a warning.
        activity: told which pods are waited for.
    """

    def __init__(
        self,
        *,
        tasks: asyncio.TaskGroup,
        log: EventLog,
        volumes: SavedPodVolumes,
        hook_finder: ExecHookFinder,
        collaborators: RestoreCollaborators,
        activity: Activity,
    ) -> None:
        self._tasks = tasks
        self._log = log
        self._pod_volumes = volumes
        self._hook_finder = hook_finder
        self._pod_volume_restorer = collaborators.pod_volume_restorer
        self._exec_hooks = collaborators.exec_hooks
        self._activity = activity
        self._volume_tasks: list[asyncio.Task[Sequence[str]]] = []
        self._claims: dict[asyncio.Task[Sequence[str]], set[tuple[str, str]]] = {}
        self._hook_tasks: list[asyncio.Task[Sequence[Notice]]] = []

    def results(self) -> Results:
        """The results of the follow-ups of pods; call it when the task group has ended."""
        results = Results()
        for task in self._volume_tasks:
            results.errors.add_velero(
                *(Notice(Code.VOLUME_DATA_NOT_RESTORED, text) for text in task.result())
            )
        for running in self._hook_tasks:
            results.errors.add_velero(*running.result())
        return results

    def claims_without_data(self) -> set[tuple[str, str]]:
        """Namespace and name of the claims of pods whose volumes could not all be restored.

        Call it when the task group has ended.
        """
        failed = [claims for task, claims in self._claims.items() if task.result()]
        return set().union(*failed)

    def found(self, ref: ItemRef, pod: JSONObject, results: Results) -> None:
        """Warn of what a pod that existed already would have got: it keeps what it has.

        Args:
            pod: as the restore would have created it.
        """
        missed = []
        if snapshots := self._pod_volumes.snapshots(pod, ref.original_namespace):
            missed.append(f"the data of its volumes ({', '.join(sorted(snapshots))}) was not restored")
        if self._hook_finder.hooks_of(pod):
            missed.append("its exec restore hooks were not executed")
        if missed:
            ref.warn(
                results,
                Code.POD_LEFT_AS_IT_IS,
                f"{ref.id} exists, so {' and '.join(missed)}. Delete the pod and restore again to get it",
            )

    def created(self, ref: ItemRef, pod: JSONObject, results: Results) -> None:
        """Start the follow-ups of a new pod; call it once for each.

        Args:
            pod: as the API server returned it.
        """
        snapshots = self._pod_volumes.snapshots(pod, ref.original_namespace)
        filling = None
        if snapshots and self._pod_volume_restorer is not None:
            work = self._pod_volume_restorer.restore_pod_volumes(pod, ref.original_namespace, snapshots)
            filling = self._tasks.create_task(work)
            self._volume_tasks.append(filling)
            self._claims[filling] = set(claims_of(pod).values())
            _show(filling, self._activity.waiting, f"volumes of {ref.target_namespace}/{ref.name}")
        hooks = self._hook_finder.hooks_of(pod)
        if not hooks:
            return
        if self._exec_hooks is None:
            ref.warn(
                results,
                Code.HOOKS_NOT_RUN,
                f"the exec restore hooks of {ref.id} were not executed: this installation runs no hooks",
            )
            return
        running = self._tasks.create_task(self._exec_hooks.run(pod, hooks, self._log))
        self._hook_tasks.append(running)
        _show(running, self._activity.hooks, f"{ref.target_namespace}/{ref.name}")
        if filling is not None:
            filling.add_done_callback(partial(_give_up_without_data, self._exec_hooks, pod, running))


def _give_up_without_data(
    exec_hooks: ExecHooks,
    pod: JSONObject,
    running: asyncio.Task[Sequence[str]],
    filling: asyncio.Task[Sequence[str]],
) -> None:
    """End the hooks of a pod that waits for data which will not come; by default they wait for ever."""
    if not running.done() and not filling.cancelled() and filling.exception() is None and filling.result():
        exec_hooks.give_up(pod, "the data of its volumes was not restored, and it does not start without")


def _show(task: asyncio.Task[Sequence[str]], shown: list[str], text: str) -> None:
    """Keep the text in `shown` until the task ends."""
    shown.append(text)
    task.add_done_callback(lambda _: shown.remove(text))
