"""Checks names of resources against the cluster before a request is sent.

With a server a misspelt kind would otherwise be found in a backup that has ended. (docs/adr/023, 105)
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from pinnace.api.selection.globs import is_glob
from pinnace.api.selection.names import EVERYTHING
from pinnace.api.values.near import did_you_mean, near_names
from pinnace.cli.errors import InvalidInput
from pinnace.cli.guard import complain
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError, NotFound, UnknownResource
from pinnace.kube.resources import NAMESPACES

if TYPE_CHECKING:
    from pinnace.api.chosen_objects import ObjectName
    from pinnace.api.velero.backup import BackupSpec
    from pinnace.kube.discovery import Discovery


async def check_names(client: KubeClient, spec: "BackupSpec", *, later: bool = False) -> None:
    """Refuse an included kind that the cluster does not serve; warn of an excluded one and of namespaces.

    A pattern may match nothing. Where not all groups can be discovered nothing is refused.

    Args:
        later: the kinds may be installed before they are needed, so that a warning is enough.

    Raises:
        InvalidInput: with all such kinds, and similar names.
    """
    await _warn_of_missing_namespaces(client, spec.included_namespaces)
    names = [
        *spec.included_resources,
        *spec.included_cluster_scoped_resources,
        *spec.included_namespace_scoped_resources,
    ]
    excluded = [
        *spec.excluded_resources,
        *spec.excluded_cluster_scoped_resources,
        *spec.excluded_namespace_scoped_resources,
    ]
    discovery = await _discovered(client, [*names, *excluded])
    if discovery is None:
        return
    from pinnace.kube.unserved import unserved_names

    problems = [found.text for found in unserved_names(names, discovery) if not found.is_pattern]
    if problems and not later and not discovery.warnings:
        raise InvalidInput("\n  ".join(("the backup would not have what it is asked for:", *problems)))
    problems += [found.text for found in unserved_names(excluded, discovery) if not found.is_pattern]
    for problem in problems:
        complain(f"WARNING: {problem}")


_MOST_LOOKED_UP: Final = 10


async def _warn_of_missing_namespaces(client: KubeClient, names: Sequence[str]) -> None:
    """Warn of namespaces that do not exist: their backup would be PartiallyFailed, which few look at.

    What may not be read is not said.
    """

    async def is_missing(name: str) -> bool:
        try:
            await client.get(NAMESPACES, name)
        except NotFound:
            return True
        except KubeError:
            return False
        return False

    chosen = [name for name in names if name and name != EVERYTHING and not is_glob(name)][:_MOST_LOOKED_UP]
    found = await asyncio.gather(*map(is_missing, chosen))
    missing = [name for name, is_gone in zip(chosen, found, strict=True) if is_gone]
    if not missing:
        return
    try:
        known = [each["metadata"]["name"] for each in await client.list_all(NAMESPACES)]
    except KubeError:
        known = []
    for name in missing:
        complain(f"WARNING: there is no namespace {name}{did_you_mean(near_names(name, known))}")


async def check_namespaces_of(client: KubeClient, objects: "Sequence[ObjectName]") -> None:
    """Refuse objects without a namespace whose kind has namespaces, and the other way round.

    A kind that the cluster lacks is a warning: the backup may have it, and its definition.

    Raises:
        InvalidInput: with the form of such an object.
    """
    discovery = await _discovered(client, [each.kind for each in objects])
    if discovery is None:
        return
    from pinnace.kube.unserved import unserved_names

    for unserved in unserved_names([each.kind for each in objects], discovery):
        complain(f"WARNING: {unserved.text}")
    for each in objects:
        try:
            is_namespaced = discovery.resolve(each.kind).namespaced
        except UnknownResource:
            continue
        if is_namespaced and not each.namespace:
            raise InvalidInput(
                f"--object {each.kind}/{each.name}: a {each.kind} has a namespace, the one that it has in the"
                f" backup: write {each.kind}/NAMESPACE/{each.name}"
            )
        if each.namespace and not is_namespaced:
            raise InvalidInput(
                f"--object {each.kind}/{each.namespace}/{each.name}: a {each.kind} is in no namespace: write"
                f" {each.kind}/{each.name}"
            )


async def _discovered(client: KubeClient, names: Iterable[str]) -> "Discovery | None":
    """The kinds that the cluster serves; None if no name needs them, or they cannot be found out."""
    if not any(name not in ("", "*") for name in names):
        return None
    # Loaded here: most backups name no kind.
    from pinnace.kube.discovery import Discovery

    try:
        return await Discovery.load(client)
    except KubeError:
        return None
