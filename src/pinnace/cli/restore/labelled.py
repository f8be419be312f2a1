"""Chooses the namespaces of a restore by the labels of their Namespace objects in the backup.

A backup does not change, so that the command chooses, and any server obeys the list that the Restore has.
"""

from typing import TYPE_CHECKING, Final

from pinnace.api import kinds
from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.selection.selectors import Selector
from pinnace.api.values.counts import first_names
from pinnace.browse.stored import StoredBackup
from pinnace.cli.backends import open_backend
from pinnace.cli.browse.opening import Library
from pinnace.cli.errors import InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.restore.create import RestoreCreateOptions
from pinnace.cli.settings import Settings
from pinnace.cli.structs import replace
from pinnace.client.interface import DownloadOptions
from pinnace.operations.workdir import work_directory

if TYPE_CHECKING:
    from pinnace.api.meta import LabelSelector

_DOWNLOADS: Final = DownloadOptions(timeout_seconds=600.0)
_MOST_SHOWN: Final = 5


async def with_chosen_namespaces(
    settings: Settings, options: RestoreCreateOptions, selector: "LabelSelector"
) -> RestoreCreateOptions:
    """The options with the namespaces that have the labels, among those that the lists admit.

    Raises:
        InvalidInput: no backup is named, or none of its namespaces has the labels.
        CommandError: the backup cannot be read.
    """
    if not options.from_backup:
        raise InvalidInput(
            "--namespace-selector needs --from-backup: it chooses among namespaces of one backup"
        )
    lists = IncludesExcludes(options.include_namespaces, options.exclude_namespaces)
    async with work_directory(None) as folder, open_backend(settings) as backend:
        library = Library(settings, backend, folder, _DOWNLOADS)

        async def choose() -> list[str]:
            return await _chosen(await library.open(options.from_backup), selector, lists)

        try:
            names = await library.run(choose)
        finally:
            library.close()
    return replace(options, include_namespaces=names, namespace_selector=None)


async def _chosen(backup: StoredBackup, wanted: "LabelSelector", lists: IncludesExcludes) -> list[str]:
    """The namespaces that have the labels; a warning names those without an object. Raises InvalidInput."""
    selector = Selector.from_label_selector(wanted)
    with_labels: dict[str, bool] = {}
    used = set()
    async for batch in backup.entries():
        for entry in batch:
            if entry.namespace:
                used.add(entry.namespace)
            elif entry.resource == kinds.NAMESPACES.plural and entry.is_preferred:
                with_labels[entry.name] = selector.matches(entry.labels)
    names = sorted(name for name, matches in with_labels.items() if matches and lists.matches(name))
    if unknown := sorted(filter(lists.matches, used - with_labels.keys())):
        complain(
            f"WARNING: backup {backup.name} has no Namespace object, and so no labels, of"
            f" {first_names(unknown, _MOST_SHOWN)}: not restored"
        )
    if not names:
        raise InvalidInput(f"no included namespace of backup {backup.name} has the labels {selector}")
    return names
