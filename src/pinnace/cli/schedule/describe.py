"""`schedule describe`. (docs/spec: CLI 6)"""

from collections.abc import Sequence
from typing import Final

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.schedules.rules import seed_of
from pinnace.api.values.cron import drawn
from pinnace.cli.backup.describe import template_block
from pinnace.cli.backup.description import described_template
from pinnace.cli.common.describing import View
from pinnace.cli.output import cells, parts
from pinnace.cli.output.description import head
from pinnace.cli.output.layout import Sheet
from pinnace.client.interface import Backend

_RULES: Final = (
    ("Not During", labels.NOT_DURING),
    ("Catch-Up", labels.CATCH_UP),
    ("Allow Overlap", labels.ALLOW_OVERLAP),
)


class _Indented(Sheet):
    """Adds each line to another sheet, with a tab before it."""

    def __init__(self, outer: Sheet) -> None:
        super().__init__()
        self._outer = outer

    def line(self, text: str = "") -> None:
        self._outer.line(f"\t{text}")

    def paint(self, text: str, code: str) -> str:
        return self._outer.paint(text, code)


async def describe_stored_schedule(backend: Backend, schedule: JSONObject, view: View) -> str:
    """The description of a schedule."""
    retention = []
    if labels.RETENTION in mapping(schedule, "metadata", "annotations"):
        # Loaded where it is needed: few schedules have rules.
        from pinnace.cli.common.decided_schedules import lines_of_rules

        retention = await lines_of_rules(backend, schedule)
    return describe_schedule(schedule, view, retention)


def _when(sheet: Sheet, schedule: JSONObject) -> None:
    """When runs begin: the expression, and what annotations say beside it."""
    expression, notes = text(schedule, "spec", "schedule"), mapping(schedule, "metadata", "annotations")
    sheet.field("Schedule", expression)
    if (fixed := drawn(expression, seed_of(schedule))) != expression:
        sheet.field("Drawn Time", fixed)
    for title, name in _RULES:
        if value := text(notes, name):
            sheet.field(title, value)


def _runs(sheet: Sheet, schedule: JSONObject) -> None:
    """What a server noted of the runs; nothing where none does."""
    notes = mapping(schedule, "metadata", "annotations")
    if labels.MISSED_RUN not in notes:
        return
    from pinnace.cli.output.server_tables import missed_state  # most commands need no rules of schedules

    is_paused = cells.spec(schedule).get("paused") is True
    sheet.field("Last Success", cells.local_time(text(notes, labels.LAST_SUCCESS), "<never>"))
    due = "" if is_paused else text(notes, labels.NEXT_RUN)
    sheet.field("Next Run", cells.local_time(due, "<none>"))
    sheet.field("Missed Run", missed_state(schedule, SYSTEM_CLOCK.now()))


def describe_schedule(schedule: JSONObject, view: View, retention: Sequence[str] = ()) -> str:
    """The description as aligned text, without a newline at its end.

    Args:
        retention: the lines about its rules of retention.
    """
    sheet = Sheet(colour=view.colour)
    spec = cells.spec(schedule)
    found = head(schedule)
    parts.metadata(sheet, found.metadata)
    sheet.line()
    # No command tells more about the phase of a schedule.
    parts.phase(sheet, found, "")
    parts.validation_errors(sheet, found)
    sheet.line()
    if spec.get("paused") is True:
        sheet.field("Paused", "true")
        sheet.line()
    _when(sheet, schedule)
    sheet.line()
    sheet.line("Backup Template:")
    template_block(_Indented(sheet), described_template(spec.get("template") or {}))
    sheet.line()
    sheet.field("Last Backup", cells.local_time(cells.status(schedule).get("lastBackup"), "<never>"))
    _runs(sheet, schedule)
    if retention:
        sheet.line()
        for line in retention:
            sheet.line(line)
    return sheet.render()
