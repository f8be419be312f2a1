"""An encrypted backup on the folder of servers: they list it, and fail its restore without a change.

With PINNACE_TEST_VELERO, the path of a Velero program, that program's server is one of them.
"""

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.age.x25519 import X25519Identity
from pinnace.controllers.sync import backup_sync
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES
from tests.support.cluster.connect import Connect
from tests.support.runs.sides import VELERO, CommandSide, ServerSide, define, velero_server
from tests.support.servers.sites import Site, running

PROGRAM = os.environ.get(VELERO, "")


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The shared cluster; beside Velero one of its own, which has Velero's definitions."""
    if not PROGRAM:
        yield request.getfixturevalue("control_plane")
        return
    made = ControlPlane(tmp_path_factory.mktemp("cluster-encrypted"), name="encrypted")
    made.start()
    yield made
    made.remove()


@pytest.fixture(params=["plain details", "hidden details"])
async def servers(
    request: pytest.FixtureRequest,
    plane: ControlPlane,
    connect: Connect,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[tuple[KubeClient, CommandSide, list[ServerSide]]]:
    """A client, the command that encrypts, and the servers on its folder."""
    monkeypatch.setattr(backup_sync, "PERIOD_SECONDS", 0.2)
    monkeypatch.setenv("PINNACE_RECIPIENTS", str(X25519Identity.generate().recipient))
    if request.param == "hidden details":
        monkeypatch.setenv("PINNACE_HIDE_DETAILS", "true")
    client = await connect(plane)
    await define(client, PROGRAM)
    site = Site(client, await new_namespace(client), tmp_path)
    folder = await site.add_folder(backupSyncPeriod="1s", default=True)
    made = [ServerSide(site, "server")]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(client, site.namespace, tmp_path))
        if PROGRAM:
            other = Site(client, await new_namespace(client), tmp_path)
            await stack.enter_async_context(velero_server(PROGRAM, plane, other, folder, tmp_path))
            made.append(ServerSide(other, "velero"))
        yield client, CommandSide(plane, folder), made


async def new_namespace(client: KubeClient) -> str:
    name = f"sealed-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    return name


@pytest.mark.timeout(300)
async def test_servers_list_an_encrypted_backup_and_fail_its_restore_before_they_create_anything(
    servers: tuple[KubeClient, CommandSide, list[ServerSide]],
) -> None:
    client, command, others = servers
    source = await new_namespace(client)
    await client.create(CONFIGMAPS, {"metadata": {"name": "settings"}, "data": {"a": "1"}}, source)
    assert (await command.back_up("sealed", {"includedNamespaces": [source]}))["phase"] == "Completed"
    for side in others:
        target = f"{source}-{side.name}"
        spec = {"backupName": "sealed", "namespaceMapping": {source: target}}
        status = await side.restore(f"r-{side.name}", spec)
        assert status["phase"] in ("Failed", "FailedValidation"), (side.name, status)
        with pytest.raises(NotFound):
            await client.get(NAMESPACES, target)
