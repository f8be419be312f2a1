"""Implements `backup ls`."""

from collections.abc import Sequence

import click

from pinnace.api.objects import JSONObject
from pinnace.api.values.shell_words import argument
from pinnace.archive.item_index import IndexedItem
from pinnace.browse.choosing import Choice
from pinnace.browse.errors import IndexUnusable
from pinnace.browse.filter_check import FilterCheck
from pinnace.browse.stored import StoredBackup
from pinnace.cli.browse.ls import ListOptions
from pinnace.cli.browse.opening import Library, browse, chosen, meant_instead
from pinnace.cli.browse.rows import DataList, check_format, in_one_line, print_data, print_table, size_text
from pinnace.cli.connect import pasteable
from pinnace.cli.errors import CommandError
from pinnace.cli.guard import complain

SORTED_UP_TO = 100_000
"""More items are printed in the order of the backup, as they come: a million would not fit into memory."""

_DATA = ("json", "yaml")
_COLUMNS = ("NAMESPACE", "RESOURCE", "NAME")
_WIDE_COLUMNS = (*_COLUMNS, "VERSION", "SIZE", "RESOURCE VERSION", "UID", "LABELS")


def list_items(ctx: click.Context, options: ListOptions) -> None:
    """Print the items of a backup, or how many there are of each kind."""
    form = check_format(options.output_format)
    name, *words = options.names
    choice = chosen(options, options, words)

    async def work(library: Library) -> None:
        backup = await library.open(name)
        if options.summary:
            summary = await _summary(backup, choice)
            if not summary:
                await _tell_of_nothing(backup, choice)
            _print_summary(summary, form)
        else:
            await _print_items(backup, choice, form)

    browse(ctx, options, work)


async def _print_items(backup: StoredBackup, choice: Choice, form: str) -> None:
    found: list[IndexedItem] = []
    data, is_streamed = DataList(form), False
    try:
        async for batch in backup.entries():
            found += [entry for entry in batch if choice.admits(entry)]
            if len(found) > SORTED_UP_TO:
                is_streamed = True
                _print(found, form, data)
                found = []
    except IndexUnusable as error:
        if not is_streamed:
            raise
        # The work cannot be repeated without the index: part of the list is printed.
        advice = pasteable(f"write the index again with `backup index {argument(backup.name)}`")
        raise CommandError(f"{error}; the list is not complete; {advice}") from error
    if not is_streamed:
        found.sort(key=lambda entry: (entry.namespace, entry.resource, entry.name))
        if not found:
            await _tell_of_nothing(backup, choice)
    _print(found, form, data)
    if form in _DATA:
        data.end()


async def _tell_of_nothing(backup: StoredBackup, choice: Choice) -> None:
    """Say that nothing is selected, and what may be meant. Raises CommandError if an object was named."""
    if choice.kind:
        near = await meant_instead(backup, choice)
    else:
        check = FilterCheck(choice)
        await check.look_into([backup])
        near = check.advice()
    if choice.name:
        raise CommandError(f"{choice.kind}/{choice.name} is not in backup {backup.name}{near}")
    complain(f"Nothing in backup {backup.name} matches{near or '.'}")


def _print(entries: Sequence[IndexedItem], form: str, data: DataList) -> None:
    if form in _DATA:
        data.add(map(_as_data, entries))
    elif form == "name":
        for entry in entries:
            click.echo(in_one_line(f"{entry.resource}/{entry.name}"))
    elif form == "wide":
        print_table(_WIDE_COLUMNS, (_wide_row(entry) for entry in entries))
    else:
        print_table(_COLUMNS, ((entry.namespace, entry.resource, entry.name) for entry in entries))


def _wide_row(entry: IndexedItem) -> tuple[str, ...]:
    labels = ",".join(f"{key}={value}" for key, value in sorted((entry.labels or {}).items()))
    return (
        entry.namespace,
        entry.resource,
        entry.name,
        entry.api_version,
        size_text(entry.size_bytes),
        entry.resource_version,
        entry.uid,
        labels or "<none>",
    )


def _as_data(entry: IndexedItem) -> JSONObject:
    return {
        "resource": entry.resource,
        "apiVersion": entry.api_version,
        "kind": entry.kind,
        "namespace": entry.namespace,
        "name": entry.name,
        "uid": entry.uid,
        "resourceVersion": entry.resource_version,
        "labels": entry.labels or {},
        "sizeBytes": entry.size_bytes,
        "sha256": entry.checksum,
    }


async def _summary(backup: StoredBackup, choice: Choice) -> dict[tuple[str, str], tuple[int, int]]:
    found: dict[tuple[str, str], tuple[int, int]] = {}
    async for batch in backup.entries():
        for entry in batch:
            if choice.admits(entry):
                key = entry.namespace, entry.resource
                count, size_bytes = found.get(key, (0, 0))
                found[key] = count + 1, size_bytes + entry.size_bytes
    return dict(sorted(found.items()))


def _print_summary(summary: dict[tuple[str, str], tuple[int, int]], form: str) -> None:
    if form in _DATA:
        print_data(
            [
                {"namespace": namespace, "resource": resource, "items": count, "sizeBytes": size_bytes}
                for (namespace, resource), (count, size_bytes) in summary.items()
            ],
            form,
        )
        return
    rows = [
        (namespace, resource, str(count), size_text(size_bytes))
        for (namespace, resource), (count, size_bytes) in summary.items()
    ]
    total = sum(count for count, _ in summary.values()), sum(size for _, size in summary.values())
    if rows:
        rows.append(("", "total", str(total[0]), size_text(total[1])))
    print_table(("NAMESPACE", "RESOURCE", "ITEMS", "SIZE"), rows)
