"""Measuring a child process."""

import sys
from pathlib import Path

import pytest

from bench.figures import MEBIBYTE
from bench.measure import Sample, SampleFailed, peak_memory_bytes, run

PRINT = "import sys; print('first'); print('{\"seconds\": 0.5}')"


def sample(tmp_path: Path, program: str, deadline_seconds: float = 30) -> Sample:
    return run(
        [sys.executable, "-I", "-S", "-c", program],
        environment={"GREETING": "hello"},
        folder=tmp_path,
        deadline_seconds=deadline_seconds,
    )


def test_output_time_and_memory(tmp_path: Path) -> None:
    hold = bytearray(64 * MEBIBYTE)  # a parent's size must not count as the child's
    measured = sample(tmp_path, PRINT + "; sum(range(3_000_000))")
    assert measured.json() == {"seconds": 0.5}
    assert measured.cpu_seconds > 0
    assert 0 < measured.wall_seconds < 30
    assert MEBIBYTE < measured.peak_bytes < len(hold)


def test_peak_memory_is_that_of_the_largest_moment(tmp_path: Path) -> None:
    measured = sample(tmp_path, "x = bytearray(100 << 20); del x; sum(range(3_000_000))")
    assert measured.peak_bytes > 100 * MEBIBYTE


def test_a_failure_shows_the_output_of_the_process(tmp_path: Path) -> None:
    with pytest.raises(SampleFailed, match="code 3:\nhello"):
        sample(tmp_path, "import os, sys; print(os.environ['GREETING']); sys.exit(3)")


def test_a_process_that_hangs_is_killed(tmp_path: Path) -> None:
    with pytest.raises(SampleFailed, match="took too long") as failure:
        sample(tmp_path, "import time; time.sleep(600)", deadline_seconds=0.2)
    pid = int(str(failure.value).split()[1])
    assert peak_memory_bytes(pid) == 0


def test_bytecode_is_compiled_once_and_outside_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "imported.py").write_text("VALUE = 1\n")
    program = f"import sys; sys.path.insert(0, {str(sources)!r}); import imported"
    run([sys.executable, "-S", "-c", program], environment={}, folder=tmp_path, deadline_seconds=30)
    assert len(list((tmp_path / "bytecode").rglob("imported.*.pyc"))) == 1
    assert [path.name for path in sources.iterdir()] == ["imported.py"]
