"""Describes the operations that the actions of a backup or restore have started. (docs/spec: BEY 3.8)

They come from a file of a location and count as hostile input. Pure.
"""

from collections.abc import Iterator, Sequence

from pinnace.api.objects import JSONObject, mapping, text
from pinnace.cli.output import cells
from pinnace.cli.output.layout import Sheet


def item_operations(sheet: Sheet, operations: Sequence[JSONObject], what: str) -> None:
    """Write `Backup Item Operations:` or `Restore Item Operations:` one by one; nothing without any."""
    if not operations:
        return
    sheet.line()
    sheet.line(f"{what} Item Operations:")
    for operation in operations:
        spec, status = cells.spec(operation), cells.status(operation)
        sheet.line(f"\tOperation for {_item(spec)}:")
        sheet.field(f"{what} Item Action Plugin", text(spec, f"{what.lower()}ItemAction"), indent=2)
        sheet.field("Operation ID", text(spec, "operationID"), indent=2)
        sheet.field("Phase", text(status, "phase") or "New", indent=2)
        if error := text(status, "error"):
            sheet.field("Operation Error", error, indent=2)
        for line in _progress(status):
            sheet.line(f"\t\t{line}")
        if description := text(status, "description"):
            sheet.field("Progress description", description, indent=2)
        for title, key in (("Created", "created"), ("Started", "started"), ("Updated", "updated")):
            if when := text(status, key):
                sheet.field(title, cells.local_time(when, "<n/a>"), indent=2)


def _item(spec: JSONObject) -> str:
    about = mapping(spec, "resourceIdentifier")
    kind = ".".join(part for part in (text(about, "Resource"), text(about, "Group")) if part)
    return f"{kind} {'/'.join(part for part in (text(about, 'Namespace'), text(about, 'Name')) if part)}"


def _progress(status: JSONObject) -> Iterator[str]:
    total, done = status.get("nTotal"), status.get("nCompleted")
    if isinstance(total, int) and total:
        units = text(status, "operationUnits")
        yield f"Progress:\t{done or 0} of {total} complete{f' ({units})' if units else ''}"
