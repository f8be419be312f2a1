"""What to do when an object is there already: nothing, a warning, or a merge. (docs/spec: RST 17)"""

from collections.abc import Mapping
from typing import Final

from pinnace.api.codec import merge_patch
from pinnace.api.objects import JSONObject
from pinnace.archive.eventlog import EventLog
from pinnace.kube.errors import Conflict, KubeError
from pinnace.kube.resources import APIResource
from pinnace.kube.transport.retrying import is_open
from pinnace.restore.item.conflicts import WARNING_DIFFERENT, comparable, is_same, merged_service_account
from pinnace.restore.item.reading import ItemRef
from pinnace.restore.ports import (
    Cluster,
)

_MERGE_ATTEMPTS: Final = 5
"""Controllers write ServiceAccounts too; each attempt starts from what they left."""


class ExistingObjects:
    """Compares what a restore would have created with what is in the cluster.

    Args:
        restore_labels: the labels of this restore, which never make a difference.
    """

    def __init__(self, client: Cluster, restore_labels: Mapping[str, str], log: EventLog) -> None:
        self._client = client
        self._labels = restore_labels
        self._log = log

    async def exists(self, ref: ItemRef, resource: APIResource) -> bool:
        """Whether the object is there; what cannot be looked at is not."""
        try:
            await self._client.get(resource, ref.name, ref.target_namespace or None)
        except KubeError:
            return False
        return True

    async def meet(
        self, ref: ItemRef, resource: APIResource, desired: JSONObject, create_error: KubeError
    ) -> str | None:
        """Deal with an object whose create call was answered with 'already exists'.

        Returns:
            The warning to file under the item's namespace, or None.
        """
        try:
            found = await self._client.get(resource, ref.name, ref.target_namespace or None)
            if is_same(comparable(found, self._labels), desired):
                self._log.info(
                    "Restore of item skipped: it already exists and is the same as the backed up version",
                    resource=ref.group_resource,
                    namespace=ref.target_namespace,
                    name=ref.name,
                )
                return None
            if ref.group_resource == "serviceaccounts":
                await self._merge(ref, resource, found, desired)
                return None
        except KubeError as error:
            return f"error meeting the existing {ref.id}: {error}"
        return WARNING_DIFFERENT.format(error=create_error)

    async def _merge(
        self, ref: ItemRef, resource: APIResource, found: JSONObject, desired: JSONObject
    ) -> None:
        namespace = ref.target_namespace or None
        for attempt in range(1, _MERGE_ATTEMPTS + 1):
            before = comparable(found, self._labels)
            patch = merge_patch(before, merged_service_account(before, desired))
            if not patch:
                return
            # Lists are replaced whole: without the version, a token added meanwhile would be lost.
            version = {"resourceVersion": found["metadata"]["resourceVersion"]}
            patch["metadata"] = {**patch.get("metadata", {}), **version}
            try:
                await self._client.patch(resource, ref.name, patch, namespace)
            except KubeError as error:
                # After a failure without an answer it may be merged already: then nothing is left to patch.
                if attempt == _MERGE_ATTEMPTS or not (isinstance(error, Conflict) or is_open(error)):
                    raise
                found = await self._client.get(resource, ref.name, namespace)
            else:
                self._log.info(
                    "ServiceAccount successfully updated", namespace=ref.target_namespace, name=ref.name
                )
                return
