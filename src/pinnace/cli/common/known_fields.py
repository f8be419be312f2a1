"""Checks that the cluster's definition of a kind knows the fields that a command is about to send.

An API server drops fields that a definition does not have, and an older server would then do something else
than what was asked for. A creation on trial (`dryRun`) shows what would be kept, and needs no other rights
than the creation. (docs/spec: BEY 2.1, 6.1)
"""

from collections.abc import Iterator, Mapping
from typing import Final

from pinnace.api.objects import JSONObject, mapping
from pinnace.cli.errors import CommandError
from pinnace.cli.guard import complain
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import APIResource

_FILTERS: Final = frozenset(
    {"includedNamespaces", "excludedNamespaces", "includedResources", "excludedResources", "labelSelector"}
    | {"includeClusterResources", "hooks"}
)
_OF_BACKUPS: Final = _FILTERS | {"snapshotVolumes", "ttl", "storageLocation", "volumeSnapshotLocations"}
_FIRST: Final[Mapping[str, frozenset[str]]] = {
    "Backup": _OF_BACKUPS | {"defaultVolumesToRestic", "orderedResources"},
    "Restore": _FILTERS
    | {"backupName", "scheduleName", "namespaceMapping", "restorePVs", "preserveNodePorts"},
    "Schedule": frozenset({"schedule", "template", "useOwnerReferencesInBackup"}),
}
"""The fields of Velero 1.6, which every definition has."""
_SPECS: Final[Mapping[str, Mapping[tuple[str, ...], str]]] = {
    "Backup": {("spec",): "Backup"},
    "Restore": {("spec",): "Restore"},
    "Schedule": {("spec",): "Schedule", ("spec", "template"): "Backup"},
    "NonAdminBackup": {("spec", "backupSpec"): "Backup"},
    "NonAdminRestore": {("spec", "restoreSpec"): "Restore"},
    "NonAdminBackupStorageLocation": {},
}
"""The paths of the specs that each kind has, with the kind whose fields they have."""
_PRESENT_NAME: Final = "defaultVolumesToFsBackup"
_FORMER_NAME: Final = "defaultVolumesToRestic"


async def with_known_fields(client: KubeClient, resource: APIResource, obj: JSONObject) -> JSONObject:
    """The object with the names of fields that the cluster's definition has; one of Velero 1.9 has others.

    Raises:
        CommandError: the definition lacks a field that has no other name.
    """
    if not list(_later_fields(obj)):
        return obj
    try:
        kept = await client.create(resource, obj, obj["metadata"]["namespace"], dry_run=True)
    except KubeError:
        return obj  # the creation that follows says what is wrong
    lost = _lost(obj, kept)
    renamed = [path for path in lost if path[-1] == _PRESENT_NAME]
    if others := [".".join(path) for path in lost if path not in renamed]:
        raise CommandError(
            f"the CustomResourceDefinition of {resource.name} in the cluster has no field {', '.join(others)}"
            ", and a server of its version would not do what it asks for: leave out the flag. If the server"
            " is Pinnace, `pinnace install --crds-only --apply` adds the field"
        )
    for path in renamed:
        spec = mapping(obj, *path[:-1])
        spec[_FORMER_NAME] = spec.pop(_PRESENT_NAME)
    return obj


def warn_of_lost_fields(sent: JSONObject, created: JSONObject) -> None:
    """Say which fields the cluster has dropped: a trial may be refused where the creation is not."""
    if lost := [".".join(path) for path in _lost(sent, created)]:
        complain(
            f"WARNING: the cluster has dropped {', '.join(lost)}, which the CustomResourceDefinition of"
            f" {sent['kind']} does not have: the server does not do what it asks for"
        )


def _lost(sent: JSONObject, kept: JSONObject) -> list[tuple[str, ...]]:
    """The paths that are missing in what was kept, without those below a missing one."""
    lost: list[tuple[str, ...]] = []
    for path in _later_fields(sent):
        is_told = any(path[: len(each)] == each for each in lost)
        if not is_told and path[-1] not in mapping(kept, *path[:-1]):
            lost.append(path)
    return lost


def _later_fields(obj: JSONObject) -> Iterator[tuple[str, ...]]:
    """The paths of the fields of a spec that not every definition has.

    A field comes before those in it: a definition may have `uploaderConfig` without its later fields.
    """
    for place, kind in _SPECS[obj["kind"]].items():
        for name, value in mapping(obj, *place).items():
            if name not in _FIRST[kind]:
                yield from _asked_for((*place, name), value)


def _asked_for(path: tuple[str, ...], value: object) -> Iterator[tuple[str, ...]]:
    """The path of a value that asks for something, and of those in it."""
    if value or (path[-1] == _PRESENT_NAME and value is False):
        yield path
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _asked_for((*path, name), each)
