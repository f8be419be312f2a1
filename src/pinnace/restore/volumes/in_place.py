"""Data for claims that exist already. (docs/spec: AFT 6, docs/adr/122)

A restore with `existingVolumeDataPolicy` writes the data of pod volumes into claims that exist, by the pods
that it creates. Nothing is written while other pods use the claim, and no wish is dropped silently: each
existing claim gets its data, or is in the results with the reason.
"""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from pinnace.api.objects import JSONObject, mapping, text
from pinnace.catalogue.pod_volumes import SavedPodVolumes
from pinnace.catalogue.volumes import Claim, Place
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.cluster import ClusterClient
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef
from pinnace.volumes.pods.pod_claims import claim_name, find_volume

NOT_BOUND: Final = "ExistingVolumeDataPolicy is in-place restore, but the existing PVC is not bound."
"""Velero's text. (docs/spec: AFT 6.3)"""
_ENDED: Final = ("Succeeded", "Failed")
_WAITING: Final = ("", "Pending")
_MOST_PODS: Final = 5


class ExistingClaims(msgspec.Struct, kw_only=True):
    """Decides which existing claims get data, and reports all others.

    Attributes:
        is_wanted: whether the restore has the policy; without it nothing is done here.
        labels: of every object of this restore.
        elsewhere: claims whose data is not in pod volumes, each with the reason why it is not restored.
    """

    client: ClusterClient
    is_wanted: bool
    labels: Mapping[str, str]
    pod_volumes: SavedPodVolumes
    elsewhere: Mapping[Claim, str] = msgspec.field(default_factory=dict)
    _new: set[Claim] = msgspec.field(default_factory=set)
    _waiting: dict[Claim, ItemRef] = msgspec.field(default_factory=dict)

    def created(self, ref: ItemRef) -> None:
        """Note a claim that this restore created."""
        self._new.add((ref.target_namespace, ref.name))

    def found(self, ref: ItemRef, results: Results) -> None:
        """Note a claim that exists; one without data that could be restored into it is reported."""
        if not self.is_wanted:
            return
        key = (ref.original_namespace, ref.name)
        if any(volume.place == Place.REPOSITORY for volume in self.pod_volumes.of_claim(*key)):
            self._waiting[ref.target_namespace, ref.name] = ref
        elif reason := self.elsewhere.get(key):
            _error(ref, f"{ref.id} exists, and its data is not restored into it: {reason}", results)
        else:
            message = (
                f"{ref.id} exists and keeps the data that it has: the backup has no data of pod volumes for"
                " it (native and CSI snapshots become new volumes only)"
            )
            results.warnings.add(
                ref.target_namespace, Notice(Code.EXISTING_DATA_KEPT, message, object=ref.id)
            )

    async def admits_pod(self, ref: ItemRef, pod: JSONObject, results: Results) -> bool:
        """Whether the volumes of a pod may get their data; if not, the reason is an error."""
        if not self.is_wanted:
            return True
        problems = []
        for claim in self._existing_claims_of(ref, pod):
            self._waiting.pop((ref.target_namespace, claim), None)
            try:
                problem = await self._problem_of(ref.target_namespace, claim)
            except NotFound:
                continue  # the pod waits for it, as in any restore
            except KubeError as error:
                problem = f"the claim or the pods that use it cannot be read: {error}"
            if problem:
                problems.append(f"claim {claim}: {problem}")
        if problems:
            _error(ref, f"error restoring {ref.id}: no data is written: {'; '.join(problems)}", results)
        return not problems

    def left(self) -> Results:
        """The errors of the claims whose data no pod got. Call it when all items are restored."""
        results = Results()
        for (namespace, name), ref in sorted(self._waiting.items()):
            saved = self.pod_volumes.of_claim(ref.original_namespace, name)
            pods = ", ".join(sorted({f"{each.namespace}/{each.pod}" for each in saved if each.pod}))
            _error(
                ref,
                f"{ref.id} exists, and its data is not restored into it: it comes back with the pod that it"
                f" was saved with ({pods or 'which the backup does not name'}), and this restore did not"
                f" create that pod in {namespace}. Delete the pod and what makes it, and restore it, too",
                results,
            )
        return results

    def _existing_claims_of(self, ref: ItemRef, pod: JSONObject) -> list[str]:
        named = {"metadata": {**mapping(pod, "metadata"), "name": ref.name}, "spec": mapping(pod, "spec")}
        found = set()
        for volume in self.pod_volumes.snapshots(named, ref.original_namespace):
            source = find_volume(named, volume)
            name = claim_name(named, source) if source is not None else ""
            if name and (ref.target_namespace, name) not in self._new:
                found.add(name)
        return sorted(found)

    async def _problem_of(self, namespace: str, claim: str) -> str:
        """Why data may not be written into a claim; empty if it may. Raises KubeError."""
        found = await self.client.get(PERSISTENT_VOLUME_CLAIMS, claim, namespace)
        if text(found, "status", "phase") != "Bound":
            return NOT_BOUND
        pods = await self.client.list_all(PODS, namespace)
        users = sorted(text(each, "metadata", "name") for each in pods if self._uses(each, claim))
        if not users:
            return ""
        shown = ", ".join(users[:_MOST_PODS])
        more = f" and {len(users) - _MOST_PODS} more" if len(users) > _MOST_PODS else ""
        return f"pods use it: {shown}{more}. Delete them and what makes them, and restore again"

    def _uses(self, pod: JSONObject, claim: str) -> bool:
        """Whether a pod that is not of this restore may write into a claim."""
        if text(pod, "status", "phase") in _ENDED:
            return False
        is_of_restore = self.labels.items() <= mapping(pod, "metadata", "labels").items()
        if is_of_restore and text(pod, "status", "phase") in _WAITING:
            return False  # it waits for its data; one of a former restore of this name may run
        return claim in _claims_of(pod)


def _claims_of(pod: JSONObject) -> Collection[str]:
    volumes = mapping(pod, "spec").get("volumes") or []
    return {claim_name(pod, volume) for volume in volumes}


def _error(ref: ItemRef, message: str, results: Results) -> None:
    notice = Notice(Code.VOLUME_DATA_NOT_RESTORED, message, object=ref.id)
    results.errors.add(ref.target_namespace, notice)
