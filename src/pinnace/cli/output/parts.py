"""The blocks that the descriptions of backups and restores share. (docs/spec: CLI 2.4, 4.3, 5.3)"""

from collections.abc import Sequence

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.cli.output import cells
from pinnace.cli.output.cells import COLOURS, RED
from pinnace.cli.output.description import Filters, Head, NameLists, RunState
from pinnace.cli.output.layout import Sheet

_BOLD = "1"


def painted(sheet: Sheet, phase: str) -> str:
    """The phase in its colour, if it has one."""
    colour = COLOURS.get(phase)
    return sheet.paint(phase, colour) if colour else phase


def metadata(sheet: Sheet, meta: JSONObject) -> None:
    """Write name, namespace, labels and annotations."""
    sheet.field("Name", sheet.paint(meta["name"], _BOLD))
    sheet.field("Namespace", meta.get("namespace") or "")
    sheet.mapping("Labels", meta.get("labels"))
    annotations = meta.get("annotations") or {}
    # The answer is for the command that asked, in JSON; what it says in short is another annotation.
    shown = {name: value for name, value in annotations.items() if name != labels.VERIFICATION_ANSWER}
    sheet.mapping("Annotations", shown)


def phase(sheet: Sheet, head: Head, more: str) -> None:
    """Write the phase, and after a failure the command that tells more."""
    hint = f" (run {more} for more information)" if head.phase.endswith("Failed") else ""
    if head.foreign:
        hint = f" ({head.foreign}){hint}"
    sheet.field("Phase", painted(sheet, head.phase) + hint)


def waits_for(sheet: Sheet, reason: str) -> None:
    """Write what a backup or restore that has not begun waits for."""
    if reason:
        sheet.line()
        sheet.field("Waits for", reason)


def progress(sheet: Sheet, found: RunState, to_be: str, done: str, now: Sequence[str]) -> None:
    """Write the numbers of items, and while the run is in progress what it is doing `now`."""
    sheet.field(f"{'Estimated t' if found.running else 'T'}otal items to be {to_be}", found.total)
    sheet.field(f"Items {done}{' so far' if found.running else ''}", found.done)
    if found.running and now:
        sheet.line("Now:")
        for line in now:
            sheet.line(f"\t{line}")


def validation_errors(sheet: Sheet, head: Head) -> None:
    """Write the validation errors as a block, if there are any."""
    if not head.validation_errors:
        return
    sheet.line()
    for position, error in enumerate(head.validation_errors):
        sheet.line(f"{'Validation errors:' if not position else ''}\t{sheet.paint(error, RED)}")


def failure_reason(sheet: Sheet, head: Head) -> None:
    """Write why the run failed, if the object says so."""
    if head.failure_reason:
        sheet.line()
        sheet.field("Failure reason", sheet.paint(head.failure_reason, RED))


def included_excluded(
    sheet: Sheet, title: str, choice: NameLists, *, indent: int = 0, everything: str = "*"
) -> None:
    """Write `Namespaces:` or `Resources:` with what is included and excluded."""
    sheet.line("\t" * indent + f"{title}:")
    shown = everything if choice.included in ([], ["*"]) else ", ".join(choice.included)
    sheet.field("Included", shown, indent=indent + 1)
    sheet.field("Excluded", cells.listed(choice.excluded, "<none>"), indent=indent + 1)


def cluster_scoped(sheet: Sheet, filters: Filters, note: str = "") -> None:
    """Write the line about cluster-scoped objects; `note` follows if the server chooses them."""
    text = filters.cluster_scoped
    sheet.field("Cluster-scoped", f"{text}{note}" if text == "auto" else text, indent=1)


def selectors(sheet: Sheet, filters: Filters) -> None:
    """Write the label selector, and the alternative ones."""
    sheet.field("Label selector", filters.selector)
    if filters.selectors:
        sheet.line()
        sheet.field("Or label selector", " or ".join(filters.selectors))
