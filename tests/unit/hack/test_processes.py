"""Child processes: they are watched, stopped, and never outlive their parent."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hack.cluster.errors import StartFailed
from hack.cluster.processes import PORTS, ManagedProcess, free_port, resident_bytes

PYTHON = sys.executable
# Not signal.pause(), which loses a signal that comes just before it.
WAIT_FOR_SIGNAL = "import time; print('up', flush=True)\nwhile True: time.sleep(0.01)"


def run(tmp_path: Path, program: str, **env: str) -> ManagedProcess:
    return ManagedProcess("child", [PYTHON, "-c", program], log=tmp_path / "logs" / "child.log", env=env)


def says(process: ManagedProcess, text: str) -> bool:
    return text in process.log.read_text()


def test_output_goes_to_the_log_and_secrets_by_environment(tmp_path: Path) -> None:
    process = run(tmp_path, "import os; print(os.environ['TOKEN'])", TOKEN="s3cret")

    assert process.wait(20) == 0
    assert says(process, "s3cret")
    assert "s3cret" not in " ".join(process.argv)


def test_stop_sends_sigterm_first(tmp_path: Path) -> None:
    process = run(
        tmp_path, "import signal, sys; signal.signal(15, lambda *_: sys.exit(7))\n" + WAIT_FOR_SIGNAL
    )
    process.wait_ready(lambda: says(process, "up"), timeout_seconds=20)

    assert process.returncode is None
    assert resident_bytes(process.pid) > 0 or sys.platform != "linux"
    process.stop()
    process.stop()

    assert process.returncode == 7


def test_stop_kills_a_process_that_ignores_sigterm(tmp_path: Path) -> None:
    process = run(tmp_path, "import signal; signal.signal(15, signal.SIG_IGN)\n" + WAIT_FOR_SIGNAL)
    process.wait_ready(lambda: says(process, "up"), timeout_seconds=20)

    process.stop(grace_seconds=0.05)

    assert process.returncode == -signal.SIGKILL


def test_early_end_is_reported_with_the_log(tmp_path: Path) -> None:
    process = run(tmp_path, "import sys; print('port is taken'); sys.exit(3)")

    with pytest.raises(StartFailed, match=r"child ended with code 3\.[^$]*port is taken"):
        process.wait_ready(lambda: False, timeout_seconds=20)


def test_deadline_is_reported_and_leaves_the_process(tmp_path: Path) -> None:
    process = run(tmp_path, WAIT_FOR_SIGNAL)
    try:
        with pytest.raises(StartFailed, match="not ready after 0 s"):
            process.wait_ready(lambda: False, timeout_seconds=0)
        assert process.returncode is None
    finally:
        process.stop(grace_seconds=0)


PARENT = f"""
import sys, time
from pathlib import Path
from hack.cluster.processes import ManagedProcess
log = Path(sys.argv[1])
child = ManagedProcess("child", [sys.executable, "-c", {WAIT_FOR_SIGNAL!r}], log=log)
child.wait_ready(lambda: "up" in log.read_text(), timeout_seconds=20)
print(child.pid, flush=True)
time.sleep(600)  # killed
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills children with their parent")
def test_killed_parent_takes_its_children_along(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    argv = [PYTHON, "-c", PARENT, str(tmp_path / "child.log")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=pytestconfig.rootpath) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            assert not ended(child, within_seconds=0)
            parent.kill()
            assert ended(child, within_seconds=20)
        finally:
            os.close(child)


def ended(pidfd: int, *, within_seconds: float) -> bool:
    """A pidfd becomes readable when its process ends, whichever process is the parent."""
    return bool(select.select([pidfd], [], [], within_seconds)[0])


def test_free_ports_are_outside_the_kernels_own_range() -> None:
    ports = {free_port() for _ in range(20)}

    assert len(ports) > 1
    assert all(port in PORTS for port in ports)
