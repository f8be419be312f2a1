"""Implements `history`."""

from dataclasses import dataclass

import click

from pinnace.api.objects import JSONObject
from pinnace.archive.item_index import IndexedItem
from pinnace.browse.choosing import Choice
from pinnace.browse.differences import Rules, compared
from pinnace.browse.errors import BrowseError, IndexUnusable
from pinnace.browse.stored import StoredBackup, decoded
from pinnace.cli.browse.diffing import change_text
from pinnace.cli.browse.history import HistoryOptions
from pinnace.cli.browse.opening import Library, browse, chosen, meant_instead, only_item
from pinnace.cli.browse.rows import check_format, print_data, print_table
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.output.cells import local_time

_SHOWN_FIELDS = 3


@dataclass(frozen=True, slots=True)
class Revision:
    """A backup that has an object for the first time, in another form, or no longer."""

    backup: str
    started: str
    what: str
    fields: tuple[str, ...] = ()


def history(ctx: click.Context, options: HistoryOptions) -> None:
    """Print where an object appeared, changed or disappeared: the backups, oldest first."""
    form = check_format(options.output_format, ("table", "wide", "json", "yaml", "name"))
    choice = chosen(options, None, options.names)
    if not choice.name:
        raise InvalidInput("give the object as KIND/NAME")
    rules = Rules(all_fields=options.all_fields, show_secrets=options.show_secrets)

    async def work(library: Library) -> list[Revision]:
        steps = await _steps(library, choice, rules)
        if not steps:
            near = await _near_in_newest(library, choice)
            raise CommandError(f"{choice.kind}/{choice.name} is in no backup{near}")
        return steps

    steps = browse(ctx, options, work)
    if form in ("json", "yaml"):
        print_data([_as_data(step) for step in steps], form)
    elif form == "name":
        for step in steps:
            click.echo(step.backup)
    else:
        most = None if form == "wide" else _SHOWN_FIELDS
        rows = ((step.backup, local_time(step.started, ""), step.what, _shown(step, most)) for step in steps)
        print_table(("BACKUP", "STARTED", "CHANGE", "FIELDS"), rows)


def _shown(step: Revision, most: int | None) -> str:
    shown = "; ".join(step.fields[:most])
    hidden = len(step.fields) - len(step.fields[:most])
    return f"{shown}; and {hidden} more" if hidden else shown


def _as_data(step: Revision) -> JSONObject:
    return {
        "backup": step.backup,
        "started": step.started,
        "change": step.what,
        "fields": list(step.fields),
    }


async def _near_in_newest(library: Library, choice: Choice) -> str:
    """`; did you mean ...?` with similar names of the newest backup; empty if it has none."""
    for found in (await library.all())[-1:]:
        with library.unless_unreadable(found["metadata"]["name"]):
            return await meant_instead(await library.open(found["metadata"]["name"]), choice)
    return ""


async def _steps(library: Library, choice: Choice, rules: Rules) -> list[Revision]:
    """Read the index of each backup, and the object itself only where its checksum is another."""
    steps: list[Revision] = []
    before: tuple[StoredBackup, IndexedItem] | None = None
    for found in await library.all():
        name = found["metadata"]["name"]
        started = str((found.get("status") or {}).get("startTimestamp") or "")
        with library.unless_unreadable(name):
            backup = await library.open(name)
            entry = await only_item(backup, choice)
            if entry is None:
                # A backup whose filters leave the object out says nothing about it.
                backup.close()  # there may be no room for all tarballs
                if before is not None and _covers(found, before[1]):
                    steps.append(Revision(name, started, "removed"))
                    before[0].close()
                    before = None
                continue
            after = backup, entry
            step = await _step(before, after, rules)
            if step is not None:
                what, fields = step
                steps.append(Revision(name, started, what, fields))
            if before is not None:
                before[0].close()
            before = after
    return steps


async def _step(
    before: tuple[StoredBackup, IndexedItem] | None, after: tuple[StoredBackup, IndexedItem], rules: Rules
) -> tuple[str, tuple[str, ...]] | None:
    """The change of the object, and the fields that changed; None without a change."""
    if before is None:
        return "added", ()
    uids = before[1].uid, after[1].uid
    is_new = all(uids) and uids[0] != uids[1]
    if not is_new and before[1].checksum == after[1].checksum:
        return None
    what = "created again" if is_new else "changed"
    try:
        fields = await _changed(before, after, rules)
    except IndexUnusable:
        raise
    except BrowseError as error:
        return what, (f"the fields cannot be compared: {error}",)
    return None if fields is None and not is_new else (what, fields or ())


async def _changed(
    before: tuple[StoredBackup, IndexedItem], after: tuple[StoredBackup, IndexedItem], rules: Rules
) -> tuple[str, ...] | None:
    objects = [decoded(await backup.content(entry), backup.name, entry) for backup, entry in (before, after)]
    difference = compared(after[1].identity, objects[0], objects[1], rules)
    return None if difference is None else tuple(change_text(change) for change in difference.changes)


def _covers(backup: JSONObject, entry: IndexedItem) -> bool:
    """Whether a backup's filters, as far as names tell, would have taken an object."""
    from pinnace.api.selection.names import IncludesExcludes

    spec = backup.get("spec") or {}
    namespaces = IncludesExcludes(spec.get("includedNamespaces") or (), spec.get("excludedNamespaces") or ())
    if entry.namespace and not namespaces.matches(entry.namespace):
        return False
    if not entry.namespace and not namespaces.includes_everything:
        return False
    if spec.get("labelSelector") or spec.get("orLabelSelectors"):
        return False
    resources = Choice(
        resources=IncludesExcludes(spec.get("includedResources") or (), spec.get("excludedResources") or ())
    )
    return resources.admits(entry)
