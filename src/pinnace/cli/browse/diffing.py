"""Implements `backup diff`."""

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from pinnace.api.objects import JSONObject
from pinnace.api.values.error_texts import error_text
from pinnace.browse.comparing import Change, unified
from pinnace.browse.differences import ADDED, REMOVED, Comparison, Difference, LiveCluster, Rules, differences
from pinnace.cli.browse.diff import DiffOptions
from pinnace.cli.browse.opening import Library, browse, chosen, title_of
from pinnace.cli.browse.rows import check_format, print_data
from pinnace.cli.connect import settings_of
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.guard import complain, discard, flush_output, printable
from pinnace.cli.kinds import BACKUP
from pinnace.cli.output.layout import echo_laid_out
from pinnace.cli.output.printing import encode

SAME, DIFFERENT, TROUBLE = 0, 1, 2
"""The exit codes, as diff has them."""
SIGNS: Final = {ADDED: "+", REMOVED: "-"}
_COLOURS: Final = {"+": "green", "-": "red", "~": "yellow", "@": "cyan"}
_MAX_VALUE_CHARACTERS: Final = 200


def diff(ctx: click.Context, options: DiffOptions) -> int:
    """Print the differences. Returns the exit code."""
    try:
        code = _diff(ctx, options)
        flush_output()
        return code
    except CommandError as error:
        # The same errors end other commands with 1, which means here that something differs.
        complain(f"{error.prefix}{error}")
    except BrokenPipeError:
        raise  # the reader of the output went away, which ends all commands alike
    except OSError as error:
        discard(sys.stdout)
        complain(f"An error occurred: {error_text(error)}")
    return TROUBLE


def _diff(ctx: click.Context, options: DiffOptions) -> int:
    form = check_format(options.output_format, ("table", "json", "yaml", "name"))
    if options.full and options.name_only:
        raise InvalidInput("give either --full or --name-only")
    if len(options.names) != (1 if options.cluster else 2):
        raise InvalidInput("give two backups, or one backup and --cluster")
    choice = chosen(options, options, ())
    rules = Rules(
        all_fields=options.all_fields,
        show_secrets=options.show_secrets,
        read_whole=options.full and form == "table",
    )

    async def work(library: Library) -> Comparison:
        old = await library.open(options.names[0])
        if not options.cluster:
            return await differences(old, await library.open(options.names[1]), choice, rules)
        from pinnace.kube.discovery import Discovery

        async with library.cluster() as client:
            spec = (await library.backend.object(BACKUP.plural, old.name)).get("spec") or {}
            cluster = LiveCluster(client=client, discovery=await Discovery.load(client), spec=spec)
            return await differences(old, cluster, choice, rules)

    comparison = browse(ctx, options, work)
    found = comparison.differences
    _check_selection(comparison, options)
    colour = form == "table" and settings_of(ctx).colour
    if form in ("json", "yaml"):
        print_data([_as_data(difference) for difference in found], form)
    elif form == "name" or options.name_only:
        for difference in found:
            _print(f"{_sign(difference)} {title_of(difference)}", colour=colour)
    else:
        for difference in found:
            text = _full(difference, options.names) if options.full else _fields(difference)
            _print(text, colour=colour)
        if found:
            click.echo(_totals(found))
    return DIFFERENT if found else SAME


def _check_selection(comparison: Comparison, options: DiffOptions) -> None:
    """Warn of names in filters that no backup has. Raises InvalidInput if nothing at all was compared."""
    check = comparison.filters
    if not check.is_needed:
        return
    if options.cluster:
        place = f"backup {options.names[0]}"
        nothing = f"nothing in {place} or the cluster matches"
    else:
        nothing = "nothing in either backup matches"
        place = "either backup"
    if not comparison.differences and not check.selects_any:
        raise InvalidInput(f"{nothing}, so nothing was compared{check.advice() or '.'}")
    for name, near in check.unknown():
        if not options.cluster:
            complain(f"WARNING: nothing in {place} matches {name}{near or '.'}")


def _print(text: str, *, colour: bool) -> None:
    """Print lines, each in the colour of its sign."""
    lines = printable(text).split("\n")
    if colour:
        lines = [click.style(line, fg=_COLOURS.get(line.lstrip()[:1])) for line in lines]
    echo_laid_out("\n".join(lines) + "\n", colour=colour)


def _sign(difference: Difference) -> str:
    return SIGNS.get(difference.what, "~")


def _fields(difference: Difference) -> str:
    lines = [f"{_sign(difference)} {title_of(difference)}"]
    lines += [f"    {change_text(change)}" for change in difference.changes]
    return "\n".join(lines)


def change_text(change: Change) -> str:
    """A changed field as one line."""
    if change.is_added:
        return f"+ {change.path}: {_value(change.new)}"
    if change.is_removed:
        return f"- {change.path}: {_value(change.old)}"
    return f"~ {change.path}: {_value(change.old)} -> {_value(change.new)}"


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE_CHARACTERS else f"{text[:_MAX_VALUE_CHARACTERS]}…"


def _full(difference: Difference, names: Any) -> str:
    path = title_of(difference)
    sides = names[0], names[1] if len(names) > 1 else "cluster"
    old, new = (encode(obj, "yaml") if obj is not None else "" for obj in (difference.old, difference.new))
    return unified(old, new, (f"{sides[0]}: {path}", f"{sides[1]}: {path}"))


def _totals(found: Sequence[Difference]) -> str:
    counts = {what: sum(one.what == what for one in found) for what in (ADDED, REMOVED)}
    changed = len(found) - sum(counts.values())
    return f"{counts[ADDED]} added, {counts[REMOVED]} removed, {changed} changed"


def _as_data(difference: Difference) -> JSONObject:
    return {
        "change": difference.what,
        "resource": difference.resource,
        "namespace": difference.namespace,
        "name": difference.name,
        "fields": [
            {
                "path": change.path,
                **({} if change.is_added else {"old": change.old}),
                **({} if change.is_removed else {"new": change.new}),
            }
            for change in difference.changes
        ],
    }
