"""No stored file takes more than 256 MiB of memory, whoever reads it, each in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(900)

MOST_MIB = 256
WORST = ("41 million {}", "40 million texts", "objects of 1 MiB", "a text of 500 MiB", "2 GiB of zeros")
ROWS = [
    # A file, its reader, and the contents that only this kind of file has.
    ("b1-podvolumebackups.json", "sync", ("a full list",)),
    ("b1-podvolumebackups.json", "describe", ("a full list",)),
    ("b1-volumeinfo.json", "dry run", ("a full list",)),
    ("b1-resource-list.json", "describe", ("1,000,000 names",)),
    ("velero-backup.json", "sync", ("4 MB of {}", "1.5 MB of names")),
    ("b1-pinnace-index.json", "verify", ("1,000,000 invented entries",)),
]
"""All lists of objects share one reader, and so do all other files; `peak_memory` measures any other pair."""


def peaks(folder: Path, reader: str, file: str, *contents: str) -> dict[str, dict[str, Any]]:
    """The measurement of each content of a file."""
    words = ["-m", "tests.support.peak_memory", str(folder), reader, file, *contents]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=environment, timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {each["content"]: each for each in found}


@pytest.mark.found("K-F1", "K-F7")
@pytest.mark.parametrize(("file", "reader", "own"), ROWS)
def test_the_worst_content_of_a_file_takes_little_memory(
    tmp_path: Path, file: str, reader: str, own: tuple[str, ...]
) -> None:
    found = peaks(tmp_path, reader, file, *WORST, *own)

    assert found.keys() >= set(own)
    assert {name: each for name, each in found.items() if each["peak_mib"] >= MOST_MIB} == {}


@pytest.mark.found("K-F1")
@pytest.mark.parametrize(
    ("file", "reader", "end"),
    [
        ("b1-resource-list.json", "finalization", "read"),
        ("b1-resource-list.json", "describe as JSON", "0"),
        ("b1-resource-list.json", "verify", "1"),  # the tarball has one object
        ("restore-r1-resource-list.json", "describe restore", "0"),
    ],
)
def test_a_resource_list_of_a_million_objects_is_read(
    tmp_path: Path, file: str, reader: str, end: str
) -> None:
    (each,) = peaks(tmp_path, reader, file, "1,000,000 names").values()

    assert each["peak_mib"] < MOST_MIB
    assert each["ended"] == end
