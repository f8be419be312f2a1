"""The data of one volume in a backup. Pure."""

from enum import StrEnum

import msgspec

from pinnace.api.velero.snapshots import VolumeSnapshot
from pinnace.csi.deletion import StoredSnapshot
from pinnace.csi.movement.objects import MovedVolume

Claim = tuple[str, str]
"""Namespace in the backup, and name."""

UNKNOWN: Claim = ("", "")


class Way(StrEnum):
    """How a volume was saved."""

    NATIVE_SNAPSHOT = "native snapshot"
    CSI_SNAPSHOT = "CSI snapshot"
    MOVED = "moved"
    """By a data mover, which copied a CSI snapshot."""
    POD_VOLUME = "pod volume"


class Place(StrEnum):
    """Where the data is; each place has its own way to look it up and to delete it."""

    REPOSITORY = "repository"
    """In a repository of the backup's location, of restic or kopia."""
    STORAGE_SYSTEM = "storage system"
    """In the storage system of a CSI driver."""
    CLOUD = "cloud"
    """At the provider of a snapshot location."""
    ELSEWHERE = "elsewhere"
    """Where only another program finds it, if it is there at all: it would be left behind."""
    NOWHERE = "nowhere"
    """There is none: the volume was empty, or it was not saved."""


class SavedVolume(msgspec.Struct, frozen=True, kw_only=True):
    """The data of one volume.

    Attributes:
        title: how a message names it.
        claim: `UNKNOWN` for a volume without a claim, and where the records do not tell it.
        uploader: the program that wrote it into a repository; of a moved volume that is elsewhere, empty.
        snapshot: its id in the repository, the storage system or the cloud; empty if there is none.
        namespace: the namespace that was saved; the repository has its name.
        pod, volume: the pod that it was saved from, and its name there.
        size_bytes: of what a restore writes; 0 if the records do not tell. Of an image it is the size of the
            device, which its repository rounds up.
        lacks: why no restore can use it, as a clause; empty if it is whole.
        record: what the room that keeps the data needs to find it there.
    """

    way: Way
    place: Place
    title: str
    claim: Claim = UNKNOWN
    uploader: str = ""
    snapshot: str = ""
    namespace: str = ""
    pod: str = ""
    volume: str = ""
    size_bytes: int = 0
    lacks: str = ""
    record: VolumeSnapshot | StoredSnapshot | MovedVolume | None = None

    def __str__(self) -> str:
        return self.title
