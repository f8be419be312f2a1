"""Persistent volumes as the snapshotters see them: in-tree and CSI sources of one cloud's disks. Pure."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pinnace.api.objects import JSONObject
from pinnace.volumes.native.snapshotters import SnapshotError


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskInfo:
    """The properties that are needed to make a volume like another."""

    volume_type: str
    iops: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskReference:
    """How persistent volumes refer to the disks of a cloud.

    Attributes:
        source: field of the spec, of the in-tree plugin.
        id_field: the field in it that names the disk.
        driver: the CSI driver of the same disks.
    """

    source: str
    id_field: str
    driver: str

    def handle_of(self, volume: JSONObject) -> str:
        """The text that names the disk; empty if the volume is not one of these.

        Raises:
            SnapshotError: it is one, but the text is missing. (docs/spec: STO 14)
        """
        spec = volume.get("spec") or {}
        if (source := spec.get(self.source)) is not None:
            where, found = f"spec.{self.source}.{self.id_field}", source.get(self.id_field)
        elif self.is_csi(volume):
            where, found = "spec.csi.volumeHandle", spec["csi"].get("volumeHandle")
        else:
            return ""
        if not found:
            raise SnapshotError(f"{where} not found")
        return str(found)

    def is_csi(self, volume: JSONObject) -> bool:
        """Whether the disk is one of the CSI driver's."""
        return ((volume.get("spec") or {}).get("csi") or {}).get("driver") == self.driver

    def changed(self, volume: JSONObject, fields: Mapping[str, str], *, handle: str) -> JSONObject:
        """The volume with another disk.

        Args:
            fields: what changes in the in-tree source.
            handle: what a CSI volume is called instead.

        Raises:
            SnapshotError: the volume is none of this kind. (docs/spec: STO 14)
        """
        spec = volume.get("spec") or {}
        if (source := spec.get(self.source)) is not None:
            return {**volume, "spec": {**spec, self.source: {**source, **fields}}}
        if self.is_csi(volume):
            return {**volume, "spec": {**spec, "csi": {**spec["csi"], "volumeHandle": handle}}}
        raise SnapshotError(f"spec.{self.source} not found")


def snapshot_name(disk: str, longest: int) -> str:
    """A name for a snapshot of a disk: its own, cut to leave room, and a unique suffix."""
    suffix = f"-{uuid.uuid4()}"
    return f"{disk[: longest - len(suffix)]}{suffix}"


def restored_name() -> str:
    """A name for a disk made of a snapshot."""
    return f"restore-{uuid.uuid4()}"


CREDENTIALS_FILE: Final = "credentialsFile"
"""The setting that names the file with the location's own credentials. (docs/spec: BEY 7.4)"""


def credentials_file(config: Mapping[str, str]) -> Path | None:
    """The file with the location's own credentials, if it has any."""
    return Path(config[CREDENTIALS_FILE]) if config.get(CREDENTIALS_FILE) else None


def check_keys(config: Mapping[str, str], valid: tuple[str, ...]) -> None:
    """Raise SnapshotError for unknown keys of a location's config. (docs/spec: STO 14)"""
    if unknown := sorted(config.keys() - set(valid)):
        raise SnapshotError(
            f"config has invalid keys [{' '.join(unknown)}]; valid keys are [{' '.join(valid)}]"
        )
