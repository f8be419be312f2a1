"""The life of a plugin's process, from the host's start of it to the host's end. (docs/spec: PLG 3-5, 15)"""

import argparse
import asyncio
import contextlib
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import grpc.aio

from pinnace.plugins.declaration import Plugins
from pinnace.plugins.errors import PluginError
from pinnace.plugins.guest.cluster import OwnCluster
from pinnace.plugins.guest.instances import Instances
from pinnace.plugins.guest.logging import configure_logging
from pinnace.plugins.guest.server import SERVER_OPTIONS, PluginServer

COOKIE: Final = ("VELERO_PLUGIN", "hello")
COMMAND_VARIABLE: Final = "PINNACE_PLUGIN_COMMAND"
_HINT = (
    "This program is a plugin for Velero or Pinnace. It is not meant to be run by itself: put it into the"
    " server's plugin directory, which runs it.\n"
)
_LINE = "1|2|{network}|{address}|grpc\n"
_LONGEST_SOCKET_PATH: Final = 100
_GRACE_SECONDS: Final = 0.5


def serve(plugins: Plugins, arguments: Sequence[str] | None = None) -> int:
    """Run as a plugin until the host asks to end, or is gone.

    Args:
        plugins: what this program offers.
        arguments: those of the command line by default; `run-plugins` and unknown flags are ignored.

    Returns:
        The exit code.
    """
    if os.environ.get(COOKIE[0]) != COOKIE[1]:
        sys.stderr.write(_HINT)
        return 1
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--log-level", default="info")
    parser.add_argument("--features", default="")
    options, _ = parser.parse_known_args(sys.argv[1:] if arguments is None else arguments)
    configure_logging(options.log_level)
    try:
        with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
            runner.run(_serve(plugins, os.environ))
    except PluginError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Makes event loops: uvloop's where it is installed, as gRPC wakes the loop a dozen times a call."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(plugins: Plugins, environ: Mapping[str, str]) -> None:
    async with OwnCluster(environ) as cluster:
        answering = PluginServer(Instances(plugins, cluster.read_config), _own_command(environ))
        server = grpc.aio.server(options=SERVER_OPTIONS)
        server.add_generic_rpc_handlers((answering,))
        async with _listening(server) as line:
            await server.start()
            _shake_hands(line)
            with _ends_with_parent(answering.ended):
                await answering.ended.wait()
            await server.stop(_GRACE_SECONDS)


def _own_command(environ: Mapping[str, str]) -> str:
    """The path that this program was started with, which Velero will start again. (PLG 2)

    A shell script around `python -m` has to say it: `PINNACE_PLUGIN_COMMAND="$0"`. Nothing else tells.
    """
    return os.path.abspath(environ.get(COMMAND_VARIABLE) or sys.argv[0])


@asynccontextmanager
async def _listening(server: grpc.aio.Server) -> AsyncIterator[str]:
    """Give the server an address, a private socket where its path is short enough; the handshake's line."""
    # The name has the form of other plugins' names, so that tools that clean up find ours too.
    path = Path(tempfile.gettempdir(), f"plugin{secrets.randbelow(10**10)}")
    if len(str(path)) > _LONGEST_SOCKET_PATH:
        port = server.add_insecure_port("127.0.0.1:0")
        yield _LINE.format(network="tcp", address=f"127.0.0.1:{port}")
        return
    before = os.umask(0o177)
    try:
        server.add_insecure_port(f"unix:{path}")
    finally:
        os.umask(before)
    try:
        yield _LINE.format(network="unix", address=path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _shake_hands(line: str) -> None:
    """Print the one line that the host reads; what is printed later goes to stderr, where it is logged."""
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), line.encode())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


@contextlib.contextmanager
def _ends_with_parent(ended: asyncio.Event) -> Iterator[None]:
    """Set the event on SIGTERM, and on Linux when the process that started this one is gone.

    SIGINT is the host's to handle: a terminal sends it to both.
    """
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    parent = -1
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            parent = os.pidfd_open(os.getppid())
            loop.add_reader(parent, ended.set)
    try:
        yield
    finally:
        if parent >= 0:
            loop.remove_reader(parent)
            os.close(parent)
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGINT)
