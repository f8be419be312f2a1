"""A server with programs of plugins: its reports about them, and that none outlives it."""

import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import Rule, Stall
from hack.cluster.proxy import FaultProxy
from tests.e2e.server_process import ServerProcess
from tests.e2e.without_server.command import Pinnace
from tests.support.plugins.programs import SAMPLE_MODULE, put_own, put_script
from tests.support.plugins.servers import PluginServer
from tests.support.servers.homes import Home
from tests.support.waiting import eventually

StartProxy = Callable[[ControlPlane], Awaitable[FaultProxy]]


def listed(text: str) -> set[tuple[str, ...]]:
    """The rows of `plugin get`."""
    return {tuple(line.split()) for line in text.splitlines()}


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.spec("PLG-007")
async def test_plugin_get_lists_them_beside_the_built_in_ones(
    home: Home, plugin_server: PluginServer, both: Path, command: Pinnace, tmp_path: Path
) -> None:
    words = tmp_path / "arguments"
    put_script(both, "told", f'#!/bin/sh\necho "$@" >> {words}\nexec {both}/../sample/own "$@"\n')
    put_own(tmp_path / "sample", module="tests.support.everything_plugin")
    server = await plugin_server("--log-level", "debug", "--features", "EnableAPIGroupVersions,another")
    await server.ready()

    outcome = await command("plugin", "get")

    assert outcome.code == 0
    kinds = ("BackupItemAction", "RestoreItemAction", "DeleteItemAction", "ObjectStore", "VolumeSnapshotter")
    whole = ["example.io/whole"] * 3 + ["example.io/folder"] * 2
    compiled = ["backup", "restore", "delete", "memory", "snapshots"]
    assert listed(outcome.out) >= {
        *zip(whole, kinds, strict=True),
        *((f"example.io/{name}", kind) for name, kind in zip(compiled, kinds, strict=True)),
        ("example.io/everything", "BackupItemAction"),
        ("velero.io/pod", "BackupItemAction"),
        ("velero.io/job", "RestoreItemAction"),
        *((f"velero.io/{name}", "ObjectStore") for name in ("aws", "azure", "gcp")),
        ("pinnace.io/filesystem", "ObjectStore"),
        *((f"velero.io/{name}", "VolumeSnapshotter") for name in ("aws", "azure", "gcp")),
    }
    assert words.read_text() == "--log-level debug --features EnableAPIGroupVersions,another\n"
    assert server.children == []  # they are not needed now


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("#!/bin/sh\necho hello\n", "plugins/strange: Unrecognized remote plugin message: 'hello'"),
        ("no program\n", "plugins/strange cannot be started: Exec format error; fix or remove the plugin"),
        (None, "unable to register plugin (kind=BackupItemAction, name=example.io/backup, command="),
    ],
    ids=["no plugin", "no program", "duplicate"],
)
async def test_a_broken_plugin_ends_the_start_with_one_line(
    home: Home, plugin_server: PluginServer, programs: Path, script: str | None, text: str
) -> None:
    if script is None:
        put_own(programs, "one", SAMPLE_MODULE)
        put_own(programs, "two", SAMPLE_MODULE)
    else:
        put_script(programs, "strange", script)
    server = await plugin_server()

    assert await server.end() == 1
    (line,) = server.errors.splitlines()
    assert line.startswith("An error occurred: ")
    assert text in line
    assert line.endswith("; fix or remove the plugin")


async def with_plugins_at_work(
    home: Home, plugin_server: PluginServer, proxy: FaultProxy
) -> tuple[ServerProcess, Rule]:
    """A server in the middle of a backup whose actions run in two programs."""
    held = proxy.rules.add(Stall(), method="GET", path=f"^/api/v1/namespaces/{home.namespace}/configmaps$")
    server = await plugin_server(via=proxy)
    await server.ready()
    await home.create_backup("b1")
    await held.struck()
    assert len(server.children) == 2
    return server, held


async def test_a_stop_ends_them_with_the_work_in_flight(
    home: Home,
    plugin_server: PluginServer,
    both: Path,
    control_plane: ControlPlane,
    fault_proxy: StartProxy,
) -> None:
    server, held = await with_plugins_at_work(home, plugin_server, await fault_proxy(control_plane))
    running = server.children
    server.send(signal.SIGTERM)
    await server.said("phase=Stopping")
    held.release()

    assert await server.end() == 0
    assert (await home.status("backups", "b1"))["phase"] == "Completed"
    assert alive(running) == []


async def test_a_killed_server_leaves_no_plugin_running(
    home: Home,
    plugin_server: PluginServer,
    both: Path,
    control_plane: ControlPlane,
    fault_proxy: StartProxy,
) -> None:
    server, held = await with_plugins_at_work(home, plugin_server, await fault_proxy(control_plane))
    running = server.children
    await server.kill()
    held.release()

    async def gone() -> bool:
        return alive(running) == []

    assert running, "no plugin was at work"
    await eventually(gone)
