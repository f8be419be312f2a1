"""The progress of a run, as it is shown. Pure.

Unknown numbers are not shown as known: before all lists have begun a total is a lower bound and is shown as
one, and a remaining time is shown only when the total is known and enough was done to go by.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from pinnace.api.objects import JSONObject
from pinnace.cli.progress.away import Away

_ETA_AFTER_SECONDS: Final = 3.0
_ETA_AFTER_SHARE: Final = 0.01
"""The first three of 20,000 items wait for lists: a remaining time of hours would follow from them."""
_ETA_ANYWAY_SECONDS: Final = 30.0


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """How many items or bytes of how many are done.

    Attributes:
        at_least: whether the total is a lower bound.
        lists, lists_done: how many lists of namespaces are read for it, and how many were.
        rate: items or bytes per second; 0 if it is not known yet.
    """

    done: int
    total: int
    at_least: bool = False
    lists: int = 1
    lists_done: int = 0
    rate: float = 0.0

    @property
    def is_read(self) -> bool:
        """Whether all that is known is done. More may come from the lists of the other namespaces."""
        return self.done >= self.total and self.lists_done + 1 >= self.lists

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return min(1.0, self.done / self.total) if self.total > 0 else 0.0


class Volume(msgspec.Struct, frozen=True, kw_only=True):
    """A volume whose data is moved.

    Attributes:
        amount: in bytes, with a total of 0 before its node agent begins.
        waits_for: what the server says of a volume that no agent has taken up.
    """

    name: str
    amount: Amount
    phase: str = ""
    waits_for: str = ""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a run.

    Attributes:
        done, total: numbers of items.
        at_least: whether the total is a lower bound.
        is_estimate: whether the total may still change in either direction.
        seconds: since the start.
        first_done, first_seconds: the number of items when some were first seen to be done, and the time
            since the start. What came before, such as a download, says nothing of the time of the others.
        phase: the phase of a server's run, if it says more than that the run is in progress.
        kinds: items of each resource that is being processed.
        hooks: the hooks that run now.
        waiting: what else the run waits for.
        volumes: the volumes that are being moved.
        volumes_done, volumes_total: numbers of all volumes of the run.
        upload: bytes of the files that are being uploaded.
        download_bytes: how much of the tarball was downloaded; None if nothing is being downloaded.
        away: the API server, if it does not answer.
    """

    done: int
    total: int
    at_least: bool = False
    is_estimate: bool = False
    seconds: float = 0.0
    first_done: int = 0
    first_seconds: float = 0.0
    phase: str = ""
    kinds: Mapping[str, Amount] = msgspec.field(default_factory=dict)
    hooks: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    volumes: tuple[Volume, ...] = ()
    volumes_done: int = 0
    volumes_total: int = 0
    upload: Amount | None = None
    download_bytes: int | None = None
    away: Away | None = None

    @property
    def rate(self) -> float:
        """Items a second; 0 in the first second."""
        return self.done / self.seconds if self.seconds >= 1 else 0.0

    @property
    def eta_seconds(self) -> float | None:
        """The remaining time; None as long as it cannot be estimated."""
        seconds, done = self.seconds - self.first_seconds, self.done - self.first_done
        if (
            self.at_least
            or self.away is not None
            or seconds < _ETA_AFTER_SECONDS
            or done <= 0
            or self.done >= self.total
        ):
            return None
        if done < _ETA_AFTER_SHARE * self.total and seconds < _ETA_ANYWAY_SECONDS:
            return None
        return (self.total - self.done) * seconds / done

    def to_dict(self, what: str) -> JSONObject:
        """The state as JSON for programs."""
        return {
            "type": "progress",
            "what": what,
            "phase": self.phase,
            "itemsDone": self.done,
            "totalItems": max(self.done, self.total),
            "totalIsFinal": not (self.at_least or self.is_estimate),
            "seconds": round(self.seconds, 1),
            "etaSeconds": None if self.eta_seconds is None else round(self.eta_seconds, 1),
            "resources": {
                name: {"done": kind.done, "total": kind.total, "totalIsFinal": not kind.at_least}
                | ({"lists": kind.lists, "listsDone": kind.lists_done} if kind.lists > 1 else {})
                for name, kind in self.kinds.items()
            },
            "hooks": list(self.hooks),
            "waiting": list(self.waiting),
            "volumes": [
                {
                    "name": volume.name,
                    "phase": volume.phase,
                    "bytesDone": volume.amount.done,
                    "totalBytes": volume.amount.total,
                }
                for volume in self.volumes
            ],
            "volumesDone": self.volumes_done,
            "volumesTotal": self.volumes_total,
            "uploadedBytes": self.upload.done if self.upload is not None else 0,
            "uploadBytes": self.upload.total if self.upload is not None else 0,
            "downloadedBytes": self.download_bytes or 0,
            "apiServerSilentSeconds": round(self.away.seconds, 1) if self.away is not None else 0,
        }


def number_in(obj: JSONObject, key: str) -> int:
    """A number of an untrusted object; 0 if it is missing, negative or of another type."""
    value = obj.get(key)
    return value if isinstance(value, int) and value > 0 else 0
