"""How a Backup counts for the rules of retention: in its group, or apart from it for some doubt. Pure.

A doubt about a backup keeps it, and lets it push no other one out: its time cannot be right, another cluster
may have made it, it has not ended, or it is being deleted.
"""

from collections.abc import Collection
from datetime import datetime
from enum import Enum
from typing import Final

import msgspec

from pinnace.api import labels, phases
from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject, text
from pinnace.api.phases import BackupPhase
from pinnace.api.retention.holds import held, hold_of
from pinnace.api.values.times import CLOCK_DIFFERENCE, is_ahead, later
from pinnace.api.velero.backup import Backup
from pinnace.api.verification_answer import Soundness


class Standing(Enum):
    """How a backup counts; one is left over by a deletion that began and ended with errors."""

    GOOD = "good"
    PARTIAL = "partial"
    FAILED = "failed"
    LEFT_OVER = "left over"
    APART = "apart"


class RetentionCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A backup as the rules see it.

    Attributes:
        moment: when it began; None only if it stands apart.
        apart: why it neither counts nor goes.
        protected: why it stays though it counts: a hold, or a restore that reads it.
    """

    name: str
    standing: Standing
    moment: datetime | None = None
    apart: str = ""
    protected: str = ""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What decides beside the Backups themselves.

    Attributes:
        now: a start that lies after it stems from a clock that was wrong.
        cluster: the uid of the cluster whose Schedule it is; None where only a location is known, which has
            the backups of all clusters that write there.
        since: when the Schedule was created; None if that is not known.
        deleting: the backups whose deletion somebody has asked for.
        restoring: the backups that unfinished restores read.
        held: backups that are held beside their files in a location, with the reason.
    """

    now: datetime
    cluster: str | None = None
    since: datetime | None = None
    deleting: Collection[str] = ()
    restoring: Collection[str] = ()
    held: dict[str, str] = {}


def candidate(obj: JSONObject, around: Surroundings) -> RetentionCandidate:
    """How a Backup counts."""
    name = text(obj, "metadata", "name")
    try:
        backup = decode(Backup, obj)
    except DecodeError as error:
        return RetentionCandidate(name=name, standing=Standing.APART, apart=f"it cannot be read: {error}")
    standing = _standing(backup)
    moment = backup.status.start_timestamp
    if moment is None and backup.status.phase == BackupPhase.FAILED_VALIDATION:
        moment = backup.metadata.creation_timestamp
    apart = _apart(backup, standing, moment, around)
    hold = hold_of(obj)
    if hold is None:
        hold = around.held.get(name)
    protected = held(hold) if hold is not None else ""
    if not protected and name in around.restoring:
        protected = "a restore reads it"
    return RetentionCandidate(
        name=name,
        standing=Standing.APART if apart else standing,
        moment=moment,
        apart=apart,
        protected=protected,
    )


_STANDINGS: Final = {
    **dict.fromkeys(phases.FINISHED_IN_PART, Standing.PARTIAL),
    **dict.fromkeys(phases.FAILURES, Standing.FAILED),
    BackupPhase.COMPLETED.value: Standing.GOOD,
    BackupPhase.DELETING.value: Standing.LEFT_OVER,
}


def _standing(backup: Backup) -> Standing:
    found = _STANDINGS.get(backup.status.phase, Standing.APART)
    verified = backup.metadata.annotations.get(labels.VERIFIED, "").split(" ")
    if found == Standing.GOOD and verified[1:2] == [Soundness.UNSOUND]:
        return Standing.PARTIAL  # known to be damaged: it must not push out a good one
    return found


def _apart(backup: Backup, standing: Standing, moment: datetime | None, around: Surroundings) -> str:
    metadata, phase = backup.metadata, backup.status.phase
    if metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if metadata.name in around.deleting:
        return "its deletion is requested"
    if standing == Standing.APART:
        return "it has not ended" if phase in phases.RUNNING else f"its phase {phase} is not known"
    if moment is None:
        return "its start is not known"
    if is_ahead(moment, around.now):
        return "its start lies in the future: a clock was wrong"
    return _foreign(backup, moment, around) or _misdated(backup, moment)


def _foreign(backup: Backup, moment: datetime, around: Surroundings) -> str:
    """Why a backup may be of another cluster or server, whose schedules may have the same names."""
    if around.cluster is None:
        return ""
    noted = backup.metadata.annotations.get(labels.SOURCE_CLUSTER_UID, "")
    if noted and noted != around.cluster:
        return "another cluster made it"
    if not _is_found(backup):
        return ""
    if not noted:
        return "it may be of another cluster: it was found in the location"
    if around.since is None or moment >= later(around.since, -CLOCK_DIFFERENCE):
        # This server would have made it itself, and not found it.
        return "it may be of another server of this cluster: it was found in the location"
    return ""


def _is_found(backup: Backup) -> bool:
    """Whether the object is younger than the end of the run: it was made known from a location."""
    created, completed = backup.metadata.creation_timestamp, backup.status.completion_timestamp
    return created is not None and completed is not None and created > completed


def _misdated(backup: Backup, moment: datetime) -> str:
    """Why the start of a backup that was made here cannot be right: the API server's clock differs."""
    created = backup.metadata.creation_timestamp
    if created is None or _is_found(backup) or moment >= later(created, -CLOCK_DIFFERENCE):
        return ""
    return "its start lies before its creation: a clock was wrong"
