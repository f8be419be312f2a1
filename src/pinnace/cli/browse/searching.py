"""Implements `backup search`."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from typing import Any

import click
import orjson

from pinnace.api.objects import JSONObject
from pinnace.archive.content import check_decodable
from pinnace.archive.errors import ArchiveError
from pinnace.archive.item_index import IndexedItem
from pinnace.browse.choosing import Choice
from pinnace.browse.comparing import member_path
from pinnace.browse.filter_check import FilterCheck
from pinnace.browse.masking import masked
from pinnace.browse.problems import Problems
from pinnace.browse.stored import StoredBackup
from pinnace.cli.browse.opening import Library, browse, chosen, title_of
from pinnace.cli.browse.rows import check_format, in_one_line, print_data, print_table
from pinnace.cli.browse.search import SearchOptions
from pinnace.cli.errors import InvalidInput
from pinnace.cli.guard import complain, printable

FOUND, NOTHING = 0, 1
_MAX_DEPTH = 100
_MAX_PENDING = 5000
_MAX_HITS = 10_000
_AROUND = 60


@dataclass(frozen=True, slots=True)
class Hit:
    """A place in an object where a text was found: a field and its value."""

    backup: str
    entry: IndexedItem
    path: str
    value: str


def search(ctx: click.Context, options: SearchOptions) -> int:
    """Print the objects that contain a text. Returns 1 if there is none, as grep does."""
    form = check_format(options.output_format, ("table", "json", "yaml", "name"))
    *names, text = options.names
    if bool(names) == options.all or len(names) > 1:
        raise InvalidInput("give one backup and a text, or --all and a text")
    if not text:
        raise InvalidInput("the text to search is empty")
    choice = chosen(options, options, ())
    check = FilterCheck(choice)

    async def work(library: Library) -> tuple[list[Hit], Problems]:
        wanted = names or [backup["metadata"]["name"] for backup in await library.all()]
        hits: list[Hit] = []
        skipped = Problems()
        for name in wanted:
            with library.unless_unreadable(name) if options.all else nullcontext():
                backup = await library.open(name)
                async with aclosing(_hits(backup, choice, check, text.lower(), options, skipped)) as found:
                    async for hit in found:
                        hits.append(hit)
                        if len(hits) > _MAX_HITS:
                            raise InvalidInput(f"more than {_MAX_HITS} places: search a longer text")
                backup.close()  # with --all there may be no room for all tarballs
        return hits, skipped

    hits, skipped = browse(ctx, options, work)
    if form in ("json", "yaml"):
        print_data([_as_data(hit) for hit in hits], form)
    elif form == "name":
        for name in dict.fromkeys(f"{hit.backup}: {hit.entry.resource}/{hit.entry.name}" for hit in hits):
            click.echo(in_one_line(name))
    else:
        print_table(
            ("BACKUP", "NAMESPACE", "RESOURCE", "NAME", "WHERE", "WHAT"),
            (
                (
                    hit.backup,
                    hit.entry.namespace,
                    hit.entry.resource,
                    hit.entry.name,
                    hit.path,
                    excerpt(hit.value, text.lower()),
                )
                for hit in hits
            ),
        )
    place = "any backup" if options.all else f"backup {printable(names[0])}"
    if not hits:
        more = "" if options.content else "; --content looks at all values, not only names and labels"
        complain(f"The text was not found in {place}{more}.")
    for name, near in check.unknown() if check.is_needed else ():
        complain(f"WARNING: nothing in {place} matches {name}{near or '.'}")
    if skipped.count:
        complain(f"Not searched, as they are no JSON that can be read: {skipped}.")
    return FOUND if hits else NOTHING


async def _hits(
    backup: StoredBackup,
    choice: Choice,
    check: FilterCheck,
    text: str,
    options: SearchOptions,
    skipped: Problems,
) -> AsyncGenerator[Hit, None]:
    pending: list[IndexedItem] = []
    async with aclosing(backup.entries()) as batches:
        async for batch in batches:
            if check.is_needed:
                check.look(batch)
            admitted = [entry for entry in batch if choice.admits(entry)]
            if not options.content:
                for entry in admitted:
                    for path, value in in_entry(entry, text):
                        yield Hit(backup.name, entry, path, value)
                continue
            pending += admitted
            # Items in the last span wait for the rest of it, so that the span is fetched once.
            last = pending[-1].span if pending and len(pending) < _MAX_PENDING else None
            ready = [entry for entry in pending if entry.span != last]
            pending = [entry for entry in pending if entry.span == last]
            async with aclosing(_in_contents(backup, ready, text, options, skipped)) as found:
                async for hit in found:
                    yield hit
    async with aclosing(_in_contents(backup, pending, text, options, skipped)) as found:
        async for hit in found:
            yield hit


async def _in_contents(
    backup: StoredBackup, entries: list[IndexedItem], text: str, options: SearchOptions, skipped: Problems
) -> AsyncGenerator[Hit, None]:
    """Search items; those whose content is no JSON are added to `skipped`."""
    async with aclosing(backup.contents(entries)) as contents:
        async for entry, content in contents:
            try:
                check_decodable(content)
                obj = orjson.loads(content)
            except (ArchiveError, orjson.JSONDecodeError):
                skipped.add(f"{title_of(entry)} (backup {backup.name})")
                continue
            if isinstance(obj, dict) and not options.show_secrets:
                obj = masked(obj, entry.resource)
            for path, value in in_values(obj, text):
                yield Hit(backup.name, entry, path, value)


def in_entry(entry: IndexedItem, text: str) -> Iterator[tuple[str, str]]:
    """The name and the labels of an item that contain a text, which is in lower case."""
    if text in entry.name.lower():
        yield "metadata.name", entry.name
    for key, value in (entry.labels or {}).items():
        if text in f"{key}={value}".lower():
            yield member_path("metadata.labels", key), value


def in_values(value: Any, text: str, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """The values and keys of an object that contain a text in lower case; managedFields are left out."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, dict):
        for key, part in value.items():
            inner = member_path(path, key)
            if inner == "metadata.managedFields":
                continue
            if text in key.lower():
                yield inner, key
            yield from in_values(part, text, inner, depth + 1)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from in_values(part, text, f"{path}[{index}]", depth + 1)
    elif value is not None and text in str(value).lower():
        yield path, str(value)


def excerpt(value: str, text: str) -> str:
    """The part of a long value around the text."""
    at = max(0, value.lower().find(text))
    begin, end = max(0, at - _AROUND), at + len(text) + _AROUND
    return ("…" if begin else "") + value[begin:end] + ("…" if end < len(value) else "")


def _as_data(hit: Hit) -> JSONObject:
    return {
        "backup": hit.backup,
        "resource": hit.entry.resource,
        "namespace": hit.entry.namespace,
        "name": hit.entry.name,
        "path": hit.path,
        "value": hit.value,
    }
