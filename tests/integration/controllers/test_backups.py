"""Backups as custom resources, from New to their terminal phase."""

import asyncio
import gzip
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import DropResponse, Stall
from hack.cluster.stores.s3 import Bucket
from pinnace.api.labels import GLOBAL_VOLUME_POLICIES, NAMESPACE_SELECTOR
from pinnace.api.values.durations import Duration
from pinnace.api.values.times import parse_time
from pinnace.backup.request import ServerDefaults
from pinnace.kube import resources
from pinnace.kube.resources import CONFIGMAPS, velero
from pinnace.kube.resources import NAMESPACES as NAMESPACE_KIND
from pinnace.server.app import Assembly
from pinnace.server.options import ServerOptions
from tests.support.cluster.connect import Connect
from tests.support.servers.sites import Serve, Site, StartProxy, counted, counters
from tests.support.waiting import eventually

PATCH = "PATCH"


def metadata(folder: Path, name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "backups" / name / "velero-backup.json").read_bytes())
    return loaded


@pytest.mark.spec(
    "CTL-008", "CTL-010", "CTL-012", "CTL-014", "API-008", "API-009", "BKP-001", "BKP-002", "BKP-011"
)
async def test_a_backup_without_any_wish_gets_everything_it_needs(site: Site, serve: Serve) -> None:
    await site.add_folder("loc-0")
    folder = await site.add_folder("loc-1", default=True)
    await site.add_maps()
    server = await serve()
    await site.create("backups", "b1", spec=site.maps_of())

    backup = await site.reached("backups", "b1")

    status = backup["status"]
    assert (status["phase"], status["version"], status["formatVersion"]) == ("Completed", 1, "1.1.0")
    started, completed = parse_time(status["startTimestamp"]), parse_time(status["completionTimestamp"])
    assert started <= completed
    assert backup["spec"]["ttl"] == "720h0m0s"
    assert parse_time(status["expiration"]) == started + timedelta(hours=720)
    assert backup["spec"]["storageLocation"] == "loc-1"
    assert backup["metadata"]["labels"] == {"velero.io/storage-location": "loc-1"}
    version = await site.client.version()
    notes = backup["metadata"]["annotations"]
    assert int(notes.pop("pinnace.io/size-bytes")) > 100
    kube_system = await site.client.get(resources.NAMESPACES, "kube-system")
    assert notes == {
        "pinnace.io/source-cluster-address": site.client.server,
        "pinnace.io/source-cluster-uid": kube_system["metadata"]["uid"],
        "velero.io/source-cluster-k8s-gitversion": version.git_version,
        "velero.io/source-cluster-k8s-major-version": version.major,
        "velero.io/source-cluster-k8s-minor-version": version.minor,
    }
    assert status["progress"]["totalItems"] == status["progress"]["itemsBackedUp"] >= 3
    stored = metadata(folder, "b1")
    assert stored["status"] == status
    assert stored["spec"] == {"hooks": {}, **backup["spec"]}
    assert counters(server) == {"backup_attempt": 1, "backup_success": 1}


@pytest.mark.spec("CTL-008", "CTL-010")
async def test_fields_that_are_set_are_kept(site: Site, serve: Serve) -> None:
    await site.add_folder(default=True)
    await site.add_folder("alt-loc")
    await serve()
    timeouts = {"csiSnapshotTimeout": "5m", "itemOperationTimeout": "90m"}
    spec = site.maps_of(storageLocation="alt-loc", ttl="1h", defaultVolumesToRestic=False, **timeouts)
    await site.create("backups", "b1", spec=spec, labels={"mine": "yes"})

    backup = await site.reached("backups", "b1")

    assert backup["spec"] == {**spec, "defaultVolumesToFsBackup": False}
    assert backup["metadata"]["labels"] == {"mine": "yes", "velero.io/storage-location": "alt-loc"}
    start = parse_time(backup["status"]["startTimestamp"])
    assert parse_time(backup["status"]["expiration"]) == start + timedelta(hours=1)


@pytest.mark.found("X3")
@pytest.mark.spec("CTL-011", "BKP-009")
@pytest.mark.parametrize("default", [True, False])
async def test_the_servers_defaults_fill_what_is_absent(site: Site, serve: Serve, default: bool) -> None:
    await site.add_folder()
    await serve(defaults=ServerDefaults(volumes_to_fs_backup=default, backup_ttl=Duration.minutes(10)))
    for name, wish in (("absent", {}), ("yes", {"defaultVolumesToRestic": True}),
                       ("no", {"defaultVolumesToRestic": False})):  # fmt: skip
        await site.create("backups", name, spec=site.maps_of(**wish))

    specs = {name: (await site.reached("backups", name))["spec"] for name in ("absent", "yes", "no")}

    assert {name: spec["defaultVolumesToFsBackup"] for name, spec in specs.items()} == {
        "absent": default,
        "yes": True,
        "no": False,
    }
    assert {spec["ttl"] for spec in specs.values()} == {"10m0s"}
    assert {spec["csiSnapshotTimeout"] for spec in specs.values()} == {"10m0s"}
    assert {spec["itemOperationTimeout"] for spec in specs.values()} == {"4h0m0s"}


LONG = "default" * 10


@pytest.mark.spec("CTL-009", "BKP-006")
async def test_a_long_name_of_a_location_fits_its_label(site: Site, serve: Serve) -> None:
    await site.add_folder(LONG)
    await serve()
    await site.create("backups", "b1", spec=site.maps_of(storageLocation=LONG))

    backup = await site.reached("backups", "b1")

    label = backup["metadata"]["labels"]["velero.io/storage-location"]
    assert label == "defaultdefaultdefaultdefaultdefaultdefaultdefaultdefaultd58343f"
    assert backup["status"]["phase"] == "Completed"


BOTH = "excludes list cannot contain an item in the includes list: foo"
RESOURCES = f"Invalid included/excluded resource lists: {BOTH}"
NAMESPACES = f"Invalid included/excluded namespace lists: {BOTH}"
WRONG_RESOURCES = {"includedResources": ["foo"], "excludedResources": ["foo"]}
WRONG_NAMESPACES = {"includedNamespaces": ["foo"], "excludedNamespaces": ["foo"]}


def missing(name: str) -> str:
    return (
        "an existing backup storage location wasn't specified at backup creation time and the default "
        f"'{name}' wasn't found. Please address this issue (see `velero backup-location -h` for options) "
        f'and create a new backup. Error: backupstoragelocations.velero.io "{name}" not found'
    )


READ_ONLY = "backup can't be created because backup storage location read-only is currently in read-only mode"
VSL = (
    "a VolumeSnapshotLocation CRD for the location nosuch with the name specified in the backup spec "
    "needs to be created before this snapshot can be executed. "
    'Error: volumesnapshotlocations.velero.io "nosuch" not found'
)


@pytest.mark.spec(
    "CTL-005", "CTL-006", "CTL-007", "API-006", "API-007", "API-033", "BKP-004", "BKP-005", "BKP-007"
)
async def test_what_is_wrong_with_a_backup_is_said_in_order(site: Site, serve: Serve) -> None:
    await site.add_folder()
    await site.add_folder("read-only", accessMode="ReadOnly")
    server = await serve()
    all_wrong = {
        **WRONG_RESOURCES,
        **WRONG_NAMESPACES,
        "storageLocation": "gone",
        "volumeSnapshotLocations": ["nosuch"],
    }
    cases: dict[str, tuple[dict[str, Any], list[str]]] = {
        "resources": (WRONG_RESOURCES, [RESOURCES]),
        "namespaces": (WRONG_NAMESPACES, [NAMESPACES]),
        "location": ({"storageLocation": "nonexistent"}, [missing("nonexistent")]),
        "read-only": (
            {"storageLocation": "read-only"},
            [READ_ONLY],
        ),
        "all": (all_wrong, [missing("gone"), VSL, RESOURCES, NAMESPACES]),
    }
    for name, (spec, _) in cases.items():
        await site.create("backups", name, spec=spec)

    found = {name: await site.reached("backups", name) for name in cases}

    assert {name: backup["status"]["phase"] for name, backup in found.items()} == dict.fromkeys(
        cases, "FailedValidation"
    )
    errors = {name: backup["status"]["validationErrors"] for name, backup in found.items()}
    assert errors == {name: texts for name, (_, texts) in cases.items()}
    worst = found["all"]
    assert worst["spec"]["volumeSnapshotLocations"] == ["nosuch"]
    assert worst["spec"]["ttl"] == "720h0m0s"
    assert "startTimestamp" not in worst["status"]
    assert "expiration" in worst["status"]
    assert worst["metadata"]["labels"] == {"velero.io/storage-location": "gone"}
    assert len(worst["metadata"]["annotations"]) == 5
    await counted(server, backup_validation_failure=len(cases))
    assert "backup_attempt" not in counters(server)


@pytest.mark.spec("BKP-003")
async def test_a_backup_without_any_location_is_refused(site: Site, serve: Serve) -> None:
    await serve()
    await site.create("backups", "b1")

    status = (await site.reached("backups", "b1"))["status"]

    assert re.findall("the server default '(.*?)' doesn't exist", status["validationErrors"][0]) == [
        "default"
    ]


@pytest.mark.spec("CTL-016")
async def test_snapshot_locations_are_resolved(site: Site, serve: Serve) -> None:
    await site.add_folder()
    for name, provider in (("aws-1", "aws"), ("aws-2", "aws"), ("gcp-1", "gcp")):
        await site.create("volumesnapshotlocations", name, spec={"provider": provider})
    await serve(defaults=ServerDefaults(snapshot_locations={"aws": "aws-2"}))
    cases: dict[str, tuple[dict[str, Any], list[str] | None, str]] = {
        "default": ({}, ["aws-2", "gcp-1"], ""),
        "twice": ({"volumeSnapshotLocations": ["aws-1", "aws-1"]}, ["aws-1", "gcp-1"], ""),
        "one": ({"volumeSnapshotLocations": ["aws-1"]}, ["aws-1", "gcp-1"], ""),
        "two": (
            {"volumeSnapshotLocations": ["aws-1", "aws-2"]},
            None,
            "provider aws: aws-2; unexpected name was aws-1",
        ),
        "unknown": ({"volumeSnapshotLocations": ["nosuch"]}, None, "location nosuch with the name specified"),
        "off": ({"volumeSnapshotLocations": ["nosuch"], "snapshotVolumes": False}, [], ""),
    }
    for name, (spec, _, _) in cases.items():
        await site.create("backups", name, spec=site.maps_of(**spec))

    for name, (_, locations, error) in cases.items():
        backup = await site.reached("backups", name)
        if locations is None:
            assert error in backup["status"]["validationErrors"][0]
        else:
            assert backup["spec"].get("volumeSnapshotLocations", []) == locations
            assert backup["status"]["phase"] == "Completed"


@pytest.mark.spec("CTL-016")
async def test_two_snapshot_locations_without_a_default_are_refused(site: Site, serve: Serve) -> None:
    await site.add_folder()
    for name in ("aws-1", "aws-2"):
        await site.create("volumesnapshotlocations", name, spec={"provider": "aws"})
    await serve()
    await site.create("backups", "b1", spec=site.maps_of())
    await site.create("backups", "b2", spec=site.maps_of(snapshotVolumes=False))

    failed, ended = await site.reached("backups", "b1"), await site.reached("backups", "b2")

    assert failed["status"]["validationErrors"] == [
        "provider aws has more than one possible volume snapshot location, "
        "and none were specified explicitly or as a default: "
        "choose aws-1 or aws-2 with --volume-snapshot-locations"
    ]
    assert ended["status"]["phase"] == "Completed"


@pytest.mark.spec("CTL-063")
async def test_a_backup_of_nothing_is_completed(site: Site, serve: Serve) -> None:
    folder = await site.add_folder()
    await serve()
    await site.create("backups", "b1", spec=site.maps_of(labelSelector={"matchLabels": {"no": "body"}}))

    assert (await site.reached("backups", "b1"))["status"]["phase"] == "Completed"

    directory = folder / "backups/b1"
    contents = {
        path.name.removeprefix("b1-").removesuffix(".json.gz"): gzip.decompress(path.read_bytes()).decode()
        for path in directory.glob("*.json.gz")
    }
    head, *members, end = map(json.loads, contents.pop("pinnace-index").splitlines())
    assert (head, end["items"]) == ({"pinnaceIndex": 2}, 0)
    assert all("member" in member for member in members)
    assert contents == {
        "resource-list": "{}\n",
        "volumesnapshots": "null\n",
        "podvolumebackups": "null\n",
        "csi-volumesnapshots": "null\n",
        "csi-volumesnapshotcontents": "null\n",
    }


@pytest.mark.spec("CTL-013", "BKP-012")
async def test_a_backup_whose_name_is_taken_in_the_location_fails(site: Site, serve: Serve) -> None:
    folder = await site.add_folder()
    server = await serve()
    await site.create("backups", "b1", spec=site.maps_of())
    await site.reached("backups", "b1", "Completed")
    before = metadata(folder, "b1")
    await site.client.delete(velero("backups"), "b1", site.namespace)
    await site.create("backups", "b1", spec=site.maps_of())

    status = (await site.reached("backups", "b1"))["status"]

    assert (status["phase"], status["failureReason"]) == ("Failed", "backup already exists in object storage")
    assert "completionTimestamp" in status
    assert metadata(folder, "b1") == before
    assert counters(server) == {"backup_attempt": 2, "backup_success": 1, "backup_failure": 1}


@pytest.mark.spec("CTL-013", "BKP-012")
async def test_a_location_that_cannot_be_read_fails_the_backup(site: Site, serve: Serve) -> None:
    folder = await site.add_folder()
    (folder / "backups").symlink_to(site.folder)
    await serve()
    await site.create("backups", "b1", spec=site.maps_of())

    status = (await site.reached("backups", "b1"))["status"]

    assert status["phase"] == "Failed"
    assert status["failureReason"].startswith("error checking if backup already exists in object storage: ")
    assert "completionTimestamp" in status


async def test_a_backup_to_a_location_that_cannot_be_opened_is_refused(site: Site, serve: Serve) -> None:
    await site.add_folder(credential={"name": "absent", "key": "cloud"})
    await serve()
    await site.reached("backupstoragelocations", "default", "Unavailable")
    await site.create("backups", "b1", spec=site.maps_of())

    status = (await site.reached("backups", "b1"))["status"]

    assert status["phase"] == "FailedValidation"
    [error] = status["validationErrors"]
    assert "BackupStorageLocation default is in Unavailable status. unable to get credentials: " in error
    assert "startTimestamp" not in status


async def test_backups_made_while_no_server_ran_are_taken_at_its_start(site: Site, serve: Serve) -> None:
    await site.add_folder()
    for name in ("z", "a"):
        await site.create("backups", name, spec=site.maps_of())
    await serve()

    ended = [await site.reached("backups", name) for name in ("z", "a")]

    assert [backup["status"]["phase"] for backup in ended] == ["Completed", "Completed"]


async def test_two_servers_without_election_run_each_backup_once(site: Site, serve: Serve) -> None:
    await site.add_folder()
    servers = [await serve(), await serve()]
    for number in range(4):
        await site.create("backups", f"b{number}", spec=site.maps_of())

    phases = [(await site.reached("backups", f"b{number}"))["status"]["phase"] for number in range(4)]

    assert phases == ["Completed"] * 4
    assert sum(counters(server).get("backup_attempt", 0) for server in servers) == 4


async def test_a_lost_answer_to_the_first_patch_changes_nothing(
    site: Site, fault_proxy: StartProxy, serve: Serve, control_plane: ControlPlane, connect: Connect
) -> None:
    await site.add_folder()
    proxy = await fault_proxy(control_plane)
    server = await serve(client=await connect(control_plane, via=proxy))
    lost = proxy.rules.add(DropResponse(), method=PATCH, path="/backups/b1$", times=1)
    await site.create("backups", "b1", spec=site.maps_of())

    assert (await site.reached("backups", "b1"))["status"]["phase"] == "Completed"

    assert lost.hits == 1
    assert counters(server)["backup_attempt"] == 1


async def test_a_lost_answer_to_the_last_patch_changes_nothing(
    site: Site, fault_proxy: StartProxy, serve: Serve, control_plane: ControlPlane, connect: Connect
) -> None:
    await site.add_folder()
    proxy = await fault_proxy(control_plane)
    await serve(client=await connect(control_plane, via=proxy))
    lost = proxy.rules.add(DropResponse(), method=PATCH, path="/backups/b1$", skip=1, times=1)
    await site.create("backups", "b1", spec=site.maps_of(labelSelector={"matchLabels": {"no": "body"}}))

    assert (await site.reached("backups", "b1"))["status"]["phase"] == "Completed"
    assert lost.hits == 1


async def test_a_backup_is_stored_in_a_bucket(site: Site, serve: Serve, bucket: Bucket) -> None:
    await site.add_bucket(bucket)
    await site.add_maps(secret="visible to nobody")
    await serve()
    await site.create("backups", "b1", spec=site.maps_of())

    assert (await site.reached("backups", "b1"))["status"]["phase"] == "Completed"

    folder = bucket.server.directory / "buckets" / bucket.name / "site/backups/b1"
    keys = sorted(path.name for path in folder.iterdir())
    assert "velero-backup.json" in keys
    assert "b1.tar.gz" in keys


async def test_while_a_backup_runs_its_status_says_what_it_does(
    site: Site, serve: Serve, bucket: Bucket, fault_proxy: StartProxy
) -> None:
    proxy = await fault_proxy(bucket.server)
    await site.add_bucket(bucket, config={**bucket.location_config, "s3Url": proxy.url})
    await site.add_maps()
    await serve()
    held = proxy.rules.add(Stall(), method="PUT", path="b1.tar.gz$")
    await site.create("backups", "b1", spec=site.maps_of())
    await held.struck()

    async def shown() -> bool:
        return bool((await site.get("backups", "b1"))["status"].get("activity", {}).get("uploadBytes"))

    await eventually(shown)
    running = (await site.get("backups", "b1"))["status"]
    assert running["phase"] == "InProgress"
    assert running["activity"]["totalIsFinal"] is True
    assert running["progress"]["totalItems"] == running["progress"]["itemsBackedUp"] >= 3
    held.release()

    ended = (await site.reached("backups", "b1"))["status"]
    assert (ended["phase"], "activity" in ended) == ("Completed", False)


@pytest.mark.found("E-F2")
async def test_a_location_that_moves_fails_the_backup_that_runs(
    site: Site,
    serve: Serve,
    control_plane: ControlPlane,
    connect: Connect,
    fault_proxy: StartProxy,
) -> None:
    """Its volumes are in the old place, and the tarball would be in the new one."""
    folder = await site.add_folder()
    await site.add_maps()
    proxy = await fault_proxy(control_plane)
    held = proxy.rules.add(Stall(), path=f"^/api/v1/namespaces/{site.namespace}/configmaps$")
    await serve(client=await connect(control_plane, via=proxy))
    await site.create("backups", "b1", spec=site.maps_of())
    await held.struck()
    moved = {"spec": {"objectStorage": {"prefix": "elsewhere"}}}
    await site.client.patch(velero("backupstoragelocations"), "default", moved, site.namespace)
    held.release()

    status = (await site.reached("backups", "b1"))["status"]

    assert status["phase"] == "Failed"
    assert status["failureReason"].startswith(
        "error uploading backup: backup storage location default was moved while the backup ran: it began in "
    )
    assert not list(folder.rglob("b1*"))


async def test_a_backup_that_is_interrupted_is_failed_at_once(
    site: Site, control_plane: ControlPlane, connect: Connect, fault_proxy: StartProxy
) -> None:
    """Work that does not end in its time at a stop is cancelled; see the manager's tests for when."""
    folder = await site.add_folder()
    proxy = await fault_proxy(control_plane)
    held = proxy.rules.add(Stall(), path=f"^/api/v1/namespaces/{site.namespace}/configmaps$")
    options = ServerOptions(namespace=site.namespace, metrics_address="127.0.0.1:0", leader_election=False)
    client = await connect(control_plane, via=proxy)
    manager = Assembly(client, options, site.folder).manager()
    task = asyncio.create_task(manager.run(asyncio.Event()))
    await site.create("backups", "b1", spec=site.maps_of())
    await held.struck()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    status = (await site.get("backups", "b1"))["status"]
    assert (status["phase"], status["failureReason"]) == (
        "Failed",
        "the server was stopped before the backup had ended",
    )
    assert "completionTimestamp" in status
    assert list(folder.iterdir()) == []


@pytest.mark.spec("CTL-062")
async def test_a_server_settles_what_another_left_in_its_own_namespace(
    site: Site, serve: Serve, other_namespace: str
) -> None:
    elsewhere = Site(site.client, other_namespace, site.folder)
    left = {"phase": "InProgress", "startTimestamp": "2021-08-11T21:40:00Z"}
    specs = {"backups": {"storageLocation": "default"}, "restores": {"backupName": "b1"}}
    for each in (site, elsewhere):
        await each.add_folder()
        for plural, spec in specs.items():
            await each.create(plural, "left", spec=spec, status=left)
    await serve()

    for plural in specs:
        status = (await site.get(plural, "left"))["status"]
        assert status["phase"] == "Failed"
        assert "completionTimestamp" in status
        assert (await elsewhere.get(plural, "left"))["status"] == left


async def test_what_a_spec_asks_for_and_is_not_supported_reaches_the_server_and_is_refused(
    site: Site, serve: Serve
) -> None:
    """Under our own definitions, which would drop fields that they do not have."""
    await site.add_folder(default=True)
    await serve()
    spec = site.maps_of(volumeGroupSnapshotLabelKey="group", snapshotMoveData=True)
    await site.create("backups", "b1", spec=spec)
    await site.create("backups", "b2", spec=site.maps_of(defaultVolumesToFsBackup=False, resourcePolicy=None))

    refused = (await site.reached("backups", "b1"))["status"]

    assert refused["phase"] == "FailedValidation"
    assert [error.split(" ")[0] for error in sorted(refused["validationErrors"])] == [
        "spec.snapshotMoveData",  # needs the feature EnableCSI
        "spec.volumeGroupSnapshotLabelKey",
    ]
    assert (await site.reached("backups", "b2"))["status"]["phase"] == "Completed"


HOSTILE_NAMES = ("$(id)", "../../x", "a,b=c", "a b")


async def test_invalid_names_in_a_spec_end_in_a_final_phase(site: Site, serve: Serve) -> None:
    """Names of a spec reach labels, selectors and request paths, where an API server refuses them."""
    await site.add_folder("loc-1", default=True)
    await serve()
    for number, name in enumerate(HOSTILE_NAMES):
        await site.create("backups", f"b{number}", spec=site.maps_of(storageLocation=name))
        await site.create("restores", f"r{number}", spec={"backupName": name})
        await site.create("restores", f"s{number}", spec={"backupName": "", "scheduleName": name})
        await site.create("deletebackuprequests", f"d{number}", spec={"backupName": name})

    for number, name in enumerate(HOSTILE_NAMES):
        for plural, prefix in (("backups", "b"), ("restores", "r"), ("restores", "s")):
            status = (await site.reached(plural, f"{prefix}{number}"))["status"]
            assert status["phase"] == "FailedValidation", (plural, name)
            assert status["validationErrors"]
        request = await site.reached("deletebackuprequests", f"d{number}", "Processed")
        assert request["status"]["errors"], name


async def add_policies(site: Site, name: str, rule: str) -> None:
    document = f"version: v1\nvolumePolicies: [{rule}]\n"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"any": document}}
    await site.client.create(CONFIGMAPS, body, site.namespace)


@pytest.mark.spec("AFT-070", "AFT-073")
async def test_the_rules_of_the_server_are_noted_and_refuse_backups_once_they_are_gone(
    site: Site, serve: Serve
) -> None:
    await site.add_folder()
    await add_policies(site, "rules", "{conditions: {storageClass: [x]}, action: {type: skip}}")
    await serve(defaults=ServerDefaults(volume_policies="rules"))

    await site.create("backups", "b1", spec=site.maps_of())
    noted = await site.reached("backups", "b1", "Completed")
    await site.client.delete(CONFIGMAPS, "rules", site.namespace)
    await site.create("backups", "b2", spec=site.maps_of())
    refused = await site.reached("backups", "b2", "FailedValidation")

    assert noted["metadata"]["annotations"][GLOBAL_VOLUME_POLICIES] == "rules"
    assert GLOBAL_VOLUME_POLICIES not in refused["metadata"].get("annotations", {})
    (problem,) = refused["status"]["validationErrors"]
    assert problem.startswith(f"fail to get global backup volume policies ConfigMap {site.namespace}/rules: ")


@pytest.mark.spec("AFT-075")
async def test_the_note_of_a_user_is_removed_where_the_server_has_no_rules(site: Site, serve: Serve) -> None:
    await site.add_folder()
    await serve()
    await site.create(
        "backups", "b1", spec=site.maps_of(), annotations={GLOBAL_VOLUME_POLICIES: "mine", "a": "b"}
    )
    annotations = (await site.reached("backups", "b1", "Completed"))["metadata"]["annotations"]
    assert GLOBAL_VOLUME_POLICIES not in annotations
    assert annotations["a"] == "b"


async def test_labels_choose_the_namespaces_of_a_backup(site: Site, serve: Serve) -> None:
    await site.add_folder()
    await site.add_maps(a="b")
    team = {"metadata": {"labels": {"team": site.namespace}}}
    await site.client.patch(NAMESPACE_KIND, site.namespace, team)
    await serve()

    spec = {"includedResources": ["configmaps"]}
    for name, selector in (("b1", f"team={site.namespace}"), ("b2", "team=nobody")):
        await site.create("backups", name, spec=spec, annotations={NAMESPACE_SELECTOR: selector})
    made, refused = [await site.reached("backups", name) for name in ("b1", "b2")]

    assert made["status"]["phase"] == "Completed"
    assert made["spec"]["includedNamespaces"] == [site.namespace]
    assert refused["status"]["phase"] == "FailedValidation"
    (problem,) = refused["status"]["validationErrors"]
    assert problem.startswith("no included namespace has the labels team=nobody")
