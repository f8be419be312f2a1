"""No stored file takes more than 256 MiB of memory, whoever reads it, each in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MOST_MIB = 256
LISTS = [
    ("b1-podvolumebackups.json", "sync"),
    ("b1-podvolumebackups.json", "describe"),
    ("b1-podvolumebackups.json", "dry run"),
    ("b1-volumesnapshots.json", "describe"),
    ("b1-volumesnapshots.json", "restore"),
    ("b1-volumeinfo.json", "describe"),
    ("b1-volumeinfo.json", "verify"),
    ("b1-volumeinfo.json", "dry run"),
    ("b1-itemoperations.json", "restore"),
    ("b1-csi-volumesnapshots.json", "verify"),
    ("b1-csi-volumesnapshotcontents.json", "deletion"),
    ("r1-volumeinfo.json", "describe restore"),
]
OTHERS = [
    ("b1-resource-list.json", "verify"),
    ("b1-resource-list.json", "describe"),
    ("b1-resource-list.json", "finalization"),
    ("b1-results", "describe"),
    ("restore-r1-resource-list.json", "describe restore"),
    ("restore-r1-pinnace-outcomes.json", "describe restore"),
    ("restore-r1-results", "describe restore"),
]
INDEXES = [("b1-pinnace-index.json", reader) for reader in ("verify", "ls", "show", "diff", "search")]


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
@pytest.mark.parametrize(("file", "reader"), [*LISTS, *OTHERS, *INDEXES, ("velero-backup.json", "sync")])
def test_the_worst_content_of_a_file_takes_little_memory(tmp_path: Path, file: str, reader: str) -> None:
    found = peaks(tmp_path, reader, file)

    assert found
    assert {name: each for name, each in found.items() if each["peak_mib"] >= MOST_MIB} == {}


@pytest.mark.found("K-F1")
@pytest.mark.parametrize("reader", ["verify", "finalization"])
def test_a_resource_list_of_a_million_objects_is_read(tmp_path: Path, reader: str) -> None:
    (each,) = peaks(tmp_path, reader, "b1-resource-list.json", "1,000,000 names").values()

    assert each["peak_mib"] < MOST_MIB
    assert "larger" not in each["said"] + each["ended"]
    assert "takes more than" not in each["said"] + each["ended"]
