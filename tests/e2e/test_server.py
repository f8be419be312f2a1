"""The server as a process: starts, stops, kills, and the work of the next server."""

import base64
import json
import re
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import Stall, server_fault
from hack.cluster.processes import free_port
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import LEASES, NAMESPACES, velero
from tests.e2e.server_process import TEXT_LINE, ServerProcess
from tests.e2e.without_server.command import Pinnace
from tests.support.servers.homes import ALONE, ORPHAN, PASSWORD, Home, NewServer, names
from tests.support.waiting import eventually
from tests.unit.kube.scripted import answer_json, scripted_server

StartProxy = Callable[[ControlPlane | S3Server], Awaitable[FaultProxy]]


@pytest.fixture
async def target(client: KubeClient) -> AsyncIterator[str]:
    """A namespace to restore into."""
    name = f"target-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, name)


async def stored_backups(home: Home, kubeconfig: Path) -> list[str]:
    """What the location lists, as a command without a server sees it."""
    folder = home.folder / "without-server"
    folder.mkdir(exist_ok=True)
    pinnace = Pinnace(folder, kubeconfig=kubeconfig, location=str(home.location))
    outcome = await pinnace("backup", "get", "-o", "name")
    assert outcome.code == 0
    return outcome.lines


async def test_it_serves_until_it_is_told_to_stop(home: Home, new_server: NewServer) -> None:
    server = await new_server()
    await server.ready()

    assert await server.page("healthz") == (200, "Running\n")
    status, metrics = await server.page("metrics")
    assert status == 200
    assert 'velero_backup_attempt_total{schedule=""} 0.0' in metrics
    assert 'velero_restore_failed_total{schedule=""} 0.0' in metrics
    await home.create_backup("b1")
    assert (await home.ended("backups", "b1"))["phase"] == "Completed"
    assert 'velero_backup_success_total{schedule=""} 1.0' in (await server.page("metrics"))[1]

    assert await server.stop() == 0
    lines = server.log.splitlines()
    assert [line for line in lines if not TEXT_LINE.fullmatch(line)] == []
    assert 'msg="Received signal SIGTERM, shutting down"' in server.log
    assert 'msg="Server stopped"' in lines[-1]
    assert re.search(r'msg="Backup ended" backup=\S+ controller=backup key=\S+ .*phase=Completed', server.log)
    assert server.errors == ""
    assert names(server.scratch) == []
    for secret in (PASSWORD, base64.b64encode(PASSWORD.encode()).decode()):
        assert secret not in server.log


async def test_the_log_can_be_json_lines(home: Home, new_server: NewServer) -> None:
    server = await new_server("--log-format", "json", "--log-level", "debug", ALONE)
    await server.ready()
    await home.create_backup("b1")
    await home.ended("backups", "b1")
    server.send(signal.SIGINT)

    assert await server.end() == 0
    records = [json.loads(line) for line in server.log.splitlines()]
    assert all({"time", "level", "msg", "logSource"} <= record.keys() for record in records)
    assert all(list(record) == sorted(record) for record in records)
    own = [record for record in records if record.get("backup") == f"{home.namespace}/b1"]
    assert any("Including namespaces" in record["msg"] for record in own)


@pytest.mark.parametrize("case", ["namespace", "API server", "port", "kubeconfig"])
async def test_a_failed_start_is_one_clear_error(
    home: Home, control_plane: ControlPlane, tmp_path: Path, new_server: NewServer, case: str
) -> None:
    kubeconfig, arguments, text = control_plane.kubeconfig, ["-n", home.namespace, ALONE], ""
    if case == "namespace":
        arguments, text = (
            ["-n", "nowhere"],
            'namespace "nowhere" not found: create it or install the server',
        )
    elif case == "API server":
        url = f"https://127.0.0.1:{free_port()}"
        kubeconfig, text = control_plane.write_kubeconfig(tmp_path / "unreachable", server=url), url
    elif case == "port":
        other = await new_server(ALONE)
        await other.ready()
        arguments += ["--metrics-address", str(other.url).removeprefix("http://")]
        text = "Address already in use; choose another address with --metrics-address"
    else:
        kubeconfig, text = tmp_path / "missing", "error finding Kubernetes API server config"
    server = ServerProcess(tmp_path, kubeconfig, *arguments)
    await server.start()

    assert await server.end() == 1
    assert len(server.errors.splitlines()) == 1
    assert server.errors.startswith("An error occurred: ")
    assert text in server.errors


@pytest.mark.spec("SRV-007")
async def test_missing_definitions_are_reported(tmp_path: Path) -> None:
    async with scripted_server() as cluster:
        cluster.on(
            "GET /api/v1/namespaces/velero",
            answer_json({"kind": "Namespace", "metadata": {"name": "velero"}}),
        )
        cluster.on("GET /version", answer_json({"gitVersion": "v1.34.0", "major": "1", "minor": "34"}))
        core = {"kind": "APIResourceList", "groupVersion": "v1", "resources": []}
        cluster.on("GET /api", answer_json({"kind": "APIVersions", "versions": ["v1"]}))
        cluster.on("GET /api/v1", answer_json(core))
        cluster.on("GET /apis", answer_json({"kind": "APIGroupList", "groups": []}))
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(cluster.url)))
        server = ServerProcess(tmp_path, kubeconfig)
        await server.start()

        assert await server.end() == 1

    assert server.errors == (
        "An error occurred: Velero API group velero.io/v1 not found. "
        "Please apply the custom resource definitions: `pinnace install --crds-only --apply`\n"
    )


def _kubeconfig(url: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    }


async def test_a_stop_while_it_starts_ends_it_at_once(tmp_path: Path) -> None:
    async with scripted_server() as cluster:
        cluster.on("GET /api/v1/namespaces/velero", cluster.stall())
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(_kubeconfig(cluster.url)))
        server = ServerProcess(tmp_path, kubeconfig)
        await server.start()
        await cluster.waiting.wait()

        assert await server.stop() == 0

    assert names(server.scratch) == []


async def test_a_backup_in_flight_is_ended_before_a_stop(
    home: Home, new_server: NewServer, control_plane: ControlPlane, fault_proxy: StartProxy
) -> None:
    proxy = await fault_proxy(control_plane)
    held = proxy.rules.add(Stall(), method="GET", path=f"^/api/v1/namespaces/{home.namespace}/configmaps$")
    server = await new_server(ALONE, via=proxy)
    await server.ready()
    await home.create_backup("b1")
    await held.struck()
    await home.create_backup("b2")
    server.send(signal.SIGTERM)
    await server.said("phase=Stopping")
    held.release()

    assert await server.end() == 0
    assert (await home.status("backups", "b1"))["phase"] == "Completed"
    assert await home.status("backups", "b2") == {}


@pytest.mark.found("L2", "L12")
async def test_a_backup_killed_half_way_is_failed_by_the_next_server(
    home: Home, new_server: NewServer, control_plane: ControlPlane, fault_proxy: StartProxy
) -> None:
    proxy = await fault_proxy(control_plane)
    held = proxy.rules.add(Stall(), method="GET", path=f"^/api/v1/namespaces/{home.namespace}/configmaps$")
    first = await new_server(ALONE, via=proxy)
    await first.ready()
    await home.create_backup("b1")
    await held.struck()
    assert (await home.status("backups", "b1"))["phase"] == "InProgress"
    await first.kill()
    held.release()
    assert len(names(first.scratch)) == 1

    second = await new_server(ALONE)
    await second.ready()

    status = await home.status("backups", "b1")
    assert (status["phase"], status["failureReason"]) == ("Failed", ORPHAN.format("backup"))
    assert status["startTimestamp"] <= status["completionTimestamp"]
    assert await stored_backups(home, control_plane.kubeconfig) == []
    assert "Backup was left InProgress by a former server" in second.log
    metrics = (await second.page("metrics"))[1]
    assert 'velero_backup_failure_total{schedule=""} 1.0' in metrics
    assert 'velero_backup_last_status{schedule=""} 0.0' in metrics
    assert len(names(second.scratch)) == 1  # its own: what the dead one left is gone
    await home.create_backup("b2")
    assert (await home.ended("backups", "b2"))["phase"] == "Completed"
    assert await stored_backups(home, control_plane.kubeconfig) == ["backup.velero.io/b2"]


async def test_a_backup_killed_in_its_upload_leaves_nothing_that_counts(
    home: Home, new_server: NewServer, control_plane: ControlPlane, bucket: Bucket, fault_proxy: StartProxy
) -> None:
    proxy = await fault_proxy(bucket.server)
    held = proxy.rules.add(Stall(), method="PUT|POST", path=r"/b1\.tar\.gz$")
    await home.move_to(bucket, server_url=proxy.url)
    first = await new_server(ALONE)
    await first.ready()
    await home.create_backup("b1")
    await held.struck()
    await first.kill()
    proxy.rules.remove(held)

    second = await new_server(ALONE)
    await second.ready()

    assert (await home.status("backups", "b1"))["failureReason"] == ORPHAN.format("backup")
    files = names(bucket.server.directory / "buckets" / bucket.name / "backups/b1")
    assert "velero-backup.json" not in files
    await home.create_backup("b2")
    assert (await home.ended("backups", "b2"))["phase"] == "Completed"
    for server in (first, second):
        assert bucket.server.credentials.secret_access_key not in server.log


async def test_a_restore_killed_half_way_is_failed_by_the_next_server(
    home: Home, target: str, new_server: NewServer, control_plane: ControlPlane, fault_proxy: StartProxy
) -> None:
    proxy = await fault_proxy(control_plane)
    held = proxy.rules.add(Stall(), method="POST", path=f"/namespaces/{target}/configmaps$")
    first = await new_server(ALONE, via=proxy)
    await first.ready()
    await home.create_backup("b1")
    await home.ended("backups", "b1")
    await home.create_restore("r1", "b1", target)
    await held.struck()
    await first.kill()
    held.release()

    second = await new_server(ALONE)
    await second.ready()

    status = await home.status("restores", "r1")
    assert (status["phase"], status["failureReason"]) == ("Failed", ORPHAN.format("restore"))
    assert "completionTimestamp" in status
    assert (await home.status("backups", "b1"))["phase"] == "Completed"
    await home.create_restore("r2", "b1", target)
    assert (await home.ended("restores", "r2"))["phase"] == "Completed"


async def test_a_kill_between_upload_and_last_patch_loses_nothing(
    home: Home, new_server: NewServer, control_plane: ControlPlane, fault_proxy: StartProxy
) -> None:
    proxy = await fault_proxy(control_plane)
    proxy.rules.add(server_fault(503), method="PATCH", path="/backups/b1$", skip=1)
    first = await new_server(ALONE, via=proxy)
    await first.ready()
    await home.create_backup("b1")
    await first.said("Terminal state not stored yet, will be tried again")
    assert (await home.status("backups", "b1"))["phase"] == "InProgress"
    await first.kill()

    second = await new_server(ALONE)
    await second.ready()

    status = await home.status("backups", "b1")
    stored = json.loads((home.location / "backups/b1/velero-backup.json").read_bytes())["status"]
    assert status == stored
    assert status["phase"] == "Completed"
    assert "failureReason" not in status


async def test_a_claim_that_is_stored_after_its_server_died_is_settled(
    home: Home, new_server: NewServer, client: KubeClient
) -> None:
    """The request was on its way for so long that the next server had looked for orphans already."""
    server = await new_server()
    await server.ready()
    for plural, kind in (("backups", "Backup"), ("restores", "Restore")):
        body = {"apiVersion": "velero.io/v1", "kind": kind, "metadata": {"name": "late"}}
        spec = {"storageLocation": "default"} if kind == "Backup" else {"backupName": "b1"}
        status = {"phase": "InProgress", "startTimestamp": "2021-08-11T21:43:26Z"}
        await client.create(velero(plural), {**body, "spec": spec, "status": status}, home.namespace)

        found = await home.ended(plural, "late")

        assert found["phase"] == "Failed"
        reason = f"the {kind.lower()} was InProgress, but no server worked on it any more"
        assert found["failureReason"] == reason
    # It continues with new work.
    await home.create_backup("b1")
    assert (await home.ended("backups", "b1"))["phase"] == "Completed"
    assert await server.stop() == 0


async def test_one_server_leads_and_another_takes_over(
    home: Home, new_server: NewServer, client: KubeClient
) -> None:
    async def holder() -> str:
        lease = await client.get(LEASES, "pinnace-server", home.namespace)
        return str(lease["spec"].get("holderIdentity") or "")

    first = await new_server("--leader-elect-lease-duration=15s")
    await first.ready()
    leader = await holder()
    second = await new_server("--leader-elect-lease-duration=15s")
    await second.ready("Standby")
    third = await new_server("--leader-elect-lease-duration=15s")
    await third.ready("Standby")
    shown = [(await server.page("metrics"))[1] for server in (first, second, third)]
    assert ["pinnace_server_leads 1.0" in page for page in shown] == [True, False, False]
    await home.create_backup("b1")
    assert (await home.ended("backups", "b1"))["phase"] == "Completed"
    assert "b1" not in second.log + third.log

    # A server that is told to stop gives the lease back, so that another takes it at its next try.
    assert await first.stop() == 0
    assert await holder() != leader
    assert (await first.page("readyz"))[0] == 0

    async def taken_over() -> bool:
        return await holder() not in ("", leader)

    await eventually(taken_over)
    await home.create_backup("b2")
    assert (await home.ended("backups", "b2"))["phase"] == "Completed"
    leading, waiting = (second, third) if "b2" in second.log else (third, second)
    assert "b2" not in waiting.log

    # Dead, it keeps the lease until that runs out.
    await leading.kill()
    await home.create_backup("b3")
    assert (await home.ended("backups", "b3"))["phase"] == "Completed"
    assert await waiting.page("readyz") == (200, "Running\n")
