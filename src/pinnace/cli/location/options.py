"""The options of `backup-location` and `snapshot-location` commands. Pure."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pinnace.cli.common.options import GetOptions
from pinnace.cli.output.printing import OutputOptions
from pinnace.cli.structs import Struct

if TYPE_CHECKING:
    from pinnace.api.values.durations import Duration


class BackupLocationCreateOptions(OutputOptions):
    """`backup-location create`."""

    names: Sequence[str]
    provider: str
    bucket: str
    prefix: str
    credential: Mapping[str, str]
    default: bool
    backup_sync_period: "Duration | None"
    validation_frequency: "Duration | None"
    config: Mapping[str, str]
    labels: Mapping[str, str]
    cacert: str
    access_mode: str
    validate: bool = False


class BackupLocationGetOptions(GetOptions):
    """`backup-location get`."""

    default: bool


class BackupLocationSetOptions(Struct):
    """`backup-location set`: what is empty or None stays as it is."""

    names: Sequence[str]
    cacert: str
    credential: Mapping[str, str]
    default: bool | None


class SnapshotLocationCreateOptions(OutputOptions):
    """`snapshot-location create`."""

    names: Sequence[str]
    provider: str
    credential: Mapping[str, str]
    config: Mapping[str, str]
    labels: Mapping[str, str]
