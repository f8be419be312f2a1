"""Runs moto's server, which keeps what services of AWS keep."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from hack.cluster.processes import ManagedProcess, free_port


@contextmanager
def running_moto(folder: Path) -> Iterator[str]:
    """Run the server, and give its URL.

    Args:
        folder: for its log.
    """
    port = free_port()
    process = ManagedProcess(
        "moto",
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        log=folder / "moto.log",
        env={"MOTO_EC2_LOAD_DEFAULT_AMIS": "false"},
    )

    def answers() -> bool:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("GET", "/moto-api/")
            return connection.getresponse().status > 0
        except OSError:
            return False
        finally:
            connection.close()

    try:
        process.wait_ready(answers, timeout_seconds=120)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.stop(grace_seconds=0)
