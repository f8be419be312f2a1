"""Data for claims that exist already. (docs/spec: AFT 6, docs/adr/122)

A restore with `existingVolumeDataPolicy` writes data into claims that exist: that of pod volumes by the pods
that it creates, and moved data by a claim of the server's (`csi/movement/taking`). Nothing is written while
other pods use the claim, and no wish is dropped silently: each existing claim gets its data, or is in the
results with the reason.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.api.velero.restore import Restore
from pinnace.catalogue.pod_volumes import SavedPodVolumes
from pinnace.catalogue.volumes import Claim, Place
from pinnace.csi.movement.taking import is_withheld
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.cluster import ClusterClient
from pinnace.restore.collaborators import DataForClaim
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef
from pinnace.restore.volumes.moved_data import MovedData
from pinnace.volumes.pods.claim_users import users_of, why_in_use
from pinnace.volumes.pods.pod_claims import claim_name, find_volume
from pinnace.volumes.uploader.interface import KOPIA

NOT_BOUND: Final = "ExistingVolumeDataPolicy is in-place restore, but the existing PVC is not bound."
"""Velero's text. (docs/spec: AFT 6.3)"""
_WAITING: Final = ("", "Pending")


class ExistingClaims(msgspec.Struct, kw_only=True):
    """Decides which existing claims get data, and reports all others.

    Attributes:
        restore: without the policy nothing is done here.
        labels: of every object of this restore.
        elsewhere: claims whose data cannot be restored, each with the reason.
        noted: called with the data for each claim that exists, before anything is checked.
    """

    client: ClusterClient
    restore: Restore
    labels: Mapping[str, str]
    moved: MovedData
    pod_volumes: SavedPodVolumes
    elsewhere: Mapping[Claim, str] = msgspec.field(default_factory=dict)
    noted: Callable[[DataForClaim], None] = lambda data: None
    _new: set[Claim] = msgspec.field(default_factory=set)
    _waiting: dict[Claim, ItemRef] = msgspec.field(default_factory=dict)

    def created(self, ref: ItemRef) -> None:
        """Note a claim that this restore created."""
        self._new.add((ref.target_namespace, ref.name))

    async def found(self, ref: ItemRef, results: Results) -> None:
        """Note a claim that exists, and restore moved data into it.

        One without data that could be restored into it is reported.
        """
        if not self.restore.spec.is_in_place:
            return
        key = (ref.original_namespace, ref.name)
        saved = [each for each in self.pod_volumes.of_claim(*key) if each.place == Place.REPOSITORY]
        if saved:
            self._note(ref, ref.name, saved[-1].uploader, saved[-1].snapshot)
            self._waiting[ref.target_namespace, ref.name] = ref
        elif self.moved.has(key):
            moved = self.moved.volumes[key]
            self._note(ref, ref.name, KOPIA, moved.snapshot, moved.source_namespace)
            if problem := await self._move_into(ref):
                _error(ref, f"{ref.id} exists, and its data is not restored into it: {problem}", results)
        elif reason := self.elsewhere.get(key):
            _error(ref, f"{ref.id} exists, and its data is not restored into it: {reason}", results)
        else:
            message = (
                f"{ref.id} exists and keeps the data that it has: the backup has no data of pod volumes for"
                " it, and no moved data (native and CSI snapshots become new volumes only)"
            )
            results.warnings.add(
                ref.target_namespace, Notice(Code.EXISTING_DATA_KEPT, message, object=ref.id)
            )

    async def admits_pod(self, ref: ItemRef, pod: JSONObject, results: Results) -> bool:
        """Whether the volumes of a pod may get their data; if not, the reason is an error."""
        if not self.restore.spec.is_in_place:
            return True
        problems = []
        for claim, snapshot in self._existing_claims_of(ref, pod):
            self._waiting.pop((ref.target_namespace, claim), None)
            try:
                problem = await self._problem_of(ref.target_namespace, claim)
                self._note(ref, claim, snapshot.uploader, snapshot.id)
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

    def _existing_claims_of(self, ref: ItemRef, pod: JSONObject) -> list[tuple[str, SavedSnapshot]]:
        """The claims of a pod that this restore did not create, each with its data, by name."""
        named = {"metadata": {**mapping(pod, "metadata"), "name": ref.name}, "spec": mapping(pod, "spec")}
        found: dict[str, SavedSnapshot] = {}
        for volume, snapshot in self.pod_volumes.snapshots(named, ref.original_namespace).items():
            source = find_volume(named, volume)
            name = claim_name(named, source) if source is not None else ""
            if name and (ref.target_namespace, name) not in self._new:
                found[name] = snapshot
        return sorted(found.items())

    def _note(self, ref: ItemRef, claim: str, uploader: str, snapshot: str, saved_in: str = "") -> None:
        self.noted(
            DataForClaim(
                namespace=ref.target_namespace,
                claim=claim,
                uploader=uploader,
                snapshot=snapshot,
                saved_namespace=saved_in or ref.original_namespace,
            )
        )

    async def _problem_of(self, namespace: str, claim: str) -> str:
        """Why data of a pod volume may not be written into a claim; empty if it may. Raises KubeError."""
        found = await self.client.get(PERSISTENT_VOLUME_CLAIMS, claim, namespace)
        if text(found, "status", "phase") != "Bound":
            return NOT_BOUND
        return await self._why_in_use(namespace, claim, may_scale=False)

    async def _move_into(self, ref: ItemRef) -> str:
        """Restore moved data into a claim; return why it is not."""
        namespace, name = ref.target_namespace, ref.name
        try:
            claim = await self.client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
            if text(claim, "status", "phase") != "Bound" and not await self._is_withheld(claim):
                return NOT_BOUND
            if problem := await self._why_in_use(namespace, name, may_scale=True):
                return problem
        except KubeError as error:
            return f"the claim or the pods that use it cannot be read: {error}"
        return await self.moved.restore_into(self.restore, ref, claim)

    async def _is_withheld(self, claim: JSONObject) -> bool:
        """Whether an earlier restore keeps the claim from its volume. Raises KubeError."""
        name = text(claim, "spec", "volumeName")
        try:
            return bool(name) and is_withheld(claim, await self.client.get(PERSISTENT_VOLUMES, name))
        except NotFound:
            return False

    async def _why_in_use(self, namespace: str, claim: str, *, may_scale: bool) -> str:
        users = users_of(claim, await self.client.list_all(PODS, namespace))
        if not may_scale:
            users = [pod for pod in users if not self._waits_for_data(pod)]
        return await why_in_use(self.client, users, may_scale=may_scale) if users else ""

    def _waits_for_data(self, pod: JSONObject) -> bool:
        """Whether a pod is of this restore and waits; one of a former restore of this name may run."""
        is_of_restore = self.labels.items() <= mapping(pod, "metadata", "labels").items()
        return is_of_restore and text(pod, "status", "phase") in _WAITING


def _error(ref: ItemRef, message: str, results: Results) -> None:
    notice = Notice(Code.VOLUME_DATA_NOT_RESTORED, message, object=ref.id)
    results.errors.add(ref.target_namespace, notice)
