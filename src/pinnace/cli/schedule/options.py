"""The options of `schedule create`, `schedule pause` and `schedule unpause`. Pure."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinnace.cli.common.options import BackupSpecOptions
from pinnace.cli.output.printing import OutputOptions
from pinnace.cli.structs import Struct

if TYPE_CHECKING:
    from pinnace.api.meta import LabelSelector


class ScheduleCreateOptions(BackupSpecOptions, OutputOptions):
    """`schedule create`: when, and what each backup of the schedule contains."""

    names: Sequence[str]
    schedule: str
    use_owner_references_in_backup: bool
    paused: bool
    skip_immediately: bool | None
    verify: str
    verify_read_data: str


class PauseOptions(Struct):
    """`schedule pause` and `schedule unpause`.

    Attributes:
        skip_immediately: what to write into the schedules; None leaves it as it is.
    """

    names: Sequence[str]
    all: bool
    selector: "LabelSelector | None"
    skip_immediately: bool | None
