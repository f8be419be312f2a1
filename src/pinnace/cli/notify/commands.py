"""`notify` and `notify test`. (ADR 129)"""

from collections.abc import Sequence

from pinnace.cli.common.commands import group_of
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Section, arguments, text
from pinnace.cli.declaring.values import FILE
from pinnace.cli.output.printing import DataOptions


class NotifyTestOptions(DataOptions):
    """Send a test message to the sinks, from this machine, and say which took it.

    The sinks are those in the Secrets of the server's namespace with the label pinnace.io/messages=true, or
    those in a file. Addresses that only the cluster reaches cannot be tested from outside of it.

    The exit code is 0 if all took it, and 1 if one did not, or if there is none.
    """

    names: Sequence[str] = arguments("[SINK...]")
    messages_file: str = text(
        section=Section.WHAT, value=FILE, help="Read the sinks of this file in place of the server's Secrets."
    )


test = lazy_command(
    "test",
    NotifyTestOptions,
    "pinnace.cli.notify.testing:test",
    short_help="Send a test message to the sinks.",
    examples=(
        ("To all sinks of the server", "pinnace notify test"),
        ("To one of them", "pinnace notify test ops"),
        (
            "To those in a file, before it becomes a Secret",
            "pinnace notify test --messages-file messages.yaml",
        ),
    ),
)
group = group_of("notify", "Work with the messages that people get.", test)
