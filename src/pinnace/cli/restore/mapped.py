"""Looks for the namespaces of `--namespace-mappings` in the backup before a restore creates anything.

A misspelt one would bring the objects back into the namespace that they came from.
"""

from collections.abc import Collection, Mapping
from typing import Final

from pinnace.api.kinds import NAMESPACES
from pinnace.api.objects import names_by_kind
from pinnace.api.values.counts import first_names
from pinnace.api.values.near import did_you_mean, near_names
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.cli.errors import InvalidInput
from pinnace.cli.guard import complain
from pinnace.client.errors import ClientError
from pinnace.client.interface import Backend, DownloadOptions, fetch_json
from pinnace.kube.errors import KubeError
from pinnace.storage.errors import StorageError

_PATIENCE: Final = DownloadOptions(timeout_seconds=10.0)
_MOST_SHOWN: Final = 5


async def check_mapping(backend: Backend, backup: str, mapping: Mapping[str, str]) -> None:
    """Refuse the new name of a misspelt namespace; warn of one for another that the backup does not have.

    Nothing is said where the backup's resource list cannot be read: the restore warns at its end.

    Raises:
        InvalidInput: with the namespace that was probably meant.
    """
    if not mapping:
        return
    try:
        found = await fetch_json(backend, DownloadTargetKind.BACKUP_RESOURCE_LIST, backup, _PATIENCE)
        namespaces = _namespaces_in(names_by_kind(found))
    except (ClientError, KubeError, StorageError, ValueError):
        return
    # One mapping may serve for several backups, so that a name without a similar one may be right.
    for name in sorted(mapping.keys() - namespaces):
        text = (
            f"--namespace-mappings {name}:{mapping[name]}: backup {backup} has no object of namespace {name}"
        )
        if near := near_names(name, sorted(namespaces - mapping.keys())):
            raise InvalidInput(f"{text}{did_you_mean(near)} Nothing was restored")
        known = first_names(sorted(namespaces), _MOST_SHOWN)
        complain(f"WARNING: {text}; it has {f'those of {known}' if known else 'no namespaces'}")


def _namespaces_in(names: Mapping[str, Collection[str]]) -> set[str]:
    found = set(names.get(f"{NAMESPACES.version}/{NAMESPACES.kind}", ()))
    for titles in names.values():
        found.update(namespace for namespace, slash, _ in (each.partition("/") for each in titles) if slash)
    return found
