"""The follow-ups of created objects: definitions become ready, pods get their data and hooks.

They run while further items are restored; the engine waits for them where the order requires it.
(docs/spec: RST 18, 19, 21)
"""

import asyncio
from collections.abc import Sequence
from functools import partial

import msgspec
import orjson

from pinnace.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, PERSISTENT_VOLUME_CLAIMS, PODS
from pinnace.api.objects import JSONObject
from pinnace.archive.eventlog import EventLog
from pinnace.catalogue.pod_volumes import SavedPodVolumes
from pinnace.hooks.restore_selection import ExecHookFinder
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.definitions import Definitions, is_established
from pinnace.restore.ports import (
    ExecHooks,
    PodVolumeRestorer,
)
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef
from pinnace.restore.volumes.patches import VolumePatches
from pinnace.runs.activity import Activity
from pinnace.volumes.selection import claims_of

CRDS_GROUP_RESOURCE = CUSTOM_RESOURCE_DEFINITIONS.group_resource


class PodCollaborators(msgspec.Struct, frozen=True, kw_only=True):
    """The work that is done for restored pods.

    Attributes:
        volumes: the PodVolumeBackups of the backup.
        volume_restorer: None where this installation cannot restore pod volumes; `volume_data` then
            reports the pods without data.
        hook_finder: the hooks of the Restore and of pods.
        exec_hooks: None where this installation cannot run hooks: then each pod with hooks is a warning.
        activity: told which pods are waited for.
    """

    volumes: SavedPodVolumes
    volume_restorer: PodVolumeRestorer | None
    hook_finder: ExecHookFinder
    exec_hooks: ExecHooks | None
    activity: Activity = msgspec.field(default_factory=Activity)


class FollowUps:
    """Starts the follow-ups as tasks of the given group, and collects their results.

    Args:
        tasks: outlives the restore of every item; leaving it waits for all follow-ups.
    """

    def __init__(
        self,
        *,
        definitions: Definitions,
        tasks: asyncio.TaskGroup,
        log: EventLog,
        volume_patches: VolumePatches,
        pods: PodCollaborators,
    ) -> None:
        self.definitions = definitions
        self._tasks = tasks
        self._log = log
        self._pod_volumes = pods.volumes
        self._volume_patches = volume_patches
        self._hook_finder = pods.hook_finder
        self._pod_volume_restorer = pods.volume_restorer
        self._exec_hooks = pods.exec_hooks
        self._activity = pods.activity
        self._volume_tasks: list[asyncio.Task[Sequence[str]]] = []
        self._claims: dict[asyncio.Task[Sequence[str]], set[tuple[str, str]]] = {}
        self._hook_tasks: list[asyncio.Task[Sequence[Notice]]] = []

    async def created(
        self, ref: ItemRef, resource: APIResource, answer: bytes, results: Results, *, additional: bool
    ) -> None:
        """Start the follow-ups of a created object; call it once for each.

        Args:
            answer: the object as the API server returned it.
            additional: whether another item waits for this one; then return only when the object is ready.
        """
        if ref.group_resource == PODS.group_resource:
            self._pod_created(ref, orjson.loads(answer), results)
        elif ref.group_resource == PERSISTENT_VOLUME_CLAIMS.group_resource:
            self._volume_patches.claim_created(ref, orjson.loads(answer))
        elif ref.group_resource == CRDS_GROUP_RESOURCE:
            self.definitions.created(ref.name, resource)
            if additional:
                await self.definitions_settled()

    def found(
        self, ref: ItemRef, resource: APIResource, item: JSONObject, in_cluster: JSONObject, results: Results
    ) -> None:
        """Start the follow-ups of an object that existed already: a definition may not be ready yet.

        A pod keeps what it has. What it would have got is a warning, as the restore was asked for it.

        Args:
            item: the object as the restore would have created it.
        """
        if ref.group_resource == CRDS_GROUP_RESOURCE and not is_established(in_cluster):
            self.definitions.created(ref.name, resource)
        if ref.group_resource == PODS.group_resource:
            self._pod_found(ref, item, results)

    async def definitions_settled(self) -> None:
        """Wait until the definitions created so far are ready; late ones are checked again at the end."""
        for late in await self.definitions.settled():
            self._log.warning(
                Notice(
                    Code.DEFINITION_NOT_READY,
                    "Custom resource definition is not ready to use, continuing with other kinds",
                ),
                definition=late,
            )

    def pod_results(self) -> Results:
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

    def _pod_found(self, ref: ItemRef, pod: JSONObject, results: Results) -> None:
        missed = []
        if snapshots := self._pod_volumes.snapshots(pod, ref.original_namespace):
            missed.append(f"the data of its volumes ({', '.join(sorted(snapshots))}) was not restored")
        if self._hook_finder.hooks_of(pod):
            missed.append("its exec restore hooks were not executed")
        if missed:
            results.warnings.add(
                ref.target_namespace,
                Notice(
                    Code.POD_LEFT_AS_IT_IS,
                    f"{ref.id} exists, so {' and '.join(missed)}. Delete the pod and restore again to get it",
                    object=ref.id,
                ),
            )

    def _pod_created(self, ref: ItemRef, pod: JSONObject, results: Results) -> None:
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
            results.warnings.add(
                ref.target_namespace,
                Notice(
                    Code.HOOKS_NOT_RUN,
                    f"the exec restore hooks of {ref.id} were not executed: this installation runs no hooks",
                    object=ref.id,
                ),
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
