"""Completion in bash, zsh and fish: keys are typed into a terminal, and the completed line is read."""

import asyncio
import fcntl
import gzip
import json
import os
import pty
import select
import shutil
import socket
import subprocess
import sys
import termios
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from pinnace.api.objects import JSONObject
from pinnace.cli.completion.scripts import SHELLS, script
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import velero
from tests.e2e.without_server.command import PROGRAM, Pinnace
from tests.support.waiting import eventually

SECONDS = 120.0
"""How long a shell may take for one line; on an idle machine none needs one second."""
HOSTILE = ("$(touch pwned)", "`touch pwned`", "x;touch pwned", "bell\a", "\x1b]0;title\a", "two\nlines")
START = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "bind 'set bell-style none'; source '{script}'\n"),
    "zsh": (
        ["zsh", "-f", "-i"],
        # Keys that wait while the shell works are typed, not pasted.
        "bindkey -e; autoload -U compinit; compinit -u -D; zstyle ':completion:*' insert-tab false; "
        "source '{script}'\n",
    ),
    "fish": (["fish", "--no-config", "-i"], "source '{script}'\n"),
}
"""The command of each shell, and its first input."""
CONFIG = """\
apiVersion: v1
kind: Config
contexts:
- {name: "arn:aws:eks:eu-1:1:cluster/main", context: {cluster: c, user: u}}
- {name: "$(touch pwned)", context: {cluster: c, user: u}}
"""


SILENT = """\
apiVersion: v1
kind: Config
current-context: a
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
contexts: [{{name: a, context: {{cluster: c}}}}]
"""


@dataclass
class Shell:
    """A shell on a terminal of its own."""

    terminal: int
    folder: Path
    lines: int = 0

    def type(self, keys: str) -> None:
        """Send keys."""
        os.write(self.terminal, keys.encode())

    def completed(self, line: str) -> list[str]:
        """The words of a line after Tab was pressed at its end, as the shell would pass them on."""
        self.lines += 1
        out = self.folder / f"line-{self.lines}"
        # Ctrl-A and Ctrl-E go to the ends of the line, which is then printed instead of run.
        self.type(f"{line}\t\x01printf '%s\\n' \x05 > {out}.part; mv {out}.part {out}\r")
        self.wait_for(out)
        # zsh takes the slash of a folder away again when the word ends.
        return [word.rstrip("/") for word in out.read_text().splitlines()]

    def wait_for(self, path: Path) -> None:
        """Read the output of the shell until a file exists."""
        shown = b""
        end = time.monotonic() + SECONDS
        while not path.exists():
            if time.monotonic() > end:
                pytest.fail(f"the shell did not answer: {shown[-2000:]!r}")
            if select.select([self.terminal], [], [], 0.02)[0]:
                try:
                    shown += os.read(self.terminal, 65536)
                except OSError:  # Linux says EIO when the last program at the terminal has ended
                    pytest.fail(f"the shell has ended: {shown[-2000:]!r}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder with a location of three backups and more of hostile names, and a kubeconfig."""
    folder = tmp_path / "work"
    for kind, names in (("backups", ("one", "two", *HOSTILE)), ("restores", ("one-again",))):
        for name in names:
            (folder / "location" / kind / name).mkdir(parents=True)
            (folder / "location" / kind / name / "file").touch()
    resources = {
        "v1/ConfigMap": ["shop/settings", *(f"shop/{name}" for name in HOSTILE)],
        "v1/$(pwned)": ["x"],
    }
    for name in ("one", "two"):
        listed = folder / "location" / "backups" / name / f"{name}-resource-list.json.gz"
        listed.write_bytes(gzip.compress(json.dumps(resources).encode()))
    (folder / "kube config").write_text(CONFIG)
    return folder


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, folder: Path) -> Iterator[Shell]:
    """One of the shells, ready for keys, in the folder."""
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is missing on this machine: apt-get install {name}")
    path = folder / f"completion.{name}"
    path.write_text(script(name, "pinnace"))
    command, told = START[name]
    environ = {
        "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        "KUBECONFIG": str(folder / "kube config"),
    }
    terminal, other_end = pty.openpty()
    termios.tcsetwinsize(terminal, (40, 200))
    process = subprocess.Popen(
        command, cwd=folder, env=environ, stdin=other_end, stdout=other_end, stderr=other_end,
        start_new_session=True, preexec_fn=_own_terminal,
    )  # fmt: skip
    os.close(other_end)
    try:
        shell = Shell(terminal, folder)
        shell.type(told.format(script=path))
        shell.type(f"touch {folder / 'ready'}\r")
        shell.wait_for(folder / "ready")
        yield shell
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def _own_terminal() -> None:
    """Make standard input the terminal that the new session obeys; fish wants one."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_line_is_completed_as_it_is_typed(shell: Shell, folder: Path) -> None:
    at = "pinnace --location location"
    lines = {
        "pinnace backup desc": ["pinnace", "backup", "describe"],
        "pinnace backup create b --tt": ["pinnace", "backup", "create", "b", "--ttl"],
        f"{at} backup describe on": [*at.split(), "backup", "describe", "one"],
        f"{at} restore create --from-backup=tw": [*at.split(), "restore", "create", "--from-backup=two"],
        f"{at} restore get one one-": [*at.split(), "restore", "get", "one", "one-again"],
        f"{at} backup show one con": [*at.split(), "backup", "show", "one", "configmap"],
        f"{at} history configmap/": [*at.split(), "history", "configmap/settings"],
        f"{at} backup show one configmap/": [*at.split(), "backup", "show", "one", "configmap/settings"],
        "pinnace get backups -o ya": ["pinnace", "get", "backups", "-o", "yaml"],
        "pinnace get backups --output=cus": ["pinnace", "get", "backups", "--output=custom-columns="],
        "pinnace --location loc": ["pinnace", "--location", "location"],
        "pinnace --location=loc": ["pinnace", "--location=location"],
        "pinnace --kubeconfig kub": ["pinnace", "--kubeconfig", "kube config"],
        "pinnace --kubecontext arn:aws:e": ["pinnace", "--kubecontext", "arn:aws:eks:eu-1:1:cluster/main"],
    }
    assert {line: shell.completed(line) for line in lines} == lines


def test_hostile_names_are_neither_run_nor_inserted(shell: Shell, folder: Path) -> None:
    at = "pinnace --location location backup describe"
    assert shell.completed(f"{at} one ") == [*at.split(), "one", "two"]  # the only other one that is harmless
    for typed in ("'$", '"$', "'`", "x", "bell"):
        shell.type(f"{at} {typed}\t\t\x15")  # Ctrl-U erases what is there, whatever it is
    context = "arn:aws:eks:eu-1:1:cluster/main"
    assert shell.completed("pinnace --kubecontext ") == ["pinnace", "--kubecontext", context]
    assert shell.completed("pinnace vers") == ["pinnace", "version"]
    assert not list(folder.rglob("pwned"))


async def test_names_come_from_the_server_that_the_command_line_names(
    client: KubeClient, namespace: str, command: Pinnace, velero_crds: None
) -> None:
    specs: dict[str, JSONObject] = {
        "backups": {}, "restores": {"backupName": "x"}, "schedules": {"schedule": "@daily", "template": {}},
    }  # fmt: skip
    for plural, spec in specs.items():
        kind = plural.removesuffix("s").capitalize()
        meta = {"name": f"my-{plural}"}
        obj = {"apiVersion": "velero.io/v1", "kind": kind, "metadata": meta, "spec": spec}
        await client.create(velero(plural), obj, namespace)

    asked = ("--kubeconfig", str(command.kubeconfig), "-n", namespace)

    async def offered(*words: str) -> list[str]:
        return await _offered(*asked, *words)

    assert "my-backups" in await offered("backup", "logs", "")
    assert "my-restores" in await offered("describe", "restores", "my-")
    assert "my-schedules" in await offered("backup", "create", "--from-schedule", "")
    assert f"default,{namespace}" in await offered("backup", "create", "--include-namespaces", "default,")
    assert "deployments.apps" in await offered("backup", "create", "--include-resources", "dep")


@pytest.mark.found("op-113")
async def test_names_come_from_a_server_that_is_far_away(
    client: KubeClient, namespace: str, command: Pinnace, tmp_path: Path, velero_crds: None
) -> None:
    backup = {"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "far"}, "spec": {}}
    await client.create(velero("backups"), backup, namespace)
    near = urlsplit(client.server)
    async with _distant(near.hostname or "", near.port or 443) as port:
        kubeconfig = tmp_path / "far"
        kubeconfig.write_text(command.kubeconfig.read_text().replace(f":{near.port}", f":{port}"))
        asked = ("--kubeconfig", str(kubeconfig), "-n", namespace)
        assert "far" in await _offered(*asked, "backup", "describe", "")


@asynccontextmanager
async def _distant(host: str, port: int) -> AsyncIterator[int]:
    """The port of a proxy that passes each block on 50 ms later, in both directions."""

    connections = set[asyncio.Task[None]]()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while block := await reader.read(1 << 16):
                await asyncio.sleep(0.05)  # the latency that the test is about
                writer.write(block)
                await writer.drain()
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        try:
            await asyncio.gather(pass_on(reader, back), pass_on(there, writer))
        finally:
            for end in (writer, back):
                end.close()
                with suppress(ConnectionError):
                    await end.wait_closed()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.create_task(relay(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        for connection in connections:
            connection.cancel()
        await asyncio.wait(connections)


async def _offered(*words: str) -> list[str]:
    """The values that are offered; asked again without any, as on a busy machine time may be too short."""
    found: list[str] = []

    async def answers() -> bool:
        process = await asyncio.create_subprocess_exec(
            PROGRAM, "__complete", "zsh", *words,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, err = await process.communicate()
        assert (process.returncode, err) == (0, b"")
        found.extend(line.partition("\t")[0] for line in out.decode().splitlines())
        return bool(found)

    await eventually(answers)
    return found


def test_an_answer_is_little_more_work_than_loading_its_libraries(folder: Path, tmp_path: Path) -> None:
    """Loading them takes 75 ms on a usual machine; four times that are the 300 ms that a person may wait.

    Processor times are compared, as a busy machine makes both longer. The server is silent, so the command
    gives up on it.
    """
    loading_seconds = _work_seconds([sys.executable, "-c", "import asyncio, click, json, typing"])
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kubeconfig = tmp_path / "silent"
        kubeconfig.write_text(SILENT.format(port=silent.getsockname()[1]))
        for words in (
            ["backup", "create", "--tt"],
            ["--location", str(folder / "location"), "backup", "describe", ""],
            ["--kubeconfig", str(kubeconfig), "backup", "describe", ""],
            ["--location", str(folder / "location"), "backup", "show", "one", "configmap/"],
            ["--location", str(folder / "location"), "history", "configmap/"],
        ):
            answer = [str(PROGRAM), "__complete", "zsh", *words]
            assert _work_seconds(answer) < 4 * loading_seconds, words


def _work_seconds(command: list[str]) -> float:
    """The least processor time of two runs."""
    found = []
    for _run in range(2):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        assert status == 0
        found.append(usage.ru_utime + usage.ru_stime)
    return min(found)
