"""Ends a restore whose item operations have ended: late volumes get their settings, and failures are noted.

    Finalizing ──look at the volumes: some are still to come──> Finalizing
        └── none is left, or they took too long ──> results stored ──> the phase of `phases.ended`

A look starts from the object and the files in the location, so that a server goes on where another one was
killed. (docs/spec: BEY 5.6, 5.7; docs/adr/054, 073)
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from pinnace.api import phases
from pinnace.api.codec import DecodeError
from pinnace.api.labels import FINALIZING_SINCE, ITEM_OPERATIONS, VOLUME_PATCHES
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import format_time, parse_time
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.kube.client import KubeClient
from pinnace.plugins.item_operations import ItemOperation, decode_operations, digest_of
from pinnace.restore.volumes.patches import (
    Unbound,
    WantedPatch,
    decode_patches,
    digest_of_patches,
    look,
    problem_of,
    used_claims,
)
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import ObjectNotFound, UnreadableObject

POLL_SECONDS: Final = 3.0
"""Between two looks."""
VOLUMES_SECONDS: Final = 600.0
"""How long volumes may take to be bound: Velero's default of `--resource-timeout`."""
FIRST_POD_SECONDS: Final = 30.0
"""How long a claim may wait for a pod to use it: Deployments that were just restored still make theirs."""

_Told = tuple[str, str]
"""Namespace and text of an error or warning."""


class OperationsChanged(Exception):
    """A file of a backup or restore is missing or was changed, so that its operations cannot be followed."""


async def finalize_restore(
    client: KubeClient,
    store: BackupStore,
    restore: Restore,
    now: datetime,
    *,
    timeout_seconds: float = VOLUMES_SECONDS,
) -> Restore:
    """Look once at the volumes that are to get settings, and end the restore when none is left.

    Args:
        timeout_seconds: how long they may take.

    Returns:
        The Restore with its terminal phase; still Finalizing as long as volumes are waited for.

    Raises:
        StorageError, KubeError: try again later.
        OperationsChanged: a file of the restore is not the one that was stored.
    """
    name, notes = restore.metadata.name, restore.metadata.annotations
    operations = verified_operations(restore, await store.read_restore_item_operations(name))
    errors, warnings = list[_Told](), list[_Told]()
    if VOLUME_PATCHES in notes:
        if FINALIZING_SINCE not in notes:
            annotations = {**notes, FINALIZING_SINCE: format_time(now)}
            metadata = msgspec.structs.replace(restore.metadata, annotations=annotations)
            return msgspec.structs.replace(restore, metadata=metadata)
        waited_seconds = (now - parse_time(notes[FINALIZING_SINCE])).total_seconds()
        looked = await look(client, await _wanted(store, restore), operations_ended=True)
        waiting, unused = await _sorted(client, looked.unbound, waited_seconds)
        if waiting and waited_seconds < timeout_seconds:
            return restore
        reason = f"its claim was not bound within {timeout_seconds:g} seconds"
        errors += looked.problems
        errors += [(each.namespace, problem_of(each, reason)) for each in waiting]
        warnings += [(each.wanted.namespace, _unused(each)) for each in unused]
    await _add_results(store, restore, [*_failures(restore, operations), *errors], warnings)
    counted = restore.status.errors + len(errors)
    status = msgspec.structs.replace(
        restore.status,
        phase=phases.ended(counted),
        errors=counted,
        warnings=restore.status.warnings + len(warnings),
        completion_timestamp=now,
    )
    return msgspec.structs.replace(restore, status=status)


def verified_operations(about: Backup | Restore, found: Sequence[dict[str, object]]) -> list[ItemOperation]:
    """The operations of a file. Raises OperationsChanged."""
    try:
        operations = decode_operations(found)
    except ValueError as error:
        raise OperationsChanged(str(error)) from error
    if digest_of(operations) != about.metadata.annotations.get(ITEM_OPERATIONS):
        raise OperationsChanged("the list of item operations in the location is not the one that was stored")
    return operations


async def _wanted(store: BackupStore, restore: Restore) -> list[WantedPatch]:
    """The settings of volumes that the restore stored. Raises OperationsChanged."""
    try:
        wanted = decode_patches(await store.read_restore_volume_patches(restore.metadata.name))
    except DecodeError as error:
        raise OperationsChanged(str(error)) from error
    if digest_of_patches(wanted) != restore.metadata.annotations[VOLUME_PATCHES]:
        raise OperationsChanged(
            "the list of volumes that get reclaim policy and labels back is not the one that was stored"
        )
    return wanted


async def _sorted(
    client: KubeClient, unbound: Sequence[Unbound], waited_seconds: float
) -> tuple[list[WantedPatch], list[Unbound]]:
    """The claims that may still be bound, and those that wait for a pod which is not there."""
    late = [each for each in unbound if each.for_first_pod]
    if not late or waited_seconds < FIRST_POD_SECONDS:
        return [each.wanted for each in unbound], []
    used = await used_claims(client, (each.wanted.namespace for each in late))
    unused = [each for each in late if (each.wanted.namespace, each.wanted.name) not in used]
    return [each.wanted for each in unbound if each not in unused], unused


def _unused(claim: Unbound) -> str:
    return (
        f"{claim.wanted.title} waits for its first pod, and its volume will have the reclaim policy"
        f" {claim.policy} of its storage class: when the claim is bound, give the volume"
        f" {claim.wanted.settings} of the old one"
    )


def _failures(restore: Restore, operations: Sequence[ItemOperation]) -> list[_Told]:
    """The errors of operations, which are counted already; not for tenants, as they name foreign objects."""
    if Origin.RESTORE.namespace_annotation in restore.metadata.annotations:
        return []
    return [
        (
            operation.item.namespace,
            f"operation {operation.operation_id} for {operation.item.group_resource}"
            f" {operation.item.namespace}/{operation.item.name}: {operation.error}",
        )
        for operation in operations
        if operation.error
    ]


async def _add_results(
    store: BackupStore, restore: Restore, errors: Sequence[_Told], warnings: Sequence[_Told]
) -> None:
    """Add to the results file of a restore, if it has one; what it has already is not added again."""
    if not errors and not warnings:
        return
    name = restore.metadata.name
    try:
        results = await store.read_restore_results(name)
    except (ObjectNotFound, UnreadableObject):
        return
    for kind, told in (("errors", errors), ("warnings", warnings)):
        results[kind] = _with(results.get(kind), told)
    await store.put_restore_results(name, results)


def _with(found: object, told: Sequence[_Told]) -> JSONObject:
    """One half of the results with these texts, by namespace."""
    half: JSONObject = dict(found) if isinstance(found, dict) else {}
    known = half.get("namespaces")
    namespaces: JSONObject = dict(known) if isinstance(known, dict) else {}
    for namespace, text in told:
        before = namespaces.get(namespace)
        namespaces[namespace] = list(dict.fromkeys([*(before if isinstance(before, list) else ()), text]))
    if namespaces:
        half["namespaces"] = namespaces
    return half
