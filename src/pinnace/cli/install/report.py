"""Reports what an installation does: one line that is redrawn on a terminal, and a summary at the end."""

import shutil
import sys
from collections.abc import Sequence
from typing import Final

import click

from pinnace.api.objects import JSONObject
from pinnace.cli.guard import can_redraw, complain, drawn, erased
from pinnace.installing.observer import InstallObserver
from pinnace.installing.outcomes import InstallOutcome, title

DEFINITION: Final = "CustomResourceDefinition"

_OUTCOMES: Final = {
    InstallOutcome.CREATED: "Created",
    InstallOutcome.APPLIED: "Applied",
    InstallOutcome.WIDENED: "Widened by the fields of this version",
    InstallOutcome.LEFT: "Existed and were left as they are (--apply brings them in line with the flags)",
    InstallOutcome.NOT_CHANGED: "Not changed",
}
WOULD_CREATE: Final = "Would create, or leave as they are where they exist"


class Report(InstallObserver):
    """Prints what is done with each of `total` objects."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._outcomes: dict[InstallOutcome, list[JSONObject]] = {}
        stream = sys.stderr
        self._stream = getattr(stream, "unguarded", stream)
        self._draws = stream is not None and can_redraw(stream)

    def begin(self, obj: JSONObject) -> None:
        """Show that an object is about to be sent."""
        if self._draws:
            text = f"{self._done} of {self._total} objects: {title(obj)}"
            self._stream.write(f"\r\x1b[J{text[: shutil.get_terminal_size().columns - 1]}")
            self._stream.flush()
            drawn(self.ended)

    def done(self, obj: JSONObject, outcome: InstallOutcome) -> None:
        """Record what was done with an object."""
        self._done += 1
        self._outcomes.setdefault(outcome, []).append(obj)

    def ended(self) -> None:
        """Erase the line from the terminal."""
        if self._draws:
            self._stream.write("\r\x1b[J")
            self._stream.flush()
            erased(self.ended)

    def sent(self) -> None:
        """Print a line for each outcome."""
        for outcome, objects in self._outcomes.items():
            click.echo(f"{_OUTCOMES[outcome]}: {enumerated(objects)}")

    def say(self, text: str) -> None:
        click.echo(text)

    def warn(self, text: str) -> None:
        complain(text)


def enumerated(objects: Sequence[JSONObject]) -> str:
    """The objects by name; definitions by their number only."""
    definitions = sum(1 for obj in objects if obj["kind"] == DEFINITION)
    names = [title(obj) for obj in objects if obj["kind"] != DEFINITION]
    word = "definition" if definitions == 1 else "definitions"
    return ", ".join([*([f"{definitions} custom resource {word}"] if definitions else []), *names])


def print_plan(objects: Sequence[JSONObject], namespace: str) -> None:
    """Print what an installation would send."""
    click.echo(f"Pinnace in namespace {namespace}. {WOULD_CREATE}: {enumerated(objects)}")
    click.echo("Nothing was sent. Add -o yaml to see the objects.")
