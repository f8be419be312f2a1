"""What a server's run says it is doing now, for people. Pure. (docs/adr/062)

Only our servers say it; of others the numbers of items are known, which are lower bounds.
"""

from typing import Final

from pinnace.api.objects import JSONObject, listed, mapping, objects, text
from pinnace.cli.progress.lines import detail_lines
from pinnace.cli.progress.state import Amount, State

_COLUMNS: Final = 10_000
"""A description is not cut."""


def activity_of(status: JSONObject) -> State:
    """The activity in the status of a Backup or Restore; its items are left at 0."""
    said = mapping(status, "activity")
    upload = Amount(done=_number(said, "uploadedBytes"), total=_number(said, "uploadBytes"))
    return State(
        done=0,
        total=0,
        at_least=said.get("totalIsFinal") is not True,
        is_estimate=said.get("totalIsEstimate") is True,
        kinds={
            text(resource, "name"): Amount(
                done=_number(resource, "itemsDone"),
                total=_number(resource, "totalItems"),
                at_least=resource.get("totalIsFinal") is not True,
            )
            for resource in objects(said, "resources")
        },
        hooks=_texts(said, "hooks"),
        waiting=_texts(said, "waiting"),
        upload=upload if upload.total else None,
    )


def described(status: JSONObject) -> list[str]:
    """A line for each thing that a run is doing now, for its description."""
    return [line.strip() for line in detail_lines(activity_of(status), _COLUMNS, "")]


def _texts(said: JSONObject, name: str) -> tuple[str, ...]:
    return tuple(entry for entry in listed(said, name) if isinstance(entry, str))


def _number(said: JSONObject, name: str) -> int:
    value = said.get(name)
    return value if isinstance(value, int) and value > 0 else 0
