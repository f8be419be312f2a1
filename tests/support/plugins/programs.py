"""Programs of plugins for tests: files to put into a plugin directory, and a log that records."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[3]
SAMPLE_MODULE = "tests.support.sample_plugin"

_OWN = """#!/bin/sh
cd '{checkout}' && PINNACE_PLUGIN_COMMAND="$0" exec '{python}' -m {module} "$@"
"""


@dataclass(frozen=True, slots=True)
class Line:
    """A line that a plugin or its host logged."""

    level: str
    message: str
    fields: dict[str, Any]


@dataclass
class RecordingLog:
    """A LogSink that records its messages."""

    lines: list[Line] = field(default_factory=list)

    def log(
        self, level: str, msg: str, /, *, error: BaseException | str | None = None, **fields: Any
    ) -> None:
        if error is not None:
            fields["error"] = error
        self.lines.append(Line(level, msg, fields))

    def messages(self, *levels: str) -> Sequence[str]:
        """The texts of these levels."""
        return [line.message for line in self.lines if line.level in levels]


def put_own(directory: Path, name: str = "own", module: str = SAMPLE_MODULE) -> Path:
    """A plugin's program that runs a Python module."""
    return put_script(directory, name, _OWN.format(checkout=CHECKOUT, python=sys.executable, module=module))


def put_script(directory: Path, name: str, text: str) -> Path:
    """An executable file."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def pod(wish: str = "", **labels: str) -> dict[str, Any]:
    """A pod whose annotation tells the sample plugin what to do."""
    metadata: dict[str, Any] = {"name": "web", "namespace": "shop", "annotations": {"example.io/do": wish}}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
