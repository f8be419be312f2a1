"""The other API versions of an object that a server refuses in its own version. (docs/adr/086)

A definition may serve versions of different strictness. A backup has each object in the version that the
cluster preferred, also an object that was written in an older version, whose values the preferred one may not
allow. The API server takes such an object in the version that it was written in.
"""

import asyncio
from collections.abc import Iterable, Iterator

import msgspec

from pinnace.api.codec import merge_patch
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import Invalid, KubeError, NotFound, ServerFault
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, APIResource
from pinnace.restore.cluster import ClusterClient
from pinnace.restore.errors import ItemError
from pinnace.restore.metadata import reset_metadata
from pinnace.restore.modifiers.json_patch import merged
from pinnace.restore.selection.reading import ItemReader, ItemRef, decode


class _Definition(msgspec.Struct, frozen=True):
    """The versions of a kind in its definition.

    Attributes:
        stored: the version of stored objects.
        is_one_form: whether an object has the same fields in all versions, as nothing converts it.
    """

    stored: str = ""
    is_one_form: bool = False


class OtherVersions:
    """Finds the versions of the objects of one restore. Definitions are read once, when they are needed."""

    def __init__(self, client: ClusterClient, reader: ItemReader) -> None:
        self._client = client
        self._reader = reader
        self._definitions: dict[str, _Definition] = {}
        self._reading = asyncio.Lock()

    async def of(
        self, ref: ItemRef, raw: bytes, prepared: JSONObject, discovery: Discovery, refusal: type[KubeError]
    ) -> list[tuple[APIResource, JSONObject]]:
        """Return the object in each other version that the server serves, the most promising one first.

        First the copies that the backup has in these versions; then, if the definition says that its versions
        differ in their schemas only (`conversion: None`), the same object under the other versions: that of
        its writers, the one that is stored, and all others. Nothing if another version would not help.

        Args:
            raw: the object in the backup.
            prepared: the object as it was refused. The restore's changes to it are made to the copies too.
            refusal: the server's error.
        """
        refused = prepared["apiVersion"].rpartition("/")[2]
        is_served = discovery.served(ref.group_resource, refused) is not None
        is_invalid = issubclass(refusal, Invalid)
        is_unserved = issubclass(refusal, NotFound) and not is_served
        # A server fault is the answer if the webhook that would convert the object is gone.
        if not (is_invalid or is_unserved or issubclass(refusal, ServerFault)):
            return []
        group = ref.group_resource.partition(".")[2]
        served = {
            version: resource
            for version in discovery.group_versions(group)
            if version != refused and (resource := discovery.served(ref.group_resource, version)) is not None
        }
        if not served:
            return []
        original = decode(ref, raw)
        definition = await self._definition(ref.group_resource)
        order = [each for each in dict.fromkeys(_by_promise(original, definition, served)) if each in served]
        reset_metadata(original)
        change = merge_patch(original, prepared)
        found: list[tuple[APIResource, JSONObject]] = []
        for version in order:
            resource = served[version]
            if (copy := self._copy(ref, version)) is not None:
                found.append((resource, {**merged(copy, change), "apiVersion": resource.api_version}))
        in_backup = {resource.version for resource, _ in found}
        if is_invalid and definition.is_one_form:
            found += [
                (served[version], {**prepared, "apiVersion": served[version].api_version})
                for version in order
                if version not in in_backup
            ]
        return found

    def _copy(self, ref: ItemRef, version: str) -> JSONObject | None:
        """The backup's copy in a version; None if it has none, or none that can be read."""
        raw = self._reader.copy(ref.group_resource, ref.original_namespace, ref.name, version)
        try:
            copy = decode(ref, raw) if raw is not None else None
        except ItemError:
            return None
        if copy is not None:
            reset_metadata(copy)
        return copy

    async def _definition(self, group_resource: str) -> _Definition:
        """The definition of a kind; an empty one if it has none, or it cannot be read."""
        async with self._reading:
            if group_resource not in self._definitions:
                try:
                    found = _read(await self._client.get(CUSTOM_RESOURCE_DEFINITIONS, group_resource))
                except KubeError:
                    found = _Definition()
                self._definitions[group_resource] = found
            return self._definitions[group_resource]


def _by_promise(original: JSONObject, definition: _Definition, served: Iterable[str]) -> Iterator[str]:
    """Versions, the most promising one first; some come twice, some are not served."""
    for entry in objects(original, "metadata", "managedFields"):
        # A controller may write the status in another version than the object was written in.
        if not entry.get("subresource"):
            yield text(entry, "apiVersion").rpartition("/")[2]
    yield definition.stored
    yield from served


def _read(definition: JSONObject) -> _Definition:
    stored = [each for each in objects(definition, "spec", "versions") if each.get("storage") is True]
    strategy = mapping(definition, "spec", "conversion").get("strategy", "None")
    return _Definition(stored=text(stored[0], "name") if stored else "", is_one_form=strategy == "None")
