"""Handles objects that exist already: compares them and adds to ServiceAccounts. (docs/spec: RST 17)"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pinnace.api.codec import merge_patch
from pinnace.api.objects import JSONObject
from pinnace.archive.eventlog import EventLog
from pinnace.kube.errors import Conflict, KubeError
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource
from pinnace.kube.transport.retrying import is_open
from pinnace.restore.item.conflicts import comparable, is_same, merged_service_account
from pinnace.restore.item.normal_form import is_the_clusters, normal_forms
from pinnace.restore.item.reading import ItemRef
from pinnace.restore.ports import (
    Cluster,
)

_MERGE_ATTEMPTS: Final = 5
"""Controllers write ServiceAccounts too; each attempt starts from the current version."""

_OWN_SUFFIX: Final = ".k8s.io"
"""The suffix of Kubernetes' own groups, besides those without a dot such as `apps`."""


@dataclass(frozen=True, slots=True)
class Existing:
    """An object that exists in the cluster already.

    Attributes:
        in_cluster: its current state.
        is_going: whether it is being deleted.
        is_same: whether a restore would not change it, or has added the missing entries.
        problem: why missing entries could not be added; empty if none were missing, or they were added.
    """

    in_cluster: JSONObject
    is_going: bool
    is_same: bool
    problem: str = ""


class ExistingObjects:
    """Compares what a restore would have created with what is in the cluster.

    Args:
        restore_labels: the labels of this restore, which never count as a difference.
    """

    def __init__(self, client: Cluster, restore_labels: Mapping[str, str], log: EventLog) -> None:
        self._client = client
        self._labels = restore_labels
        self._log = log
        self._custom: dict[str, bool] = {}

    async def exists(self, ref: ItemRef, resource: APIResource) -> bool:
        """Whether the object exists; False if it cannot be read, as creating it will then show it."""
        try:
            await self._client.get(resource, ref.name, ref.target_namespace or None)
        except KubeError:
            return False
        return True

    async def compare(
        self, ref: ItemRef, resource: APIResource, desired: JSONObject, backed_up: JSONObject
    ) -> Existing:
        """Compare the object whose create call was refused with the existing one.

        Args:
            desired: the object as it was sent to the server.
            backed_up: the object as the backup has it, in its target namespace.

        Raises:
            KubeError: the object does not exist, or could not be read.
        """
        namespace = ref.target_namespace or None
        found = await self._client.get(resource, ref.name, namespace)
        if found["metadata"].get("deletionTimestamp") is not None:
            return Existing(found, is_going=True, is_same=False)
        own = comparable(found, self._labels)
        same = self._is_same(ref, own, desired) or self._is_same(
            ref, own, comparable(backed_up, self._labels)
        )
        is_account = ref.group_resource == "serviceaccounts"
        if same or (not is_account and await self._would_stay(ref, resource, own, desired)):
            self._log.info(
                "Restore of item skipped: it already exists and is the same as the backed up version",
                resource=ref.group_resource,
                namespace=ref.target_namespace,
                name=ref.name,
            )
            return Existing(found, is_going=False, is_same=True)
        if not is_account:
            return Existing(found, is_going=False, is_same=False)
        try:
            await self._merge(ref, resource, found, desired)
        except KubeError as error:
            return Existing(found, is_going=False, is_same=False, problem=str(error))
        return Existing(found, is_going=False, is_same=True)

    def _is_same(self, ref: ItemRef, in_cluster: JSONObject, desired: JSONObject) -> bool:
        if is_the_clusters(ref.group_resource, in_cluster):
            return True
        return is_same(*normal_forms(ref.group_resource, in_cluster, desired))

    async def _would_stay(
        self, ref: ItemRef, resource: APIResource, in_cluster: JSONObject, desired: JSONObject
    ) -> bool:
        """Whether the server itself sees no difference: it applies its defaults, which we cannot list.

        It is asked to simulate the change (`dryRun=All`), which stores nothing. A refusal is a difference.
        """
        before, after = normal_forms(ref.group_resource, in_cluster, desired)
        try:
            patch = merge_patch(before, after)
        except RecursionError:
            # Nested some hundred levels deep, and different: that stays what it is without the server's word.
            return False
        if not patch:
            return True
        if not await self._can_simulate(resource):
            return False
        try:
            changed = await self._client.simulate_patch(
                resource, ref.name, patch, ref.target_namespace or None
            )
        except KubeError as error:
            self._log.debug("The change could not be simulated", error=error, name=ref.name)
            return False
        return self._is_same(ref, in_cluster, comparable(changed, self._labels))

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

    async def _merge(
        self, ref: ItemRef, resource: APIResource, found: JSONObject, desired: JSONObject
    ) -> None:
        namespace = ref.target_namespace or None
        for attempt in range(1, _MERGE_ATTEMPTS + 1):
            before = comparable(found, self._labels)
            patch = merge_patch(before, merged_service_account(before, desired))
            if not patch:
                return
            # Lists are replaced as a whole: without the version, a token added meanwhile would be lost.
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            patch["metadata"] = {**patch.get("metadata", {}), **version}
            try:
                await self._client.patch(resource, ref.name, patch, namespace)
            except KubeError as error:
                # After a patch without an answer it may be merged already: then nothing is left to patch.
                if attempt == _MERGE_ATTEMPTS or not (isinstance(error, Conflict) or is_open(error)):
                    raise
                found = await self._client.get(resource, ref.name, namespace)
            else:
                self._log.info(
                    "ServiceAccount successfully updated", namespace=ref.target_namespace, name=ref.name
                )
                return
