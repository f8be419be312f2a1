"""Reads objects that exist already, and compares them with what a restore creates. (docs/spec: RST 17)"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from pinnace.api import kinds
from pinnace.api.codec import merge_patch
from pinnace.api.objects import JSONObject, mapping
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource
from pinnace.restore.cluster import TargetCluster
from pinnace.restore.item.bindings import (
    beside_originals,
    is_shared,
    missing_subjects,
    originals,
    with_subjects,
)
from pinnace.restore.item.cluster_managed import is_cluster_managed
from pinnace.restore.item.conflicts import comparable, is_same, only_leaves_out
from pinnace.restore.item.deciding import Existing, LostClaim
from pinnace.restore.item.normal_form import normal_forms
from pinnace.restore.item.volume_ties import Tie, claim_title, freeing, freeing_command, tie_of
from pinnace.restore.selection.reading import ItemRef

_OWN_SUFFIX: Final = ".k8s.io"
"""The suffix of Kubernetes' own groups, besides those without a dot such as `apps`."""


_TIES_ARE_CHANGED: Final = kinds.group_resources(
    kinds.PERSISTENT_VOLUMES,
    kinds.PERSISTENT_VOLUME_CLAIMS,
    kinds.PODS,
    kinds.VOLUME_SNAPSHOTS,
    kinds.VOLUME_SNAPSHOT_CONTENTS,
)
"""Every restore changes objects of these kinds: the ties to volumes, or the containers."""


class ExistingObjects:
    """Compares what a restore would have created with what is in the cluster.

    Args:
        restore_labels: the labels of this restore, which never count as a difference.
        namespaces: of this restore: those in the backup that are restored under other names.
    """

    def __init__(
        self, target: TargetCluster, restore_labels: Mapping[str, str], *, namespaces: Mapping[str, str]
    ) -> None:
        self._client = target.client
        self._labels = restore_labels
        self._log = target.log
        self._namespaces = namespaces
        self._journal = target.journal
        self._custom: dict[str, bool] = {}

    async def exists(self, ref: ItemRef, resource: APIResource) -> bool:
        """Whether the object existed before the restore; False if it cannot be read.

        In that case the create request will show why.
        """
        try:
            found = await self._client.get(resource, ref.name, ref.target_namespace or None)
        except KubeError:
            return False
        return not self._journal.is_own(ref.group_resource, found)

    async def is_gone(self, ref: ItemRef, resource: APIResource) -> bool:
        """Whether the object does not exist; False if that is not known."""
        try:
            await self._client.get(resource, ref.name, ref.target_namespace or None)
        except NotFound:
            return True
        except KubeError:
            return False
        return False

    async def compare(
        self,
        ref: ItemRef,
        resource: APIResource,
        desired: JSONObject,
        backed_up: Callable[[], JSONObject],
        *,
        is_modified: bool = False,
    ) -> Existing:
        """Compare the object whose create call was refused with the existing one.

        Args:
            desired: the object as it was sent to the server.
            backed_up: returns the object as the backup has it, in its target namespace.
            is_modified: whether resource modifiers changed the object.

        Raises:
            KubeError: the object does not exist, or could not be read.
        """
        found = await self._client.get(resource, ref.name, ref.target_namespace or None)
        if found["metadata"].get("deletionTimestamp") is not None:
            return Existing(in_cluster=found, is_terminating=True)
        own = self._comparable(found, desired)
        if ref.group_resource == kinds.PERSISTENT_VOLUMES.group_resource:
            tie = await tie_of(self._client, found)
            if tie is Tie.LOST:
                return self._lost(ref, found, own, desired)
            if tie is Tie.LIVE and _is_for_another(found, desired):
                return Existing(in_cluster=found, live_claim=claim_title(found))
        existing = Existing(in_cluster=found)
        if is_shared(ref, self._namespaces):
            existing, desired = self._shared(ref, existing, own, desired)
        if is_cluster_managed(ref.group_resource, own, desired):
            return replace(existing, is_same=True, is_cluster_managed=True, differs_otherwise=False)
        if self._is_same(ref, own, desired):
            return replace(existing, is_same=True)
        if not is_modified and self._is_as_backed_up(ref, own, desired, backed_up):
            return Existing(in_cluster=found, is_same=True)
        if ref.group_resource == kinds.SERVICE_ACCOUNTS.group_resource:
            return Existing(in_cluster=found)
        change = _change(ref, own, desired)
        same = change is not None and await self._would_stay(ref, resource, own, change)
        return replace(existing, is_same=same, change=change)

    def _shared(
        self, ref: ItemRef, existing: Existing, own: JSONObject, desired: JSONObject
    ) -> tuple[Existing, JSONObject]:
        """A binding that may name accounts of mapped namespaces, and the desired one with all of them."""
        missing = missing_subjects(own, desired, self._namespaces)
        desired = beside_originals(own, desired, self._namespaces)
        return replace(
            existing,
            missing_subjects=missing,
            differs_otherwise=not self._is_same(ref, with_subjects(own, missing), desired),
            originals=originals(own, self._namespaces),
        ), desired

    def _lost(self, ref: ItemRef, found: JSONObject, own: JSONObject, desired: JSONObject) -> Existing:
        """A volume whose claim is gone: it differs, though all but the uid of the claim may be the same."""
        change = _change(ref, own, desired)
        if change is not None:
            spec = {**mapping(change, "spec"), **freeing(desired)["spec"]}
            change = {**change, "spec": spec}
        lost = LostClaim(title=claim_title(found), remedy=freeing_command(ref.name, desired))
        return Existing(in_cluster=found, change=change, lost_claim=lost)

    def _is_as_backed_up(
        self, ref: ItemRef, in_cluster: JSONObject, desired: JSONObject, backed_up: Callable[[], JSONObject]
    ) -> bool:
        """Whether the object is as the backup has it, and the restore means to have it so.

        It does not if its actions did more than leave out fields: if they mapped the subjects of a binding,
        or took another image.
        """
        original = self._comparable(backed_up(), desired)
        if not self._is_same(ref, in_cluster, original):
            return False
        if ref.group_resource in _TIES_ARE_CHANGED:
            return True
        before, after = normal_forms(ref.group_resource, original, desired)
        return only_leaves_out(after, before)

    def _comparable(self, item: JSONObject, like: JSONObject) -> JSONObject:
        """The object as if this restore had created it, with its status if the other one has one."""
        return comparable(item, self._labels, with_status="status" in like)

    def _is_same(self, ref: ItemRef, in_cluster: JSONObject, desired: JSONObject) -> bool:
        return is_same(*normal_forms(ref.group_resource, in_cluster, desired))

    async def _would_stay(
        self, ref: ItemRef, resource: APIResource, in_cluster: JSONObject, change: JSONObject
    ) -> bool:
        """Whether the server itself sees no difference: it applies its defaults, which are not known here.

        The change is simulated (`dryRun=All`), which stores nothing. A refusal is a difference.
        """
        if not change:
            return True
        if not await self._can_simulate(resource):
            return False
        try:
            changed = await self._client.simulate_patch(
                resource, ref.name, change, ref.target_namespace or None
            )
        except KubeError as error:
            self._log.debug("The change could not be simulated", error=error, name=ref.name)
            return False
        return self._is_same(ref, in_cluster, self._comparable(changed, {**in_cluster, **change}))

    async def _can_simulate(self, resource: APIResource) -> bool:
        """Whether the kind is Kubernetes' own or a custom resource: other API servers may ignore `dryRun`."""
        if "." not in resource.group or resource.group.endswith(_OWN_SUFFIX):
            return True
        known = self._custom.get(resource.group_resource)
        if known is None:
            known = self._custom[resource.group_resource] = await self._is_custom(resource)
        return known

    async def _is_custom(self, resource: APIResource) -> bool:
        try:
            await self._client.get(CUSTOM_RESOURCE_DEFINITIONS, resource.group_resource)
        except KubeError:
            return False
        return True


def _is_for_another(volume: JSONObject, desired: JSONObject) -> bool:
    """Whether the backup has a volume for another claim than that of the existing one."""
    return bool(mapping(desired, "spec", "claimRef")) and claim_title(volume) != claim_title(desired)


def _change(ref: ItemRef, in_cluster: JSONObject, desired: JSONObject) -> JSONObject | None:
    """The merge patch to the desired object, without the fields that the cluster sets by itself.

    None if the objects are nested some hundred levels deep.
    """
    before, after = normal_forms(ref.group_resource, in_cluster, desired)
    try:
        return merge_patch(before, after)
    except RecursionError:
        return None
