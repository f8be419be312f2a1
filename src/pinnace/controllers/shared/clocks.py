"""Times that cannot be right, and clocks that cannot be trusted with what cannot be undone.

The clock of a server can have been ahead, or be ahead now. A time in an object that lies ahead of it stems
from such a clock. And by a clock that is ahead, everything has expired.
"""

from datetime import datetime, timedelta
from typing import Final

from pinnace.kube.client import KubeClient

CLOCK_DIFFERENCE: Final = timedelta(minutes=5)
"""By how much the clocks of two servers, or of a server and the API server, may differ."""

DOUBTFUL: Final = timedelta(minutes=2)
"""From this difference to the API server's clock on, nothing is deleted because of its age."""


def is_ahead(moment: datetime, now: datetime) -> bool:
    """Whether a time that should be past is so far ahead that a clock was wrong when it was written."""
    return moment - now > CLOCK_DIFFERENCE


def clock_doubt(client: KubeClient) -> str:
    """Why nothing may be deleted because of its age now; empty if the API server's clock agrees with ours.

    The client knows the difference from the last answer that it got.
    """
    difference = client.clock_difference
    if difference is None or abs(difference) < DOUBTFUL:
        return ""
    relation = "ahead of" if difference > timedelta() else "behind"
    seconds = abs(difference).total_seconds()
    return (
        f"the API server's clock is {seconds:.0f} seconds {relation} this server's: set the wrong one by NTP"
    )
