"""A cluster that a Velero of 1.18 worked in, under our server and after our install, on a real API server."""

from pathlib import Path
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, velero
from tests.e2e.without_server.command import Pinnace
from tests.support.servers.sites import Site
from tests.support.waiting import eventually

SOON = "* * * * *"


@pytest.mark.usefixtures("server")
async def test_status_is_written_where_the_definitions_have_no_status_subresource(site: Site) -> None:
    await site.add_folder(validationFrequency="1s", backupSyncPeriod="1s")
    location = await site.reached("backupstoragelocations", "default", "Available")
    validated = location["status"]["lastValidationTime"]

    async def goes_on() -> bool:
        status = (await site.get("backupstoragelocations", "default"))["status"]
        return status["lastValidationTime"] > validated and "lastSyncedTime" in status

    await eventually(goes_on)
    await site.create("backups", "b1", spec=site.maps_of())
    assert (await site.reached("backups", "b1"))["status"]["phase"] == "Completed"
    await site.create("downloadrequests", "d1", spec={"target": {"kind": "BackupLog", "name": "b1"}})
    assert (await site.reached("downloadrequests", "d1", "Processed"))["status"]["downloadURL"]
    await site.create("serverstatusrequests", "s1")
    assert (await site.reached("serverstatusrequests", "s1", "Processed"))["status"]["serverVersion"]


@pytest.mark.usefixtures("server")
async def test_fields_that_are_not_honoured_are_refused_or_warned_of(site: Site) -> None:
    await site.add_folder(default=True)
    await site.add_maps(1)
    await site.create("backups", "moved", spec=site.maps_of(snapshotMoveData=True))
    await site.create("backups", "plain", spec=site.maps_of(onlyOfVelero="x", snapshotMoveData=False))

    moved = await site.reached("backups", "moved")
    assert moved["status"]["phase"] == "FailedValidation"
    assert moved["status"]["validationErrors"][0].startswith("spec.snapshotMoveData needs CSI snapshots")
    plain = await site.reached("backups", "plain")
    assert (plain["status"]["phase"], plain["status"]["warnings"]) == ("Completed", 1)

    await site.create("restores", "r1", spec={"backupName": "plain", "ofTheFuture": True})
    restored = await site.reached("restores", "r1")
    assert (restored["status"]["phase"], restored["status"]["warnings"]) == ("Completed", 1)
    await site.create("restores", "r2", spec={"backupName": "plain", "existingResourcePolicy": "foo"})
    refused = await site.reached("restores", "r2")
    assert refused["status"]["phase"] == "FailedValidation"

    template = site.maps_of(volumeGroupSnapshotLabelKey="group")
    await site.create("schedules", "s1", spec={"schedule": SOON, "template": template})
    schedule = await site.reached("schedules", "s1")
    assert schedule["status"]["validationErrors"][0].startswith(
        "spec.template.volumeGroupSnapshotLabelKey is not supported"
    )


async def test_install_keeps_the_fields_that_objects_of_velero_have(
    site: Site, velero_plane: ControlPlane, tmp_path: Path
) -> None:
    template = site.maps_of(itemOperationTimeout="2h0m0s", onlyOfVelero="x")
    schedule: dict[str, Any] = {"schedule": SOON, "paused": True, "template": template}
    await site.create("schedules", "s1", spec=schedule, status={"lastSkipped": "2026-01-01T00:00:00Z"})
    storage = {"bucket": "b", "caCertRef": {"name": "ca", "key": "crt"}}
    location = {"provider": "aws", "objectStorage": storage}
    await site.create("backupstoragelocations", "l1", spec=location, status={"onlyOfVelero": "x"})
    await site.create("backups", "b1", spec=template, status={"phase": "Queued", "onlyOfVelero": 2})
    (tmp_path / "command").mkdir()
    command = Pinnace(
        tmp_path / "command",
        kubeconfig=velero_plane.kubeconfig,
        location=None,
        environ={"VELERO_NAMESPACE": site.namespace},
    )

    outcome = await command("install", "--crds-only")

    assert outcome.code == 0, outcome
    assert outcome.told == ""
    assert "Widened by the fields of this version: 13 custom resource definitions\n" in outcome.out
    assert "Created: 1 custom resource definition\n" in outcome.out
    await site.client.get(CUSTOM_RESOURCE_DEFINITIONS, "resticrepositories.velero.io")
    assert "backups.velero.io: kept 2 fields of the installed definition" in outcome.out
    assert "spec.onlyOfVelero, status.onlyOfVelero" in outcome.out
    label = {"metadata": {"labels": {"written": "by-us"}}}
    for plural, name in (("schedules", "s1"), ("backupstoragelocations", "l1"), ("backups", "b1")):
        await site.client.patch(velero(plural), name, label, site.namespace)
    assert (await site.get("schedules", "s1"))["spec"] == schedule
    assert (await site.get("schedules", "s1"))["status"] == {"lastSkipped": "2026-01-01T00:00:00Z"}
    kept = await site.get("backupstoragelocations", "l1")
    assert (kept["spec"], kept["status"]) == (location, {"onlyOfVelero": "x"})
    queued = await site.get("backups", "b1")
    assert (queued["spec"], queued["status"]) == (template, {"phase": "Queued", "onlyOfVelero": 2})
    definition = await site.client.get(CUSTOM_RESOURCE_DEFINITIONS, "backupstoragelocations.velero.io")
    assert "subresources" not in definition["spec"]["versions"][0]
    assert definition["metadata"]["labels"] == {"component": "velero"}
    # Ours are there as well.
    restores = await site.client.get(CUSTOM_RESOURCE_DEFINITIONS, "backups.velero.io")
    spec = restores["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert "resourcePolicy" in spec["properties"]
