"""The blocks that the descriptions of backups and restores share. (docs/spec: CLI 2.4, 4.3, 5.3)"""

from collections.abc import Sequence

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.cli.output import cells
from pinnace.cli.output.cells import COLOURS, RED
from pinnace.cli.output.layout import Sheet

_BOLD = "1"


def painted(sheet: Sheet, phase: str) -> str:
    """The phase in its colour, if it has one."""
    colour = COLOURS.get(phase)
    return sheet.paint(phase, colour) if colour else phase


def metadata(sheet: Sheet, obj: JSONObject) -> None:
    """Write name, namespace, labels and annotations."""
    meta = obj["metadata"]
    sheet.field("Name", sheet.paint(meta["name"], _BOLD))
    sheet.field("Namespace", meta.get("namespace") or "")
    sheet.mapping("Labels", meta.get("labels"))
    annotations = meta.get("annotations") or {}
    # The answer is for the command that asked, in JSON; what it says in short is another annotation.
    shown = {name: value for name, value in annotations.items() if name != labels.VERIFICATION_ANSWER}
    sheet.mapping("Annotations", shown)


def phase(sheet: Sheet, obj: JSONObject, more: str) -> None:
    """Write the phase, and after a failure the command that tells more."""
    text = cells.phase(obj)
    hint = f" (run {more} for more information)" if text.endswith("Failed") else ""
    if foreign := cells.foreign_phase(obj):
        hint = f" ({foreign}){hint}"
    sheet.field("Phase", painted(sheet, text) + hint)


def waits_for(sheet: Sheet, reason: str) -> None:
    """Write what a backup or restore that has not begun waits for."""
    if reason:
        sheet.line()
        sheet.field("Waits for", reason)


def activity(sheet: Sheet, lines: Sequence[str]) -> None:
    """Write what a run is doing now; nothing if its server does not say."""
    if lines:
        sheet.line("Now:")
        for line in lines:
            sheet.line(f"\t{line}")


def validation_errors(sheet: Sheet, obj: JSONObject) -> None:
    """Write the validation errors as a block, if there are any."""
    errors = cells.status(obj).get("validationErrors") or []
    if not errors:
        return
    sheet.line()
    for position, error in enumerate(errors):
        sheet.line(f"{'Validation errors:' if not position else ''}\t{sheet.paint(error, RED)}")


def failure_reason(sheet: Sheet, obj: JSONObject) -> None:
    """Write why the run failed, if the object says so."""
    reason = cells.status(obj).get("failureReason")
    if reason:
        sheet.line()
        sheet.field("Failure reason", sheet.paint(reason, RED))


def included_excluded(
    sheet: Sheet, title: str, owner: JSONObject, kind: str, *, indent: int = 0, everything: str = "*"
) -> None:
    """Write `Namespaces:` or `Resources:` with what is included and excluded."""
    included = owner.get(f"included{kind}") or []
    sheet.line("\t" * indent + f"{title}:")
    shown = everything if included in ([], ["*"]) else ", ".join(included)
    sheet.field("Included", shown, indent=indent + 1)
    sheet.field("Excluded", cells.listed(owner.get(f"excluded{kind}"), "<none>"), indent=indent + 1)


def cluster_scoped(sheet: Sheet, spec: JSONObject, note: str = "") -> None:
    """Write the line about cluster-scoped objects; `note` follows if the server chooses them."""
    text = cells.tristate(spec.get("includeClusterResources"), yes="included", no="excluded")
    sheet.field("Cluster-scoped", f"{text}{note}" if text == "auto" else text, indent=1)
