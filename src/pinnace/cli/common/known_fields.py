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
    return [path for path in _later_fields(sent) if path[-1] not in mapping(kept, *path[:-1])]


def _later_fields(obj: JSONObject) -> Iterator[tuple[str, ...]]:
    """The paths of the fields of the spec, and of a Schedule's template, that not every definition has."""
    places: dict[tuple[str, ...], str] = {("spec",): obj["kind"], ("spec", "template"): "Backup"}
    for place, kind in places.items():
        for name, value in mapping(obj, *place).items():
            asks = bool(value) or (name == _PRESENT_NAME and value is False)
            if asks and name not in _FIRST[kind]:
                yield (*place, name)
