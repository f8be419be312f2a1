"""Runs the hooks of a pod and saves the content of its volumes.

(docs/spec: BKP 7, 9)
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack

import orjson

from pinnace.api.kinds import PODS
from pinnace.api.objects import JSONObject, dump_json
from pinnace.api.pod_hooks import is_ended
from pinnace.api.resource_policies import VolumeAction
from pinnace.api.velero.backup import HookErrorMode
from pinnace.backup.collaborators import HookRunner
from pinnace.backup.errors import BackupError, ItemFailed
from pinnace.backup.item.context import BackupRun
from pinnace.backup.item.handlers.handler import BackupHandler, BackupVisit
from pinnace.backup.item.tracking import identity_of
from pinnace.backup.progress import item_fields
from pinnace.hooks.backup_selection import HookPhase, PodHook
from pinnace.hooks.errors import HookFailed
from pinnace.kube.errors import KubeError
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of
from pinnace.volumes.pods.in_flight import VolumesInFlight
from pinnace.volumes.selection import (
    claims_of,
    is_running,
    may_be_saved,
    pod_volumes,
    unmounted,
    wanted_volumes,
)

_OUR_ANNOTATIONS = b"backup.velero.io/"
"""The common prefix of all annotations that name hooks or volumes of a pod. (docs/spec: API 11.4, 15)"""


class PodBackupHandler(BackupHandler):
    """Runs the hooks of a pod and has its volumes saved.

    A pod is in the archive before its volumes are saved, which may take hours. Pods with hooks freeze and
    thaw, so that one of them is complete before the next one is frozen. A pod that another item names does
    not wait for its turn: that item may have it.
    """

    def __init__(self, visit: BackupVisit) -> None:
        super().__init__(visit)
        self._run = visit.run
        self._volumes: list[str] = []
        self._original: JSONObject = {}
        self._in_flight: VolumesInFlight | None = None

    @classmethod
    def wants(cls, run: BackupRun, raw: bytes) -> bool:
        """Whether a pod may have hooks, or volumes to be saved; its JSON is not decoded."""
        spec, policies = run.backup.spec, run.collaborators.policies
        if policies is not None and policies.decide:
            return True
        return bool(spec.hooks.resources or spec.saves_files_by_default or _OUR_ANNOTATIONS in raw)

    async def before(self, item: JSONObject) -> JSONObject:
        """Run the pre hooks, and choose the volumes to save with this pod."""
        if self.visit.following is not None and self._has_hooks(item):
            await self.visit.held.enter_async_context(self._run.hooked)
        self._warn_of_undone_work(item)
        await self._run_hooks(HookPhase.PRE, item)
        self._volumes = await self._choose_volumes(item)
        # Actions may change the dict they are given; volumes are saved from the cluster's pod.
        self._original = orjson.loads(dump_json(item)) if self._volumes else item
        return item

    async def given_up(self, item: JSONObject) -> Sequence[BaseException]:
        """Forget the claims of the volumes, and run the post hooks."""
        self._run.claims.release(self._original, self._volumes)
        return await self._post_hooks(item)

    async def prepared(self, item: JSONObject) -> None:
        """Ask the node agent for the volumes; what it refuses leaves the pod out."""
        await self._report_unsaved_volumes(item)
        saver = self._run.collaborators.pod_volumes
        if saver is None or not self._volumes:
            return
        log = self._run.log.child(**_fields(self._original))
        self._in_flight = await saver.request(self._original, self._volumes, log)
        if self._in_flight.errors:
            await self._volumes_saved(self._original, self._in_flight)
            raise ItemFailed([*self._in_flight.errors, *await self._post_hooks(item)])

    async def after(self, item: JSONObject) -> None:
        """Wait for the volumes and run the post hooks, if it may be, while other items follow."""
        rest = self._rest(item, self.visit.held.pop_all())
        if self.visit.following is None or self._in_flight is None:
            await rest
        else:
            self.visit.following.create_task(rest)

    async def _rest(self, pod: JSONObject, held: AsyncExitStack) -> None:
        async with held:
            if self._in_flight is not None:
                await self._volumes_saved(pod, self._in_flight)
            for error in await self._post_hooks(pod):
                self._run.log.error(
                    notice_of(error, Code.HOOK_FAILED, "Error running post hooks for pod"),
                    error=error,
                    **_fields(pod),
                )

    async def _post_hooks(self, pod: JSONObject) -> Sequence[BaseException]:
        try:
            await self._run_hooks(HookPhase.POST, pod)
        except ItemFailed as failure:
            return failure.errors
        return ()

    def _warn_of_undone_work(self, pod: JSONObject) -> None:
        """Log a warning for a pod whose hooks are not run."""
        hooks = [hook for phase in HookPhase for hook in self._run.hooks.for_pod(phase, pod)]
        if hooks and self._run.collaborators.hooks is None and not is_ended(pod):
            self._warn(
                pod,
                Code.HOOKS_NOT_RUN,
                f"{len(hooks)} backup hook(s) of this pod are not run: this backup runs no hooks",
            )

    async def _report_unsaved_volumes(self, pod: JSONObject) -> None:
        """Log an error for each volume to be saved with restic that this run cannot save. (docs/adr/020)

        A claim that has a CSI snapshot in this backup is saved; call this after the actions of the pod.
        """
        collaborators = self._run.collaborators
        if collaborators.pod_volumes is not None:
            return
        namespace = (pod.get("metadata") or {}).get("namespace", "")
        claims = claims_of(pod)
        for volume in self._mounted(pod, await self._wanted_volumes(pod)):
            claim = claims.get(volume, (namespace, ""))[1]
            if collaborators.csi is not None and collaborators.csi.has_snapshot(namespace, claim):
                continue
            if not is_running(pod):
                self._warn(
                    pod,
                    Code.POD_VOLUME_NOT_SAVED,
                    f"Volume {volume} is not saved from its files: the pod is not running",
                )
                continue
            self._run.log.error(
                Notice(
                    Code.POD_VOLUME_NOT_SAVED,
                    f"The data of volume {volume} is not saved: only the node agents of a server save"
                    " volumes of pods from their files. Make the backup there, or take the volume out of the"
                    " annotation of the pod or of the default",
                ),
                **_fields(pod),
            )

    async def _run_hooks(self, phase: HookPhase, pod: JSONObject) -> None:
        """Run the hooks of a phase in order. (docs/spec: BKP 7.3)

        A hook that fails is an error of the backup. Without an error mode it goes on like `Continue`. In a
        pod that has ended nothing can run: its hooks count as attempted, and not as failed.

        Raises:
            ItemFailed: a hook failed whose mode is Fail; the rest was not run.
        """
        runner = self._run.collaborators.hooks
        if runner is None:
            return
        hooks = self._run.hooks.for_pod(phase, pod)
        self._run.hook_counts.attempted += len(hooks)
        if hooks and is_ended(pod):
            # Every Job leaves such pods: they are no reason to call the backup incomplete.
            self._run.log.info(
                f"The {phase.value} hooks of this pod are not run, as it has ended", **_fields(pod)
            )
            return
        for hook in hooks:
            await self._run_hook(runner, phase, hook, pod)

    async def _run_hook(self, runner: HookRunner, phase: HookPhase, hook: PodHook, pod: JSONObject) -> None:
        log = self._run.log.child(
            **_fields(pod), hookSource=hook.source, hookType="exec", hookPhase=phase.value, hookName=hook.name
        )
        for warning in hook.warnings:
            log.warning(Notice(Code.HOOK_INVALID, warning))
        shown = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']} {hook.name}"
        self._run.activity.hooks.append(shown)
        try:
            await runner.run(hook, pod, log)
        except HookFailed as error:
            self._run.hook_counts.failed += 1
            log.error(notice_of(error, Code.HOOK_FAILED, "Error executing hook"), error=error)
            if hook.exec.on_error == HookErrorMode.FAIL:
                text = f"{phase.value} hook {hook.name} failed: {error}"
                raise ItemFailed([BackupError(notice_of(error, Code.HOOK_FAILED, text))]) from error
        finally:
            self._run.activity.hooks.remove(shown)

    async def _choose_volumes(self, pod: JSONObject) -> list[str]:
        """Choose the volumes to save with this pod, and remember their claims. (docs/spec: BKP 9.1)

        Raises:
            ItemFailed: an object that the resource policies need cannot be read.
        """
        if self._run.collaborators.pod_volumes is None:
            return []
        wanted = self._mounted(pod, await self._wanted_volumes(pod))
        if wanted and not is_running(pod):
            # No agent could read them; the claims can still be snapshotted. (docs/spec: README, decided)
            for volume in wanted:
                self._warn(
                    pod,
                    Code.POD_VOLUME_NOT_SAVED,
                    f"Volume {volume} is not saved from its files: the pod is not running",
                )
            return []
        return self._run.claims.choose(pod, wanted)

    async def _volumes_saved(self, pod: JSONObject, in_flight: VolumesInFlight) -> None:
        """Wait until the node agent is done with the volumes of a pod, and log the errors.

        A volume that failed does not leave the pod out: its PodVolumeBackup is in the backup, so that a
        restore of the pod warns of the volume and brings back the others.
        """
        waits, text = (
            self._run.activity.waiting,
            "the volumes of pod {namespace}/{name}".format(**_fields(pod)),
        )
        waits.append(text)
        try:
            for error in await in_flight.ended():
                self._run.log.error(notice_of(error, Code.POD_VOLUME_NOT_SAVED, str(error)), **_fields(pod))
        finally:
            waits.remove(text)

    def _has_hooks(self, pod: JSONObject) -> bool:
        """Whether this run executes hooks in the pod."""
        runs = self._run.collaborators.hooks is not None and not is_ended(pod)
        return runs and self._run.hooks.any_for(pod)

    def _mounted(self, pod: JSONObject, wanted: list[str]) -> list[str]:
        """The wanted volumes that a container of the pod uses; each other one is a warning.

        The claim of a volume that is left out can still be snapshotted, or saved with another pod.
        """
        left_out = unmounted(pod, wanted)
        for volume in left_out:
            self._warn(
                pod,
                Code.POD_VOLUME_NOT_SAVED,
                f"Volume {volume} is not saved from its files: no container of the pod mounts it, so no node"
                " has it mounted",
            )
        return [volume for volume in wanted if volume not in left_out]

    async def _wanted_volumes(self, pod: JSONObject) -> list[str]:
        """The volumes to save by the resource policies, else by annotations and default. (BEY 4.7)"""
        usual = wanted_volumes(pod, opt_out=self._run.backup.spec.saves_files_by_default)
        policies = self._run.collaborators.policies
        if policies is None or not policies.decide:
            return usual
        wanted, decided = [], set()
        for volume in pod_volumes(pod):
            try:
                rule = await policies.of_pod_volume(pod, volume)
            except KubeError as error:
                raise ItemFailed([error]) from error
            if rule is None:
                continue
            decided.add(volume["name"])
            if rule.action is VolumeAction.FS_BACKUP and may_be_saved(volume):
                wanted.append(volume["name"])
        return [*wanted, *(name for name in usual if name not in decided)]

    def _warn(self, pod: JSONObject, code: Code, text: str) -> None:
        self._run.log.warning(Notice(code, text), **_fields(pod))


def _fields(pod: JSONObject) -> dict[str, str]:
    return item_fields(PODS.group_resource, *identity_of(pod))
