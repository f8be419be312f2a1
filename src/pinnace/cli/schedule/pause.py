"""`schedule pause` and `schedule unpause`. (docs/spec: CLI 6)"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinnace.cli.declaring.commands import Command, Examples, lazy_command
from pinnace.cli.declaring.fields import Options, Section, arguments, flag, switch, tristate
from pinnace.cli.declaring.types import SelectorFlag

if TYPE_CHECKING:
    from pinnace.api.meta import LabelSelector


class PauseOptions(Options):
    """`schedule pause` and `schedule unpause`.

    Attributes:
        skip_immediately: what to write into the schedules; None leaves it as it is.
    """

    names: Sequence[str] = arguments("[NAME...]")
    all: bool = switch(help="{verb} all schedules.")
    selector: "LabelSelector | None" = flag(
        "-l",
        "--selector",
        type=SelectorFlag(),
        section=Section.WHAT,
        help="Only schedules that match this label selector.",
    )
    skip_immediately: bool | None = tristate(
        help="Whether a backup that is due at once is left out; the server's setting if not given."
    )


def _pause_command(verb: str, effect: str, examples: Examples) -> Command:
    return lazy_command(
        verb,
        PauseOptions,
        "pinnace.cli.schedule.pausing:change",
        verb,
        noun="schedule",
        words={"verb": verb},
        short_help=f"{verb.capitalize()} schedules.",
        help=f"{verb.capitalize()} schedules: {effect}",
        examples=examples,
    )


pause = _pause_command(
    "pause",
    "the server makes no backups of them until they are unpaused.",
    (
        ("Pause one", "pinnace schedule pause daily"),
        ("Pause all", "pinnace schedule pause --all"),
        ("Pause those with a label", "pinnace schedule pause -l team=web"),
    ),
)
unpause = _pause_command(
    "unpause",
    "the server makes their backups again. If a run became due meanwhile, one backup is made at once, unless"
    " --skip-immediately is given.",
    (
        ("Go on with one", "pinnace schedule unpause daily"),
        ("Without the backup that became due meanwhile", "pinnace schedule unpause daily --skip-immediately"),
        ("Go on with all", "pinnace schedule unpause --all"),
    ),
)
