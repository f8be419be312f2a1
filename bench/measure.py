"""Run one child process and measure it: wall time, CPU time, peak memory.

Peak memory is VmHWM, polled: the kernel keeps the maximum, so only what happens within the last interval
can be missed. The maximum in a child's resource usage cannot be used, because it starts at the size of the
process that forked.
"""

import json
import os
import re
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

POLL_MILLISECONDS = 10
_PEAK = re.compile(rb"^VmHWM:\s+(\d+) kB", re.MULTILINE)
_OUTPUT_IN_ERROR = 2_000


class SampleFailed(Exception):
    """A measured process failed or took too long; the text has the end of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measured process. `output` is what it printed."""

    wall_seconds: float
    cpu_seconds: float
    peak_bytes: int
    output: bytes

    def json(self) -> dict[str, Any]:
        """The JSON object on the last line of the output."""
        document: dict[str, Any] = json.loads(self.output.splitlines()[-1])
        return document


def run(
    command: Sequence[str | Path],
    *,
    environment: Mapping[str, str],
    folder: Path,
    deadline_seconds: float,
    code: int = 0,
) -> Sample:
    """Run a command to its end.

    Args:
        environment: added to this process's own.
        folder: for the output, and for Python's bytecode: an installed program has its own compiled, so
            samples after the first must not pay for that, whatever the environment says.
        code: the exit code that counts as success.

    Raises:
        SampleFailed: the exit code is not `code`, or the deadline passed.
    """
    log = folder / "output"
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with log.open("wb") as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**inherited, "PYTHONPYCACHEPREFIX": str(folder / "bytecode"), **environment},
        )
        try:
            peak_bytes, end = _watch(process.pid, start + deadline_seconds)
        except BaseException:
            process.kill()
            process.wait()
            raise
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    content = log.read_bytes()
    if process.returncode != code:
        tail = content[-_OUTPUT_IN_ERROR:].decode(errors="replace")
        raise SampleFailed(f"{command[0]} ended with code {process.returncode}:\n{tail}")
    return Sample(
        wall_seconds=end - start,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_bytes=peak_bytes,
        output=content,
    )


def _watch(pid: int, deadline: float) -> tuple[int, float]:
    """Wait for the end of a process; return its peak memory and the time of its end."""
    peak_bytes = 0
    descriptor = os.pidfd_open(pid)
    try:
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        while not poller.poll(POLL_MILLISECONDS):
            peak_bytes = peak_memory_bytes(pid) or peak_bytes
            if time.perf_counter() > deadline:
                raise SampleFailed(f"process {pid} took too long")
        return peak_bytes, time.perf_counter()
    finally:
        os.close(descriptor)


def peak_memory_bytes(pid: int) -> int:
    """The peak resident memory of a running process so far, or 0 if it has none left."""
    try:
        found = _PEAK.search(Path(f"/proc/{pid}/status").read_bytes())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0
