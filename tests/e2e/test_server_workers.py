"""A server that runs several backups and several restores at once."""

import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import Rule, Stall
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import S3Server
from pinnace.controllers.shared.settling import INTERRUPTED_REASON as INTERRUPTED
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, velero
from tests.e2e.server_process import ServerProcess
from tests.support.servers.homes import ALONE, ORPHAN, Home, NewServer, names
from tests.support.waiting import eventually

StartProxy = Callable[[ControlPlane | S3Server], Awaitable[FaultProxy]]
# Backups of one namespace run one after the other.
SECRETS_OF_TARGETS = r"^/api/v1/namespaces/target-[0-9a-f]+/secrets$"
WAITS = "Restore waits for another that may work on the same namespaces"


async def in_phase(home: Home, plural: str, phases: dict[str, str]) -> None:
    """Wait until objects have these phases; an empty one is that of an unprocessed object."""

    async def check() -> bool:
        found = {name: (await home.status(plural, name)).get("phase", "") for name in phases}
        return found == phases

    await eventually(check)


@pytest.fixture
async def targets(client: KubeClient) -> AsyncIterator[tuple[str, str]]:
    """Two namespaces to back up or to restore into."""
    made = (f"target-{secrets.token_hex(4)}", f"target-{secrets.token_hex(4)}")
    for name in made:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await client.create(NAMESPACES, body)
    yield made
    for name in made:
        await client.delete(NAMESPACES, name)


class Restores:
    """A backup, a server, and restores into namespaces in one of which nothing moves for now."""

    def __init__(self, home: Home, server: ServerProcess, held: Rule) -> None:
        self.home = home
        self.server = server
        self.held = held

    async def create(self, name: str, *targets: str) -> None:
        """Ask for a restore from the home's namespace into the first target; any namespace without one."""
        spec: dict[str, object] = {"backupName": "b1"}
        if targets:
            mapping = {self.home.namespace: targets[0]}
            spec |= {"includedNamespaces": [self.home.namespace], "namespaceMapping": mapping}
        body = {"apiVersion": "velero.io/v1", "kind": "Restore", "metadata": {"name": name}, "spec": spec}
        await self.home.client.create(velero("restores"), body, self.home.namespace)

    async def phases(self, **phases: str) -> None:
        await in_phase(self.home, "restores", phases)

    async def waiting(self, name: str, blocker: str) -> None:
        """Wait until the log says that one waits for the other."""
        space = self.home.namespace

        async def check() -> bool:
            lines = [line for line in self.server.log.splitlines() if WAITS in line]
            return any(f"restore={space}/{name} waits_for={space}/{blocker}" in line for line in lines)

        await eventually(check)


NewRestores = Callable[..., Awaitable[Restores]]


@pytest.fixture
def restores(
    home: Home,
    targets: tuple[str, str],
    new_server: NewServer,
    control_plane: ControlPlane,
    fault_proxy: StartProxy,
) -> NewRestores:
    async def start(*arguments: str) -> Restores:
        proxy = await fault_proxy(control_plane)
        held = proxy.rules.add(Stall(), method="POST", path=f"/namespaces/{targets[0]}/configmaps$")
        server = await new_server(ALONE, *arguments, via=proxy)
        await server.ready()
        await home.create_backup("b1")
        assert (await home.ended("backups", "b1"))["phase"] == "Completed"
        return Restores(home, server, held)

    return start


async def test_two_backups_in_flight_are_ended_before_a_stop(
    home: Home,
    targets: tuple[str, str],
    new_server: NewServer,
    control_plane: ControlPlane,
    fault_proxy: StartProxy,
) -> None:
    proxy = await fault_proxy(control_plane)
    held = proxy.rules.add(Stall(), method="GET", path=SECRETS_OF_TARGETS)
    server = await new_server(ALONE, "--backup-workers", "2", via=proxy)
    await server.ready()
    for name, namespace in zip(("b1", "b2"), targets, strict=True):
        await home.create_backup(name, namespace)
    await in_phase(home, "backups", {"b1": "InProgress", "b2": "InProgress"})
    await home.create_backup("b3")
    await in_phase(home, "backups", {"b3": "Queued"})
    assert (await home.status("backups", "b3"))["queuePosition"] == 1
    waiting = await home.client.get(velero("backups"), "b3", home.namespace)
    assert waiting["metadata"]["annotations"] == {
        "pinnace.io/waits-for": "a free worker of the server, which runs backup b1, b2"
    }

    # Objects that this process works on are not deleted, whichever worker has them.
    for name in ("b1", "b2"):
        body = {
            "apiVersion": "velero.io/v1",
            "kind": "DeleteBackupRequest",
            "metadata": {"name": name},
            "spec": {"backupName": name},
        }
        await home.client.create(velero("deletebackuprequests"), body, home.namespace)
    await in_phase(home, "deletebackuprequests", {"b1": "Processed", "b2": "Processed"})
    for name in ("b1", "b2"):
        errors = (await home.status("deletebackuprequests", name))["errors"]
        assert errors == ["backup is still in progress"]

    server.send(signal.SIGTERM)
    await server.said("phase=Stopping")
    held.release()

    assert await server.end() == 0
    await in_phase(home, "backups", {"b1": "Completed", "b2": "Completed", "b3": "Queued"})
    for name in ("b1", "b2"):
        assert len(names(home.location / "backups" / name)) == 10
    assert names(server.scratch) == []

    # The next server begins with it, and with nothing left of its waiting.
    await (await new_server(ALONE)).ready()
    await in_phase(home, "backups", {"b3": "Completed"})
    done = await home.client.get(velero("backups"), "b3", home.namespace)
    assert "queuePosition" not in done["status"]
    assert "pinnace.io/waits-for" not in done["metadata"]["annotations"]


async def test_two_backups_that_do_not_end_in_time_are_failed_by_the_server_that_stops(
    home: Home,
    targets: tuple[str, str],
    new_server: NewServer,
    control_plane: ControlPlane,
    fault_proxy: StartProxy,
) -> None:
    proxy = await fault_proxy(control_plane)
    proxy.rules.add(Stall(), method="GET", path=SECRETS_OF_TARGETS)
    server = await new_server(ALONE, "--backup-workers", "2", via=proxy, grace_seconds=3.0)
    await server.ready()
    for name, namespace in zip(("b1", "b2"), targets, strict=True):
        await home.create_backup(name, namespace)
    await in_phase(home, "backups", {"b1": "InProgress", "b2": "InProgress"})

    assert await server.stop() == 1

    for name in ("b1", "b2"):
        status = await home.status("backups", name)
        assert (status["phase"], status["failureReason"]) == ("Failed", INTERRUPTED.format(kind="backup"))
    assert names(home.location) == []
    assert names(server.scratch) == []
    assert server.errors.startswith("An error occurred: ")


async def test_two_backups_killed_half_way_are_both_failed_by_the_next_server(
    home: Home,
    targets: tuple[str, str],
    new_server: NewServer,
    control_plane: ControlPlane,
    fault_proxy: StartProxy,
) -> None:
    proxy = await fault_proxy(control_plane)
    proxy.rules.add(Stall(), method="GET", path=SECRETS_OF_TARGETS)
    first = await new_server(ALONE, "--backup-workers", "2", via=proxy)
    await first.ready()
    for name, namespace in zip(("b1", "b2"), targets, strict=True):
        await home.create_backup(name, namespace)
    await in_phase(home, "backups", {"b1": "InProgress", "b2": "InProgress"})
    await first.kill()

    second = await new_server(ALONE, "--backup-workers", "2")
    await second.ready()

    for name in ("b1", "b2"):
        assert (await home.status("backups", name))["failureReason"] == ORPHAN.format("backup")
    assert names(home.location) == []


async def test_backups_at_once_are_counted_and_logged_apart(home: Home, new_server: NewServer) -> None:
    server = await new_server(ALONE, "--backup-workers", "3")
    await server.ready()
    for number in range(6):
        await home.create_backup(f"b{number}")
    await in_phase(home, "backups", {f"b{number}": "Completed" for number in range(6)})

    async def counted() -> bool:
        metrics = (await server.page("metrics"))[1]
        return 'velero_backup_success_total{schedule=""} 6.0' in metrics

    await eventually(counted)
    for number in range(6):
        lines = [line for line in server.log.splitlines() if f"/b{number} " in line and " backup=" in line]
        assert lines
        assert all(f"backup={home.namespace}/b{number}" in line for line in lines)


async def test_restores_into_one_namespace_run_one_after_the_other(
    restores: NewRestores, targets: tuple[str, str], client: KubeClient
) -> None:
    site = await restores("--restore-workers", "2")
    await site.create("r1", targets[0])
    await site.held.struck()
    await site.create("r2", targets[0])
    await site.waiting("r2", "r1")
    await site.create("anywhere")
    await site.waiting("anywhere", "r1")

    # Neither holds a worker, so `r3` runs below; while `anywhere` waits, it would wait for that.
    await site.phases(r1="InProgress", r2="", anywhere="")

    async def says_why() -> bool:
        restore = await client.get(velero("restores"), "r2", site.home.namespace)
        reason = (restore["metadata"].get("annotations") or {}).get("pinnace.io/waits-for")
        return bool(reason == "restore r1, which may work on the same namespaces")

    await eventually(says_why)
    await client.delete(velero("restores"), "anywhere", site.home.namespace)
    await site.create("r3", targets[1])
    await site.phases(r1="InProgress", r2="", r3="Completed")
    site.held.release()

    await site.phases(r1="Completed", r2="Completed")
    first, second = [await site.home.status("restores", name) for name in ("r1", "r2")]
    assert first["completionTimestamp"] <= second["startTimestamp"]
    assert (await client.get(CONFIGMAPS, "map-2", targets[0]))["data"] == {"number": "2"}


async def test_a_younger_restore_overtakes_an_older_one_that_cannot_start_yet(
    restores: NewRestores, targets: tuple[str, str]
) -> None:
    """One tenant's long restore does not hold the others by way of one that waits for it (ADR 079)."""
    site = await restores("--restore-workers", "3")
    await site.create("r1", targets[0])
    await site.held.struck()
    await site.create("anywhere")
    await site.waiting("anywhere", "r1")
    await site.create("r2", targets[1])
    await site.phases(r1="InProgress", anywhere="", r2="Completed")
    site.held.release()

    await site.phases(r1="Completed", anywhere="Completed")
    first, elder = [await site.home.status("restores", name) for name in ("r1", "anywhere")]
    assert first["completionTimestamp"] <= elder["startTimestamp"]


async def test_a_restore_that_waits_when_the_server_dies_is_run_by_the_next(
    restores: NewRestores, targets: tuple[str, str], new_server: NewServer
) -> None:
    site = await restores("--restore-workers", "2")
    await site.create("r1", targets[0])
    await site.held.struck()
    await site.create("r2", targets[0])
    await site.waiting("r2", "r1")
    await site.server.kill()

    await (await new_server(ALONE)).ready()

    await site.phases(r1="Failed", r2="Completed")
    assert (await site.home.status("restores", "r1"))["failureReason"] == ORPHAN.format("restore")


async def test_restores_into_one_namespace_run_at_once_if_the_flag_allows_it(
    restores: NewRestores, targets: tuple[str, str]
) -> None:
    site = await restores("--restore-workers", "2", "--allow-parallel-restores-into-namespace")
    for name in ("r1", "r2"):
        await site.create(name, targets[0])
    await site.phases(r1="InProgress", r2="InProgress")
    site.held.release()

    await site.phases(r1="Completed", r2="Completed")
    assert WAITS not in site.server.log
