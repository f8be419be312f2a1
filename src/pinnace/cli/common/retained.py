"""Shows what the rules of retention say of backups: which rule keeps each one, or why it goes."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import click
import msgspec

from pinnace.api.objects import JSONObject
from pinnace.api.retention.deciding import RetentionDecision
from pinnace.api.values.counts import counted
from pinnace.api.values.times import format_time
from pinnace.cli.output.layout import Sheet, echo_laid_out
from pinnace.cli.output.printing import encode


class DecidedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules say of one group.

    Attributes:
        title: names the group.
        decisions: the newest backup first.
        waiting: the names of backups whose deletion waits.
    """

    title: str
    decisions: Sequence[RetentionDecision]
    waiting: frozenset[str] = frozenset()

    @property
    def going(self) -> list[str]:
        """The names of the backups that no rule keeps, the oldest first."""
        return [each.name for each in reversed(self.decisions) if each.goes]


def lines_of(group: DecidedGroup) -> Iterator[str]:
    """A line for each backup, with tabs between its cells."""
    for each in group.decisions:
        verdict = "kept" if not each.goes else "waits" if each.name in group.waiting else "goes"
        yield f"{each.name}\t{_moment(each.moment)}\t{verdict}\t{each.words}"


def print_groups(groups: Sequence[DecidedGroup], form: str | None) -> None:
    """Print what the rules say: a table for each group, or data."""
    if form is not None:
        click.echo(encode([_data(group) for group in groups], form), nl=False)
        return
    sheet = Sheet()
    for number, group in enumerate(groups):
        if number:
            sheet.line()
        going = len(group.going)
        sheet.line(f"{group.title}: {counted(len(group.decisions), 'backup')}, {going} to go")
        sheet.line("NAME\tSTARTED\tRESULT\tREASON")
        for line in lines_of(group):
            sheet.line(line)
    echo_laid_out(f"{sheet.render()}\n")


def _data(group: DecidedGroup) -> JSONObject:
    return {
        "group": group.title,
        "backups": [
            {
                "name": each.name,
                "started": _moment(each.moment) if each.moment else None,
                "goes": each.goes,
                "waits": each.name in group.waiting,
                "keptBy": list(each.kept_by),
                "reason": each.reason,
            }
            for each in group.decisions
        ],
    }


def _moment(moment: datetime | None) -> str:
    return format_time(moment) if moment is not None else "<unknown>"
