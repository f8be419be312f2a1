"""Copies of the Secrets and ConfigMaps that a driver reads beside a claim, in the server's namespace.

The settings of the node agents name them (`secretNames`, `configMapNames`), as a driver of encrypted volumes
looks for keys in the namespace of the claim, and a temporary claim is in that of the server.

    none of that name ──> made, with the transfer as its owner
    copy of others, same content ──> the transfer becomes one more owner
    copy of others, other content, or being deleted ──> waited for
    no copy, same content ──> used as it is    no copy, other content ──> the transfer fails

Guarantees: an object that is no copy is never changed nor deleted. A copy goes when its last owner gives it
up. If a transfer is deleted without that, the garbage collector of the cluster does so for it. Only names in
the settings are copied, and of the source only its content and type: what labels and annotations may ask of
programs in the server's namespace is left behind. Content is in no message.
(docs/spec: after-1.18 7.8)
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from pinnace.api import ALPHA_API_VERSION, labels
from pinnace.api.node_agent_config import ClaimCompanions, NodeAgentConfig
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.csi.movement.errors import MovementError
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, NotFound
from pinnace.kube.resources import (
    CONFIGMAPS,
    DATA_DOWNLOADS,
    DATA_UPLOADS,
    PERSISTENT_VOLUMES,
    SECRETS,
    APIResource,
)
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

TEMPORARY_VOLUME_OF: Final = "pinnace.io/temporary-volume-of"
"""Label of a volume that is to be deleted after a transfer: the uid of the DataUpload or DataDownload."""

_CONTENT: Final[Mapping[str, tuple[str, ...]]] = {
    SECRETS.kind: ("data", "type"),
    CONFIGMAPS.kind: ("data", "binaryData"),
}


class ClaimCopies:
    """The copies for DataUploads and DataDownloads.

    Args:
        namespace: the server's.
    """

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def why_waiting(self, movement: JSONObject, config: NodeAgentConfig) -> str:
        """Make the copies for a transfer; return why that has to wait, or nothing when all are there.

        Transfers get their copies in the same order, so that no two wait for each other.

        Raises:
            MovementError: one can never be made.
            Conflict: one has just changed; try again.
        """
        needed = companions(movement, config)
        names = [(CONFIGMAPS, name) for name in sorted(set(needed.config_map_names))]
        names += [(SECRETS, name) for name in sorted(set(needed.secret_names))]
        for resource, name in names:
            if why := await self._copy(resource, name, movement):
                return why
        return ""

    async def release(self, movement: JSONObject, *, although_read: bool) -> bool:
        """Give up a transfer's copies, and delete those without another owner; return whether that is done.

        Args:
            although_read: do so although the temporary volume still exists, whose driver may read them.

        Raises:
            Conflict: one has just changed; try again.
        """
        held = [(kind, copy) for kind in (SECRETS, CONFIGMAPS) for copy in await self._held(kind, movement)]
        if held and await self._has_volume(movement):
            if not although_read:
                return False
            log.warning("A temporary volume is not deleted yet, and its driver may need what is removed now")
        for resource, copy in held:
            await self._give_up(resource, copy, movement)
        return True

    async def secrets(self, movement: JSONObject) -> frozenset[str]:
        """The names of the Secrets that were copied for a transfer."""
        return frozenset(copy["metadata"]["name"] for copy in await self._held(SECRETS, movement))

    async def _copy(self, resource: APIResource, name: str, movement: JSONObject) -> str:
        namespace = claim_namespace(movement)
        source = await self._find(resource, name, namespace)
        if source is None:
            raise MovementError(
                f"{resource.kind} {namespace}/{name} does not exist, and the settings of the node agents say"
                " that the driver of the volume needs it: create it, or remove it from the settings"
            )
        if namespace == self._namespace:
            return ""
        there = await self._find(resource, name, self._namespace)
        if there is None:
            with suppress(AlreadyExists):
                await self._client.create(resource, self._body(resource, source, movement), self._namespace)
                return ""
            return self._busy(resource, name)
        owners = _owners(there)
        if _owner(movement)["uid"] in {each.get("uid") for each in owners}:
            return ""
        is_same = _content(resource, there) == _content(resource, source)
        if not mapping(there, "metadata", "labels").get(labels.COPIED_FOR):
            if is_same:
                return ""
            raise MovementError(
                f"{resource.kind} {namespace}/{name}, which the driver of the volume needs, cannot be copied:"
                f" {self._namespace}/{name} exists, was not made for a transfer, and has other content"
            )
        if not is_same or not owners or "deletionTimestamp" in there["metadata"]:
            return self._busy(resource, name)
        await self._own(resource, there, [*owners, _owner(movement)])
        return ""

    def _busy(self, resource: APIResource, name: str) -> str:
        return (
            f"the {resource.kind} {self._namespace}/{name} of another transfer is in the way until that ends"
        )

    def _body(self, resource: APIResource, source: JSONObject, movement: JSONObject) -> JSONObject:
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {
                "name": source["metadata"]["name"],
                "namespace": self._namespace,
                "labels": {
                    labels.COPIED_FOR: movement["metadata"]["uid"],
                    labels.EXCLUDE_FROM_BACKUP: labels.EXCLUDE_FROM_BACKUP_VALUE,
                },
                "ownerReferences": [_owner(movement)],
            },
            **_content(resource, source),
        }

    async def _give_up(self, resource: APIResource, copy: JSONObject, movement: JSONObject) -> None:
        metadata = copy["metadata"]
        others = [each for each in _owners(copy) if each.get("uid") != movement["metadata"]["uid"]]
        with suppress(NotFound):
            if others:
                await self._own(resource, copy, others)
                return
            # Another transfer may become an owner after the copy was read.
            await self._client.delete(
                resource,
                metadata["name"],
                self._namespace,
                uid=metadata["uid"],
                version=metadata["resourceVersion"],
            )

    async def _own(self, resource: APIResource, copy: JSONObject, owners: list[JSONObject]) -> None:
        metadata = {
            "labels": {labels.COPIED_FOR: owners[0]["uid"]},
            "ownerReferences": owners,
            "resourceVersion": copy["metadata"]["resourceVersion"],
        }
        await self._client.patch(resource, copy["metadata"]["name"], {"metadata": metadata}, self._namespace)

    async def _held(self, resource: APIResource, movement: JSONObject) -> list[JSONObject]:
        copies = await self._client.list_all(resource, self._namespace, label_selector=labels.COPIED_FOR)
        uid = movement["metadata"]["uid"]
        return [copy for copy in copies if any(each.get("uid") == uid for each in _owners(copy))]

    async def _has_volume(self, movement: JSONObject) -> bool:
        selector = f"{TEMPORARY_VOLUME_OF}={movement['metadata']['uid']}"
        return bool(await self._client.list_all(PERSISTENT_VOLUMES, label_selector=selector))

    async def _find(self, resource: APIResource, name: str, namespace: str) -> JSONObject | None:
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None


def companions(movement: JSONObject, config: NodeAgentConfig) -> ClaimCompanions:
    """The objects that the settings name for the claim of a transfer."""
    if movement["kind"] == DATA_DOWNLOADS.kind:
        return config.restore_claim
    name = text(movement, "spec", "csiSnapshot", "storageClass")
    return config.backup_claims.get(name) or ClaimCompanions()


def claim_namespace(movement: JSONObject) -> str:
    """The namespace of the claim that is saved or restored."""
    if movement["kind"] == DATA_DOWNLOADS.kind:
        return text(movement, "spec", "targetVolume", "namespace")
    return text(movement, "spec", "sourceNamespace")


def _owner(movement: JSONObject) -> JSONObject:
    metadata = movement["metadata"]
    return {
        "apiVersion": ALPHA_API_VERSION,
        "kind": movement["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def _owners(copy: JSONObject) -> list[JSONObject]:
    """The transfers that a copy is for."""
    kinds = (DATA_UPLOADS.kind, DATA_DOWNLOADS.kind)
    return [each for each in objects(copy, "metadata", "ownerReferences") if each.get("kind") in kinds]


def _content(resource: APIResource, obj: JSONObject) -> JSONObject:
    return {key: obj[key] for key in _CONTENT[resource.kind] if obj.get(key)}
