"""Finds the single objects that a restore is limited to, with what they need, in an archive."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import orjson
from msgspec.structs import replace

from pinnace.api import kinds
from pinnace.api.chosen_objects import ChosenObjects, ObjectName
from pinnace.api.objects import JSONObject, listed, mapping, member, objects, text
from pinnace.api.values.near import did_you_mean, near_names
from pinnace.archive.errors import MissingItem
from pinnace.archive.reader import ArchiveIndex
from pinnace.restore.errors import ItemError
from pinnace.restore.selection.reading import ItemReader

Key = tuple[str, str, str]
"""Group-resource, original namespace and name."""

_POD_SPECS: Final = (
    ("spec",),
    ("spec", "template", "spec"),
    ("spec", "jobTemplate", "spec", "template", "spec"),
)
"""The paths of the pod's spec in a Pod, in a workload and in a CronJob."""


def choose(
    chosen: ChosenObjects, archive: ArchiveIndex, reader: ItemReader, canonical: Callable[[str], str]
) -> tuple[frozenset[Key], Sequence[ObjectName]]:
    """Return the keys of the items that are restored, and the objects that the archive does not have.

    Args:
        canonical: the `plural.group` of a kind as a user names it.
    """
    found: set[Key] = set()
    missing = []
    waiting: list[Key] = []
    for each in chosen.objects:
        key = (canonical(each.kind), each.namespace, each.name)
        if archive.has(*key):
            waiting.append(key)
        else:
            missing.append(each)
    while waiting:
        key = waiting.pop()
        if key in found:
            continue
        found.add(key)
        item = _read(reader, key)
        needed: list[Key] = []
        if chosen.dependencies:
            needed += dependencies(item, key[1])
        if chosen.owners:
            needed += [(canonical(kind), key[1], name) for kind, name in owners(item)]
            # The owner of a namespaced object may be cluster-scoped.
            needed += [(canonical(kind), "", name) for kind, name in owners(item)]
        waiting += [each for each in needed if archive.has(*each)]
    return frozenset(found), missing


def meant_instead(missing: ObjectName, archive: ArchiveIndex, canonical: Callable[[str], str]) -> str:
    """`; did you mean ...?` about an object that the archive does not have; empty if no name is similar."""
    kind = canonical(missing.kind)
    namespaces = archive.namespaces(kind)
    near: list[ObjectName]
    if not namespaces:
        plurals = [resource.partition(".")[0] for resource in archive.resources]
        kinds = near_names(missing.kind, plurals) or near_names(missing.kind, archive.resources)
        near = [replace(missing, kind=each) for each in kinds]
    elif missing.namespace in namespaces:
        names = archive.names(kind, missing.namespace)
        near = [replace(missing, name=each) for each in near_names(missing.name, names)]
    else:
        others = [each for each in namespaces if archive.has(kind, each, missing.name)]
        others = near_names(missing.namespace, others) or others[:1]
        near = [replace(missing, namespace=each) for each in others]
    return did_you_mean(map(str, near))


def owners(item: JSONObject) -> Iterator[tuple[str, str]]:
    """The kind (`deployment.apps`) and the name of each owner of an object."""
    for owner in objects(item, "metadata", "ownerReferences"):
        group = text(owner, "apiVersion").rpartition("/")[0]
        kind = text(owner, "kind").lower()
        yield f"{kind}.{group}" if group else kind, text(owner, "name")


def dependencies(item: JSONObject, namespace: str) -> list[Key]:
    """The objects that the pods of an object refer to in their namespace; optional references included."""
    found: dict[Key, None] = {}
    for path in _POD_SPECS:
        for kind, name in _of_pod(member(item, *path)):
            if name:
                found[kind.group_resource, namespace, name] = None
    if text(item, "kind") == "StatefulSet":
        for name in _claims_of_set(item):
            found[kinds.PERSISTENT_VOLUME_CLAIMS.group_resource, namespace, name] = None
    if text(item, "kind") == "PersistentVolumeClaim" and (volume := text(item, "spec", "volumeName")):
        found[kinds.PERSISTENT_VOLUMES.group_resource, "", volume] = None
    return list(found)


def _claims_of_set(item: JSONObject) -> Iterator[str]:
    """The claims of a StatefulSet's pods, by the names that their controller gives them."""
    replicas = member(item, "spec", "replicas")
    number = replicas if isinstance(replicas, int) and 0 <= replicas <= 10_000 else 1
    for template in objects(item, "spec", "volumeClaimTemplates"):
        for index in range(number):
            yield f"{text(template, 'metadata', 'name')}-{text(item, 'metadata', 'name')}-{index}"


def _of_pod(spec: object) -> Iterator[tuple[kinds.Kind, str]]:
    if not listed(spec, "containers"):
        return
    yield kinds.SERVICE_ACCOUNTS, text(spec, "serviceAccountName")
    for secret in objects(spec, "imagePullSecrets"):
        yield kinds.SECRETS, text(secret, "name")
    for volume in objects(spec, "volumes"):
        yield from _of_volume(volume)
        for source in objects(volume, "projected", "sources"):
            yield kinds.SECRETS, text(source, "secret", "name")
            yield kinds.CONFIGMAPS, text(source, "configMap", "name")
    for containers in ("initContainers", "containers", "ephemeralContainers"):
        for container in objects(spec, containers):
            for source in objects(container, "envFrom"):
                yield kinds.SECRETS, text(source, "secretRef", "name")
                yield kinds.CONFIGMAPS, text(source, "configMapRef", "name")
            for variable in objects(container, "env"):
                value = mapping(variable, "valueFrom")
                yield kinds.SECRETS, text(value, "secretKeyRef", "name")
                yield kinds.CONFIGMAPS, text(value, "configMapKeyRef", "name")


def _of_volume(volume: JSONObject) -> Iterator[tuple[kinds.Kind, str]]:
    yield kinds.PERSISTENT_VOLUME_CLAIMS, text(volume, "persistentVolumeClaim", "claimName")
    yield kinds.SECRETS, text(volume, "secret", "secretName")
    yield kinds.CONFIGMAPS, text(volume, "configMap", "name")
    for driver in ("csi", "flexVolume", "cephfs", "rbd", "iscsi", "scaleIO", "storageos"):
        for reference in ("secretRef", "nodePublishSecretRef"):
            yield kinds.SECRETS, text(volume, driver, reference, "name")


def _read(reader: ItemReader, key: Key) -> JSONObject:
    """The item; empty if it cannot be read, which its restore will report."""
    try:
        found = orjson.loads(reader.read(*key))
    except (MissingItem, ItemError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}
