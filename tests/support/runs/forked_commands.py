"""Runs commands of `pinnace` as forks of a process that has their code loaded: half of their processor time.

    test ──JSON, and the file descriptors of the standard streams──> launcher ──fork──> command
    test <────────process id, exit code, by a pipe of each command────────┘

A command has the environment, folder, streams and arguments that the test gives, and runs the program's entry
point. It does not show that the program loads: tests of that start a process of their own.

The launcher is a program of its own, as a test process has threads and an event loop, which do not survive a
fork. It imports nothing of the tests, and ends with the test process; its commands end with it.
"""

import asyncio
import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import random
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ROOMS = ("aio", "api", "backup", "cli", "client", "kube", "operations", "restore", "storage")
"""What commands load; the rest is loaded by those that need it."""
_REQUEST_BYTES = 1 << 17
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The result of one command."""

    code: int
    out: bytes
    err: bytes


def can_fork(environ: Mapping[str, str]) -> bool:
    """Whether a fork behaves as a process of its own: variables of the interpreter count at its start."""
    return not any(name.startswith("PYTHON") for name in environ)


async def run_forked(
    program: Path,
    arguments: Sequence[str],
    *,
    folder: Path,
    environ: Mapping[str, str],
    stdin: bytes,
    limit_seconds: float,
) -> Ended:
    """Run one command to its end.

    Args:
        program: the path of the program, as the command sees it.
        folder: its working directory.
        stdin: a few bytes at most, which fit into a pipe.

    Raises:
        TimeoutError: it took longer than the limit, and was killed.
    """
    order = {"argv": [str(program), *arguments], "folder": str(folder), "environ": dict(environ)}
    pipes = [os.pipe() for _ in range(4)]
    (stdin_read, stdin_write), *others = pipes
    os.write(stdin_write, stdin)
    os.close(stdin_write)
    given = [stdin_read, *(write for _, write in others)]
    requests, launcher = _launcher()
    socket.send_fds(requests, [json.dumps(order).encode()], given)
    for descriptor in given:
        os.close(descriptor)
    async with contextlib.AsyncExitStack() as stack:
        out, err, status = [await _opened(read, stack) for read, _ in others]
        pid = int(await status.readline() or _fail(launcher))
        try:
            async with asyncio.timeout(limit_seconds):
                printed = await out.read(), await err.read()
                code = int(await status.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            await status.readline()
            raise
    return Ended(code=code, out=printed[0], err=printed[1])


async def _opened(descriptor: int, stack: contextlib.AsyncExitStack) -> asyncio.StreamReader:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    stack.callback(transport.close)
    return reader


def _fail(launcher: subprocess.Popen[bytes]) -> bytes:
    """Raise an error with what the launcher printed before it ended."""
    _, printed = launcher.communicate(timeout=10)
    raise RuntimeError(f"the launcher of commands has ended: {printed.decode()}")


@cache
def _launcher() -> tuple[socket.socket, "subprocess.Popen[bytes]"]:
    """The launcher of this process, which is started by the first call, and the way to it."""
    own, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _REQUEST_BYTES)
    with its:
        # Pipes, as the interpreter notes once what its streams can do. Nothing goes through them.
        process = subprocess.Popen(
            [sys.executable, __file__, str(its.fileno())],
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[its.fileno()],
        )
    atexit.register(_end, own, process)
    return own, process


def _end(requests: socket.socket, launcher: subprocess.Popen[bytes]) -> None:
    requests.close()
    launcher.communicate()


def main(descriptor: int) -> None:
    """Fork a command for every request, until the test process has gone."""
    sys.path.pop(0)  # this folder, which is on no command's path
    _load()
    requests = socket.socket(fileno=descriptor)
    waiting: dict[
        int, tuple[int, int]
    ] = {}  # by the descriptor of a process: its id, and the pipe for its end
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is requests:
                    request, given, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 4)
                    if not request:
                        return
                    pid, process, status = _fork(json.loads(request), given, [descriptor, *waiting])
                    waiting[process] = pid, status
                    selector.register(process, selectors.EVENT_READ)
                    continue
                selector.unregister(key.fd)
                os.close(key.fd)
                pid, status = waiting.pop(key.fd)
                _, ended = os.waitpid(pid, 0)
                os.write(status, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
                os.close(status)


def _load() -> None:
    for room in _ROOMS:
        package = importlib.import_module(f"pinnace.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)
    gc.collect()
    gc.freeze()


def _fork(order: dict[str, object], given: Sequence[int], own: Sequence[int]) -> tuple[int, int, int]:
    """Fork one command. Returns its process id, a descriptor of the process, and the pipe for its end."""
    *streams, status = given
    if pid := os.fork():
        for stream in streams:
            os.close(stream)
        os.write(status, f"{pid}\n".encode())
        return pid, os.pidfd_open(pid), status
    try:
        _become(order, streams, [*own, status])
    finally:
        os._exit(125)  # no exception gets back into the launcher's loop


def _become(order: dict[str, object], streams: Sequence[int], own: Sequence[int]) -> None:
    """Be the command, to its end."""
    from pinnace.cli.main import main as command

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for descriptor in (*streams, *own):
        os.close(descriptor)
    os.chdir(str(order["folder"]))
    os.environ.clear()
    os.environ.update(order["environ"])  # type: ignore[call-overload]
    time.tzset()
    random.seed()
    sys.argv[:] = order["argv"]  # type: ignore[call-overload]
    try:
        command()
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
