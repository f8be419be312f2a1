"""The plain list of an encrypted backup: what a deletion without its key has to find. Pure. (docs/adr/124)

It names data, not what the data is of: no claim, no pod, no object. Whoever can write to the bucket can write
it, as the lists of a plain backup; so it is checked like those, and nothing else is done by it.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import msgspec

from pinnace.api import labels
from pinnace.api.velero.snapshots import VolumeSnapshot, VolumeSnapshotSpec, VolumeSnapshotStatus
from pinnace.catalogue.pod_volumes import saved_volume
from pinnace.catalogue.snapshots import csi_volume, native_snapshots
from pinnace.catalogue.volumes import Place, SavedVolume, Way
from pinnace.csi.deletion import StoredSnapshot

MOST_PLAIN_LIST_BYTES: Final = 16 << 20
"""Of the file; a snapshot takes about 40 bytes of it, a CSI snapshot 150."""
_VERSION: Final = 1
_LONGEST: Final = 4096

_Id = Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST)]
_Namespace = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\Z")]
_Label = Annotated[str, msgspec.Meta(max_length=_LONGEST)]


class PlainListError(ValueError):
    """A plain list is not one that this version can read."""


class _Repository(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """Snapshots in one repository of the location, which the uploader and the namespace name. (ADR 021)"""

    uploader: _Id
    namespace: _Namespace
    snapshots: list[_Id]

    def __post_init__(self) -> None:
        _check_printable(self.uploader, *self.snapshots)


class _CSISnapshot(
    msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What its driver deletes it by.

    Attributes:
        deletion_secret: as in `StoredSnapshot`.
        managed_by: the node whose csi-snapshotter looks after it; empty for all others.
    """

    driver: _Id
    handle: _Id
    deletion_secret: tuple[_Id, _Id] | None = None
    managed_by: _Label = ""

    def __post_init__(self) -> None:
        _check_printable(self.driver, self.handle, *(self.deletion_secret or ()), self.managed_by)


class _NativeSnapshot(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A snapshot of a cloud, by its id and the name of its VolumeSnapshotLocation."""

    id: _Id
    location: _Label

    def __post_init__(self) -> None:
        _check_printable(self.id, self.location)


class _PlainList(msgspec.Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """The content of the file.

    Attributes:
        elsewhere: how each volume was saved whose data this program cannot delete; they have no names here.
    """

    version: int
    repositories: list[_Repository] = []
    csi_snapshots: list[_CSISnapshot] = []
    native_snapshots: list[_NativeSnapshot] = []
    elsewhere: list[Way] = []


def encode_plain_list(volumes: Iterable[SavedVolume]) -> bytes:
    """The content of the file for the volumes of a backup; those without data are left out."""
    repositories: dict[tuple[str, str], list[str]] = {}
    made = _PlainList(version=_VERSION)
    for volume in volumes:
        match volume.record:
            case StoredSnapshot() as stored:
                made.csi_snapshots.append(
                    _CSISnapshot(
                        driver=stored.driver,
                        handle=stored.handle,
                        deletion_secret=stored.deletion_secret,
                        managed_by=stored.manager_label.get(labels.CSI_MANAGED_BY, ""),
                    )
                )
            case VolumeSnapshot() as native:
                made.native_snapshots.append(
                    _NativeSnapshot(id=volume.snapshot, location=native.spec.location)
                )
            case _ if volume.place == Place.REPOSITORY:
                repositories.setdefault((volume.uploader, volume.namespace), []).append(volume.snapshot)
            case _ if volume.place == Place.ELSEWHERE:
                made.elsewhere.append(volume.way)
    made.repositories = [
        _Repository(uploader=uploader, namespace=namespace, snapshots=snapshots)
        for (uploader, namespace), snapshots in repositories.items()
    ]
    return msgspec.json.format(msgspec.json.encode(made))


def decode_plain_list(data: bytes) -> list[SavedVolume]:
    """The data that the file names, as a deletion needs it. Raises PlainListError."""
    try:
        found = msgspec.json.decode(data, type=_PlainList)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PlainListError(str(error)) from None
    if found.version != _VERSION:
        raise PlainListError(f"it is of version {found.version}, which this program does not know")
    return list(_volumes(found))


def _check_printable(*texts: str) -> None:
    """Refuse what a message or a log would not show as it is. Raises ValueError."""
    if not all(text.isprintable() for text in texts):
        raise ValueError("an id or a name in it has characters that cannot be shown")


def _volumes(found: _PlainList) -> Iterator[SavedVolume]:
    for native in found.native_snapshots:
        yield from native_snapshots(
            [
                VolumeSnapshot(
                    spec=VolumeSnapshotSpec(location=native.location),
                    status=VolumeSnapshotStatus(provider_snapshot_id=native.id),
                )
            ]
        )
    for csi in found.csi_snapshots:
        yield csi_volume(
            StoredSnapshot(
                driver=csi.driver,
                handle=csi.handle,
                deletion_secret=csi.deletion_secret,
                manager_label={labels.CSI_MANAGED_BY: csi.managed_by} if csi.managed_by else {},
            )
        )
    for repository in found.repositories:
        for snapshot in repository.snapshots:
            yield saved_volume(repository.uploader, snapshot, repository.namespace)
    for number, way in enumerate(found.elsewhere, start=1):
        title = f"{way} {number} of those whose names are encrypted"
        yield SavedVolume(way=way, place=Place.ELSEWHERE, title=title)
