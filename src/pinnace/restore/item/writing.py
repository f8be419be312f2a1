"""The writes of a restore, and nothing else: other modules decide what is written. (docs/adr/047)

A preview of a restore runs the same code over a simulated cluster. (docs/adr/064)

The client repeats a create whose outcome is unknown, and marks a refusal after such an attempt: the existing
object may have been created by that attempt. This module checks that. A restore of thousands of objects sees
such failures (a balancer drops a connection, etcd elects a new leader), and one of them would lose an object,
or all objects of a namespace.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from pinnace.aio.timing import poll
from pinnace.api.codec import merge_patch
from pinnace.api.kinds import STATEFUL_SETS
from pinnace.api.objects import JSONObject, copied, dump_json, text
from pinnace.kube.errors import APIStatusError, KubeError, NotFound
from pinnace.kube.resources import APIResource
from pinnace.kube.transport.retrying import is_open
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.cluster import TargetCluster
from pinnace.restore.errors import ItemError
from pinnace.restore.item.managed_fields import Ownership, patch_of
from pinnace.restore.metadata import reset_metadata

LOOK_SECONDS: Final = 30.0
"""How long to look for the object of a create that failed: its attempts have waited for the server."""

_WITH_OWN_CLAIMS: Final = STATEFUL_SETS.group_resource
"""Its deletion may delete the claims of its pods; orphaned, they stay, and the new object adopts them."""


class ClusterWriter:
    """Writes to one cluster."""

    def __init__(self, target: TargetCluster) -> None:
        self._target = target
        self._client = target.client

    async def create(
        self,
        resource: APIResource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        is_ours: Callable[[JSONObject], bool],
        field_manager: str = "",
    ) -> bytes:
        """Create an object; if an answer was lost, return the object that the attempt created.

        Args:
            name: of the object in `body`.
            field_manager: the owner of its fields; empty for the restore.
            is_ours: called with an object that exists after an attempt without an answer; returns whether
                that attempt created it.

        Returns:
            The object as the API server stored it, undecoded.

        Raises:
            AlreadyExists: it existed before, or another client created it.
            KubeError: it was refused, or the last attempt failed too and created nothing.
        """
        try:
            return await self._client.create_bytes(resource, body, namespace, field_manager=field_manager)
        except KubeError as error:
            if not _may_have_created(error):
                raise
            found = await self._look_for(resource, name, namespace)
            if found is None or not is_ours(found):
                raise
            return dump_json(found)

    async def patch(
        self, resource: APIResource, name: str, patch: JSONObject, namespace: str | None = None
    ) -> JSONObject:
        """Apply a JSON merge patch to an existing object."""
        return await self._client.patch(resource, name, patch, namespace)

    async def write_status(
        self, resource: APIResource, stored: JSONObject, status: JSONObject, namespace: str | None = None
    ) -> None:
        """Replace the status of an object through the status sub-resource.

        Args:
            stored: the object as it is.
        """
        current = stored.get("status")
        patch = {"status": merge_patch(current if isinstance(current, dict) else {}, status)}
        name = stored["metadata"]["name"]
        await self._client.patch(resource, name, patch, namespace, subresource="status")

    async def give_owners(
        self, resource: APIResource, name: str, ownership: Ownership, namespace: str | None = None
    ) -> None:
        """Give the fields of an object their owners of the backup; nothing else of it is changed."""
        await self._client.patch(resource, name, patch_of(ownership), namespace)

    async def recreate(
        self,
        versions: Sequence[tuple[APIResource, bytes]],
        found: JSONObject,
        namespace: str | None = None,
        *,
        field_manager: str = "",
    ) -> tuple[APIResource, bytes]:
        """Delete the object that was found, wait until it is gone, and create it again.

        If the new object is refused, the former one is created again, without the metadata that servers set.

        Args:
            versions: the new object in its version, which is that of the former one, then in the others that
                the server may accept.

        Returns:
            The object as the API server stored it, and the resource with its version.

        Raises:
            KubeError: it could not be deleted, and is unchanged.
            ItemError: its deletion does not end, or it was deleted and the new object was refused.
        """
        resource, name, uid = versions[0][0], found["metadata"]["name"], text(found, "metadata", "uid")
        title = (
            f"{resource.group_resource}/{namespace}/{name}"
            if namespace
            else f"{resource.group_resource}/{name}"
        )
        # As the server has it in each version: it may not take it back in the one that it was found in.
        former = [(resource, found)]
        former += [(other, await self._client.get(other, name, namespace)) for other, _ in versions[1:]]
        propagation = "Orphan" if resource.group_resource == _WITH_OWN_CLAIMS else "Background"
        await self._client.delete(resource, name, namespace, uid=uid, propagation=propagation)

        async def gone() -> bool:
            left = await self._found(resource, name, namespace)
            return left is None or text(left, "metadata", "uid") != uid

        limit_seconds = self._target.terminating_timeout_seconds
        if not await poll(gone, clock=self._target.clock, timeout_seconds=limit_seconds):
            raise ItemError(
                Notice(
                    Code.EXISTING_NOT_REPLACED,
                    f"error restoring {title}: it was deleted to be created again, but is still there after"
                    f" {limit_seconds:g} seconds: see its finalizers, and restore it again when it is gone",
                )
            )
        created, refusals = await self._create_one(versions, name, namespace, field_manager)
        if created is not None:
            return created
        again, problems = await self._create_one(
            [(version, dump_json(_without_metadata_of_servers(obj))) for version, obj in former],
            name,
            namespace,
        )
        outcome = (
            "the former one was created again"
            if again is not None
            else f"the former one could not be created again either: {'; '.join(problems)}"
        )
        raise ItemError(
            Notice(
                Code.EXISTING_NOT_REPLACED,
                f"error restoring {title}: it was deleted to be created again, and the new object was"
                f" refused: {'; '.join(refusals)}; {outcome}",
            )
        )

    async def _create_one(
        self,
        versions: Sequence[tuple[APIResource, bytes]],
        name: str,
        namespace: str | None,
        field_manager: str = "",
    ) -> tuple[tuple[APIResource, bytes] | None, list[str]]:
        """Create an object in the first version that the server accepts; return it, and the refusals."""
        refusals: list[str] = []
        for resource, body in versions:
            try:
                answer = await self.create(
                    resource, name, body, namespace, is_ours=lambda _: True, field_manager=field_manager
                )
            except KubeError as error:
                refusals.append(f"in version {resource.version}: {error}" if refusals else str(error))
            else:
                return (resource, answer), refusals
        return None, refusals

    async def _look_for(self, resource: APIResource, name: str, namespace: str | None) -> JSONObject | None:
        """The object of an attempt without an answer; None if there is none, or it cannot be read soon."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                return await self._found(resource, name, namespace)
        except (KubeError, TimeoutError):
            return None

    async def _found(self, resource: APIResource, name: str, namespace: str | None) -> JSONObject | None:
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None


def _without_metadata_of_servers(obj: JSONObject) -> JSONObject:
    former = copied(obj)
    reset_metadata(former)
    return former


def _may_have_created(error: KubeError) -> bool:
    """Whether one of the attempts may have created the object.

    If an earlier attempt used up a quota, the last one is refused for the quota.
    """
    return is_open(error) or (isinstance(error, APIStatusError) and error.after_open_attempt)
