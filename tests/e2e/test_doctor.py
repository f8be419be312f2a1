"""`doctor` against a real API server, with a server and without one."""

import json
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, SCHEDULES
from tests.e2e.without_server.command import Pinnace
from tests.support.servers.homes import Home, NewServer
from tests.support.servers.self_service import user_kubeconfig
from tests.support.waiting import eventually


async def test_the_doctor_of_a_server_finds_the_schedule_that_never_runs(
    home: Home, new_server: NewServer, command: Pinnace
) -> None:
    await (await new_server()).ready()
    await home.client.create(
        SCHEDULES,
        {
            "apiVersion": "velero.io/v1",
            "kind": "Schedule",
            "metadata": {"name": "thirty-first"},
            "spec": {"schedule": "0 0 31 2 *", "template": {}},
        },
        home.namespace,
    )

    examined = await command("doctor", "-o", "json")

    report = json.loads(examined.out)
    problems = [finding["message"] for finding in report["findings"] if finding["level"] == "PROBLEM"]
    never = "invalid schedule: it never fires: 0 0 31 2 *"
    assert problems == [f"schedule thirty-first will never run: {never}"]
    assert (examined.code, examined.err, report["healthy"]) == (1, "", False)
    well = {finding["check"] for finding in report["findings"] if finding["level"] == "OK"}
    assert {"kubeconfig", "credentials", "clocks", "definitions", "server"} <= well


async def test_the_doctor_of_a_user_without_rights_says_that_nothing_was_checked(
    control_plane: ControlPlane, namespace: str, command: Pinnace
) -> None:
    command.kubeconfig = user_kubeconfig(control_plane, command.folder, "eve")

    examined = await command("doctor", "-n", namespace)
    as_data = await command("doctor", "-n", namespace, "-o", "json")

    *_, finding, remedy, _, counts = examined.lines
    assert examined.code == as_data.code == 1
    text = f"nothing was checked about the server in namespace {namespace}: deployments.apps"
    assert " ".join(finding.split()).startswith(f"PROBLEM access {text}")
    assert "create and get serverstatusrequests.velero.io" in remedy
    assert counts == "1 problem, 0 warnings, 3 checks passed, 10 skipped (10 for lack of rights)."
    report = json.loads(as_data.out)
    assert report["healthy"] is False
    assert report["findings"][-1]["message"].startswith(text)


async def test_the_doctor_without_a_server_is_content_with_a_new_folder(
    client: KubeClient, control_plane: ControlPlane, namespace: str, command: Pinnace
) -> None:
    folder = command.folder / "backups"
    folder.mkdir()

    examined = await command("--location", str(folder), "doctor", "--include-namespaces", namespace)

    assert examined.code == 0, examined.out
    assert "may do what a restore of" in examined.out
    assert "can be listed, written, read and deleted" in examined.out
    assert list(folder.rglob("*.json")) == []


@pytest.mark.found("op-71", "op-74", "op-76")
async def test_the_doctor_tells_what_is_true_now_and_not_what_the_server_found_before(
    home: Home, new_server: NewServer, command: Pinnace
) -> None:
    server = await new_server("--store-validation-frequency", "1h")
    await server.ready()

    async def available() -> bool:
        return (await home.status("backupstoragelocations", "default")).get("phase") == "Available"

    await eventually(available)
    spec = {"schedule": "0 0 1 1 *", "template": {}}
    metadata = {"name": "yearly"}
    schedule = {"apiVersion": "velero.io/v1", "kind": "Schedule", "metadata": metadata, "spec": spec}
    await home.client.create(SCHEDULES, schedule, home.namespace)
    home.location.rename(home.folder / "unmounted")
    await home.create_backup("unlucky")
    await home.ended("backups", "unlucky")

    with_server = json.loads((await command("doctor", "-o", "json")).out)
    await server.stop()
    without = json.loads((await command("doctor", "-o", "json")).out)

    assert problems_of(with_server) == ["location-unavailable", "backups-failed"]
    assert {"server-missing", "schedules-without-server", "backups-failed"} <= set(problems_of(without))
    (location,) = await home.client.list_all(BACKUP_STORAGE_LOCATIONS, home.namespace)
    assert "annotations" not in location["metadata"]


def problems_of(report: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in report["findings"] if finding["level"] == "PROBLEM"]
