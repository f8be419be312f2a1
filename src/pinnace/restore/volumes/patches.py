"""Gives newly provisioned volumes the reclaim policy and the labels of the old ones.

Without that, a volume restored from a snapshot has the reclaim policy of its storage class, often Delete
where the user had chosen Retain. (docs/spec: BEY 5.7)
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from pinnace.aio.timing import Timer, poll
from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping
from pinnace.api.volume_info import BackupMethod, PersistentVolumeInfo, VolumeInfo
from pinnace.archive.eventlog import EventLog
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from pinnace.restore.ports import Cluster
from pinnace.restore.selection.reading import ItemRef

_NEWLY_PROVISIONED: Final = (BackupMethod.CSI_SNAPSHOT, BackupMethod.POD_VOLUME_BACKUP)


class _Wanted(msgspec.Struct, frozen=True, kw_only=True):
    namespace: str
    name: str
    info: PersistentVolumeInfo


class VolumePatches:
    """Remembers the claims that a restore created, and patches their volumes at its end.

    Args:
        infos: the records of the backup; empty if its location is not trusted, as volumes are cluster-scoped.
        timeout_seconds: the time in which all claims must be bound.
    """

    def __init__(
        self,
        client: Cluster,
        infos: Iterable[VolumeInfo],
        timer: Timer,
        log: EventLog,
        *,
        timeout_seconds: float,
    ) -> None:
        self._client = client
        self._timer = timer
        self._log = log
        self._timeout_seconds = timeout_seconds
        self._infos = {
            info.claim: info.pv_info
            for info in infos
            if info.pv_info is not None and info.pvc_name and info.backup_method in _NEWLY_PROVISIONED
        }
        self._wanted: list[_Wanted] = []

    def claim_created(self, ref: ItemRef, claim: JSONObject) -> None:
        """Remember a claim that this restore created, unless the restore keeps it unbound."""
        info = self._infos.get((ref.original_namespace, ref.name))
        selector = mapping(claim, "spec", "selector", "matchLabels")
        if info is not None and labels.AWAITS_VOLUME_DATA not in selector:
            self._wanted.append(_Wanted(namespace=ref.target_namespace, name=ref.name, info=info))

    async def run(self) -> list[tuple[str, str]]:
        """Patch the volumes as their claims are bound; return namespace and text of each failure."""
        problems: list[tuple[str, str]] = []
        waiting = list(self._wanted)

        async def all_done() -> bool:
            for wanted in list(waiting):
                try:
                    is_done = await self._patch(wanted)
                except KubeError as error:
                    problems.append((wanted.namespace, self._problem(wanted, str(error))))
                    is_done = True
                if is_done:
                    waiting.remove(wanted)
            return not waiting

        if not await poll(
            all_done, timer=self._timer, timeout_seconds=self._timeout_seconds, longest_pause_seconds=10.0
        ):
            reason = f"it was not bound within {self._timeout_seconds:g} seconds"
            problems += [(wanted.namespace, self._problem(wanted, reason)) for wanted in waiting]
        return problems

    @staticmethod
    def _problem(wanted: _Wanted, reason: str) -> str:
        return (
            f"the volume of persistentvolumeclaims/{wanted.namespace}/{wanted.name} did not get back reclaim"
            f" policy and labels of the old one: {reason}"
        )

    async def _patch(self, wanted: _Wanted) -> bool:
        """Patch one volume; return whether its claim is done. Raises KubeError."""
        try:
            claim = await self._client.get(PERSISTENT_VOLUME_CLAIMS, wanted.name, wanted.namespace)
        except NotFound:
            return True  # deleted meanwhile
        spec = claim.get("spec") or {}
        if (claim.get("status") or {}).get("phase") != "Bound":
            if await self._waits_for_a_pod(spec):
                self._log.info(
                    "The claim waits for a pod, so its volume keeps the reclaim policy of its storage class",
                    namespace=wanted.namespace,
                    name=wanted.name,
                )
                return True
            return False
        volume = await self._client.get(PERSISTENT_VOLUMES, spec["volumeName"])
        owner = (volume.get("spec") or {}).get("claimRef") or {}
        if (owner.get("namespace"), owner.get("name")) != (wanted.namespace, wanted.name):
            return False
        if patch := volume_patch(volume, wanted.info):
            await self._client.patch(PERSISTENT_VOLUMES, spec["volumeName"], patch)
        return True

    async def _waits_for_a_pod(self, spec: JSONObject) -> bool:
        class_name = spec.get("storageClassName")
        if not class_name:
            return False
        try:
            found = await self._client.get(STORAGE_CLASSES, class_name)
        except NotFound:
            return True  # it will never be provisioned, which the claim's events say
        return bool(found.get("volumeBindingMode") == "WaitForFirstConsumer")


def volume_patch(volume: JSONObject, info: PersistentVolumeInfo) -> JSONObject:
    """The patch with the old volume's policy and labels; empty if there is no difference."""
    patch: JSONObject = {}
    policy = (volume.get("spec") or {}).get("persistentVolumeReclaimPolicy")
    if info.reclaim_policy and info.reclaim_policy != policy:
        patch["spec"] = {"persistentVolumeReclaimPolicy": info.reclaim_policy}
    present = volume["metadata"].get("labels") or {}
    missing = {name: value for name, value in info.labels.items() if present.get(name) != value}
    if missing:
        patch["metadata"] = {"labels": missing}
    return patch
