"""Reads the activity of a server's run from its status. Pure. (docs/adr/062)

Only Pinnace's server writes it; other servers write only numbers of items, which are lower bounds.
"""

from typing import Final

from pinnace.api.objects import JSONObject, listed, mapping, objects, text
from pinnace.cli.progress.lines import detail_lines
from pinnace.cli.progress.state import Amount, State, number_in

_COLUMNS: Final = 10_000
"""Wide enough that the lines of a description are not cut."""


def activity_of(status: JSONObject) -> State:
    """The activity in the status of a Backup or Restore; its items are left at 0."""
    activity = mapping(status, "activity")
    upload = Amount(done=number_in(activity, "uploadedBytes"), total=number_in(activity, "uploadBytes"))
    return State(
        done=0,
        total=0,
        at_least=activity.get("totalIsFinal") is not True and activity.get("totalIsEstimate") is not True,
        is_estimate=activity.get("totalIsEstimate") is True,
        kinds={
            text(resource, "name"): Amount(
                done=number_in(resource, "itemsDone"),
                total=number_in(resource, "totalItems"),
                at_least=resource.get("totalIsFinal") is not True,
            )
            for resource in objects(activity, "resources")
        },
        hooks=_texts(activity, "hooks"),
        waiting=_texts(activity, "waiting"),
        upload=upload if upload.total else None,
    )


def described(status: JSONObject) -> list[str]:
    """A line for each thing that a run is doing now, for its description."""
    return [line.strip() for line in detail_lines(activity_of(status), _COLUMNS, "")]


def _texts(activity: JSONObject, name: str) -> tuple[str, ...]:
    return tuple(entry for entry in listed(activity, name) if isinstance(entry, str))
