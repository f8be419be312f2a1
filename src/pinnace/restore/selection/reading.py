"""Reads items of an archive and checks that each object is the one that its path names.

An archive is hostile input. Only the path decides the name, namespace and kind of an item; an item with
another name, namespace or kind in its content is an error of that item, so that no object is created that the
filters did not check. (docs/spec: RST 6-8, 10)
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
import orjson

from pinnace.api.kinds import JOBS, PODS, group_resources
from pinnace.api.objects import JSONObject, objects, text
from pinnace.archive.errors import ArchiveError, MissingItem
from pinnace.archive.paths import (
    CLUSTER_DIRECTORY,
    ITEM_SUFFIX,
    NAMESPACES_DIRECTORY,
    PREFERRED_SUFFIX,
    RESOURCES_DIRECTORY,
)
from pinnace.archive.reader import ArchiveIndex
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of
from pinnace.restore.errors import ItemError
from pinnace.restore.results import Results


class ItemKey(NamedTuple):
    """Identity of an item in the restored set: its kind, *target* namespace and name in the backup."""

    group_resource: str
    namespace: str
    name: str


class ItemRef(msgspec.Struct, frozen=True):
    """One item of the archive and its target namespace (both namespaces are empty if cluster-scoped)."""

    group_resource: str
    original_namespace: str
    target_namespace: str
    name: str

    @property
    def key(self) -> ItemKey:
        """Identity in the restored set."""
        return ItemKey(self.group_resource, self.target_namespace, self.name)

    @property
    def id(self) -> str:
        """The item in messages: `pods/ns/name`, with its target namespace."""
        if self.target_namespace:
            return f"{self.group_resource}/{self.target_namespace}/{self.name}"
        return f"{self.group_resource}/{self.name}"

    @property
    def fields(self) -> dict[str, str]:
        """The item in lines of the log."""
        return {
            "resource": self.group_resource,
            "namespace": self.target_namespace,
            "name": self.name,
        }

    def notice(self, code: Code, text: str) -> Notice:
        """A notice about the item."""
        return Notice(code, text, object=self.id)

    def warn(self, results: Results, code: Code, text: str) -> None:
        """Add a warning about the item to the results."""
        results.warnings.add(self.target_namespace, self.notice(code, text))

    def fail(self, results: Results, code: Code, problem: str, cause: object = None) -> None:
        """Add a failure of the item to the results; see `error`."""
        results.errors.add(self.target_namespace, self.error(code, problem, cause).notice)

    def error(self, code: Code, problem: str, cause: object = None) -> ItemError:
        """The failure of the item.

        Args:
            cause: the error behind it, whose code is the nearer one.
        """
        text = f"error restoring {self.id}: {problem}"
        return ItemError(notice_of(cause, code, text, object=self.id))


class ItemReader:
    """Reads items, from the chosen version's directory where there is one. (docs/spec: RST 7)"""

    def __init__(self, archive: ArchiveIndex, version_directories: Mapping[str, str]) -> None:
        self._archive = archive
        self._version_directories = version_directories

    def read(self, group_resource: str, namespace: str, name: str) -> bytes:
        """The item's JSON as stored.

        Raises:
            MissingItem: the backup has no such item.
            ItemError: it is there but cannot be read.
        """
        directory = self._version_directories.get(group_resource)
        try:
            if directory is not None:
                try:
                    return self._archive.read(group_resource, namespace, name, version_dir=directory)
                except MissingItem:
                    pass  # the list of items comes from the legacy directory, so it must be there
            return self._archive.read(group_resource, namespace, name)
        except MissingItem:
            raise
        except ArchiveError as error:
            raise ItemError(
                Notice(Code.ITEM_UNREADABLE, decode_error(group_resource, namespace, name, str(error)))
            ) from error

    def copy(self, group_resource: str, namespace: str, name: str, version: str) -> bytes | None:
        """The item's JSON in another version; None if the backup has no such copy, or it cannot be read."""
        for directory in (version, f"{version}{PREFERRED_SUFFIX}"):
            try:
                return self._archive.read(group_resource, namespace, name, version_dir=directory)
            except ArchiveError:
                continue
        return None


def decode_error(group_resource: str, namespace: str, name: str, problem: str) -> str:
    """The error text for an item that cannot be read or parsed."""
    scope = f"{NAMESPACES_DIRECTORY}/{namespace}" if namespace else CLUSTER_DIRECTORY
    path = f"{RESOURCES_DIRECTORY}/{group_resource}/{scope}/{name}{ITEM_SUFFIX}"
    return f'error decoding "{path}": {problem}'


def decode(ref: ItemRef, raw: bytes) -> JSONObject:
    """Parse an item and check that its content matches its path.

    A missing namespace is filled in; anything else that is missing or differs is an error.

    Raises:
        ItemError: not JSON, not an object of Kubernetes, or another object than the path names.
    """
    try:
        item = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise _undecodable(ref, str(error)) from error
    if not isinstance(item, dict):
        raise _undecodable(ref, "not a JSON object")
    for field in ("kind", "apiVersion"):
        if not isinstance(item.get(field), str) or not item[field]:
            raise _undecodable(ref, f"Object '{field}' is missing")
    _check_metadata(ref, item)
    _check_group(ref, item["apiVersion"])
    for field in ("spec", "status"):
        # A null is what Go writes for an absent struct.
        if item.get(field) is None:
            item.pop(field, None)
    return item


def _check_metadata(ref: ItemRef, item: JSONObject) -> None:
    metadata = item.get("metadata")
    if not isinstance(metadata, dict):
        raise ref.error(Code.ITEM_UNREADABLE, "metadata not found")
    if metadata.get("name") != ref.name:
        raise _undecodable(ref, "metadata.name is not the name of the file")
    if (metadata.get("namespace") or "") != ref.original_namespace:
        if metadata.get("namespace"):
            raise _undecodable(ref, "metadata.namespace is not the name of the directory")
        metadata["namespace"] = ref.original_namespace
    for field in ("labels", "annotations"):
        values = metadata.get(field)
        if values is None:
            metadata.pop(field, None)
        elif not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
            raise _undecodable(ref, f"metadata.{field} is not a map of strings")


def _check_group(ref: ItemRef, api_version: str) -> None:
    group = api_version.rpartition("/")[0]
    if group != ref.group_resource.partition(".")[2]:
        raise _undecodable(ref, f'apiVersion "{api_version}" is not of the group in the path')


def _undecodable(ref: ItemRef, problem: str) -> ItemError:
    text = decode_error(ref.group_resource, ref.original_namespace, ref.name, problem)
    return ItemError(ref.notice(Code.ITEM_UNREADABLE, text))


_CAN_END: Final = group_resources(PODS, JOBS)
_ENDED: Final = frozenset({"Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"})
"""The conditions of Jobs whose controller makes no more pods; the last two precede the first two."""


def why_finished(ref: ItemRef, item: JSONObject) -> str:
    """Why an item is a finished pod or Job, which a restore would run again; empty if it is not.

    (docs/spec: RST 10)

    Raises:
        ItemError: a field that says so has a wrong type.
    """
    if ref.group_resource not in _CAN_END:
        return ""
    status = item.get("status", {})
    field = "phase" if ref.group_resource == PODS.group_resource else "completionTime"
    value = status.get(field) if isinstance(status, dict) else NotImplemented
    if not isinstance(value, str | None):
        raise ItemError(
            ref.notice(
                Code.ITEM_UNREADABLE,
                f'error checking completion of "{ref.id}": .status.{field} is not a string',
            )
        )
    if field == "phase":
        return "it is complete" if value in ("Failed", "Succeeded") else ""
    ended = {text(each, "type") for each in objects(status, "conditions") if each.get("status") == "True"}
    if ended & {"Failed", "FailureTarget"}:
        return "it has failed, and would run again"
    return "it is complete" if value or ended & _ENDED else ""
