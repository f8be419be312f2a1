"""Restores as custom resources, from New to their terminal phase."""

import asyncio
import gzip
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import Stall
from pinnace.api.labels import label_value
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS, velero
from pinnace.restore.request import RestoreSettings
from pinnace.restore.selection.validation import NON_RESTORABLE
from tests.support.cluster.connect import Connect
from tests.support.cluster.namespaces import erase_namespace
from tests.support.servers.sites import Serve, Site, StartProxy, counted, counters

SOURCE = "Either a backup or schedule must be specified as a source for the restore, but not both"
STARTED = "2021-08-11T21:4{}:00Z"


@pytest.fixture
async def target(control_plane: ControlPlane, client: KubeClient) -> AsyncIterator[str]:
    """The name of a namespace to restore into, which does not exist yet."""
    name = f"target-{secrets.token_hex(4)}"
    yield name
    await erase_namespace(control_plane, client, name)


async def add_stored_backup(site: Site, name: str, **labels: str) -> None:
    """A Completed backup of the site's config maps, made by the running server."""
    await site.create("backups", name, spec=site.maps_of(), labels=labels)
    await site.reached("backups", name, "Completed")


async def first_change(site: Site, created: dict[str, Any]) -> dict[str, Any]:
    """A Restore as it was after the first write to it."""
    metadata = created["metadata"]
    events = site.client.watch(
        velero("restores"),
        site.namespace,
        resource_version=metadata["resourceVersion"],
        field_selector=f"metadata.name={metadata['name']}",
    )
    async with aclosing(events):
        event = await anext(events)
    assert event.type == "MODIFIED"
    return event.object


@pytest.mark.spec("RST-010", "RST-018", "RST-107", "CTL-049")
async def test_a_restore_completes_its_spec_and_restores(site: Site, serve: Serve, target: str) -> None:
    folder = await site.add_folder()
    await site.add_maps(a="b")
    server = await serve()
    await add_stored_backup(site, "b1", **{"velero.io/schedule-name": "nightly"})
    spec = {"backupName": "b1", "namespaceMapping": {site.namespace: target}}
    created = await site.create("restores", "r1", spec=spec)

    restore = await site.reached("restores", "r1")

    first = await first_change(site, created)
    assert first["status"] == {"phase": "InProgress", "startTimestamp": restore["status"]["startTimestamp"]}
    assert first["spec"] == restore["spec"]
    status = restore["status"]
    assert status["phase"] == "Completed"
    assert status["startTimestamp"] <= status["completionTimestamp"]
    assert status["progress"]["totalItems"] == status["progress"]["itemsRestored"] >= 3
    assert not {"errors", "warnings"} & status.keys()
    assert restore["spec"]["excludedResources"] == list(NON_RESTORABLE)
    assert restore["spec"]["scheduleName"] == "nightly"
    restored = await site.client.get(CONFIGMAPS, "map-0", target)
    assert restored["data"] == {"a": "b"}
    assert restored["metadata"]["labels"] == {
        "velero.io/backup-name": "b1",
        "velero.io/restore-name": "r1",
    }
    log = gzip.decompress((folder / "restores/r1/restore-r1-logs.gz").read_bytes())
    assert log.decode() == ""  # the fixture's servers log errors only
    results = gzip.decompress((folder / "restores/r1/restore-r1-results.gz").read_bytes())
    assert set(json.loads(results)) == {"errors", "warnings"}
    text = server.metrics.exposition().decode()
    assert 'velero_restore_attempt_total{schedule="nightly"} 1.0' in text
    assert 'velero_restore_success_total{schedule="nightly"} 1.0' in text


@pytest.mark.spec("CTL-047", "CTL-048", "API-013", "RST-001", "RST-002", "RST-003", "RST-004", "RST-005")
async def test_what_is_wrong_with_a_restore_is_said(site: Site, serve: Serve) -> None:
    await site.add_folder()
    server = await serve()
    await add_stored_backup(site, "b1")
    both = "excludes list cannot contain an item in the includes list"
    cases: dict[str, tuple[dict[str, Any], list[str]]] = {
        "namespaces": (
            {"backupName": "b1", "includedNamespaces": ["a"], "excludedNamespaces": ["a"]},
            [f"Invalid included/excluded namespace lists: {both}: a"],
        ),
        "resources": (
            {"backupName": "b1", "includedResources": ["r"], "excludedResources": ["r"]},
            [f"Invalid included/excluded resource lists: {both}: r"],
        ),
        "no-source": ({"backupName": ""}, [SOURCE]),
        "two-sources": ({"backupName": "b1", "scheduleName": "s"}, [SOURCE]),
        "missing": (
            {"backupName": "backup-1", "excludedResources": ["nodes", "x"]},
            ['Error retrieving backup: backup.velero.io "backup-1" not found'],
        ),
        **{
            f"never-{index}": (
                {"backupName": "b1", "includedResources": [name]},
                [
                    f"{name} are non-restorable resources",
                    f"Invalid included/excluded resource lists: {both}: {name}",
                ],
            )
            for index, name in enumerate(NON_RESTORABLE[:5])
        },
    }
    for name, (spec, _) in cases.items():
        await site.create("restores", name, spec=spec)

    found = {name: (await site.reached("restores", name))["status"] for name in cases}

    assert {name: status["phase"] for name, status in found.items()} == dict.fromkeys(
        cases, "FailedValidation"
    )
    assert {name: status["validationErrors"] for name, status in found.items()} == {
        name: errors for name, (_, errors) in cases.items()
    }
    completed = (await site.get("restores", "missing"))["spec"]["excludedResources"]
    assert completed == ["nodes", "x", *NON_RESTORABLE[1:]]
    await counted(server, restore_attempt=len(cases), restore_validation_failed=len(cases))


@pytest.mark.spec("CTL-050", "API-013", "RST-006", "RST-007", "RST-008", "RST-009")
async def test_the_backup_of_a_schedule_is_its_newest_success(site: Site, serve: Serve) -> None:
    await site.add_folder()
    await serve()
    long_name = "nightly-" + "x" * 70  # longer than a label's value can be
    ends = [
        (long_name, "Completed", 0),
        ("none-completed", "InProgress", 1),
        ("two", "Completed", 1),
        ("two", "Completed", 2),
        ("partial", "Completed", 1),
        ("partial", "PartiallyFailed", 2),
    ]
    for schedule, phase, minute in ends:
        await site.create(
            "backups",
            f"{schedule}-{minute}",
            spec={"storageLocation": "default"},
            labels={"velero.io/schedule-name": label_value(schedule)},
            status={"phase": phase, "startTimestamp": STARTED.format(minute)},
        )
    schedules = ("nobody", "none-completed", "two", "partial", long_name)
    for schedule in schedules:
        await site.create("restores", schedule, spec={"backupName": "", "scheduleName": schedule})
    no_label = "two,velero.io/schedule-name notin (two)"
    await site.create("restores", "odd", spec={"backupName": "", "scheduleName": no_label})

    found = {schedule: await site.reached("restores", schedule) for schedule in schedules}

    for restore in (found["nobody"], await site.reached("restores", "odd")):
        assert restore["status"]["validationErrors"] == [
            "No backups found for schedule",
            "No completed backups found for schedule",
        ]
    assert found["none-completed"]["status"]["validationErrors"] == [
        "No completed backups found for schedule"
    ]
    assert found["two"]["spec"]["backupName"] == "two-2"
    assert found["partial"]["spec"]["backupName"] == "partial-1"
    assert found[long_name]["spec"]["backupName"] == f"{long_name}-0"


@pytest.mark.spec("CTL-046", "RST-012")
async def test_restores_in_other_phases_are_left_alone(site: Site, serve: Serve) -> None:
    await site.add_folder()
    await serve(disabled_controllers=frozenset({"messages"}))  # annotates what has failed
    before = {}
    for phase in ("InProgress", "Completed", "FailedValidation"):
        before[phase] = await site.create(
            "restores", phase.lower(), spec={"backupName": "b1"}, status={"phase": phase}
        )
    # The next Restore, which is processed, comes after them in the queue.
    await site.create("restores", "later", spec={"backupName": "b1"})
    await site.reached("restores", "later")

    after = {phase: await site.get("restores", phase.lower()) for phase in before}

    assert after == before


@pytest.mark.spec("RST-014")
async def test_a_missing_tarball_fails_the_restore(site: Site, serve: Serve) -> None:
    folder = await site.add_folder()
    server = await serve()
    await add_stored_backup(site, "b1")
    (folder / "backups/b1/b1.tar.gz").unlink()
    await site.create("restores", "r1", spec={"backupName": "b1"})

    status = (await site.reached("restores", "r1"))["status"]

    assert status["phase"] == "Failed"
    assert status["failureReason"].startswith("error downloading backup: ")
    assert "completionTimestamp" in status
    assert [path.name for path in (folder / "restores/r1").iterdir()] == ["restore-r1-logs.gz"]
    assert counters(server)["restore_failed"] == 1


@pytest.mark.spec("RST-016")
async def test_a_log_that_cannot_be_stored_is_an_error_of_the_restore(
    site: Site, serve: Serve, target: str
) -> None:
    folder = await site.add_folder()
    await site.add_maps()
    await serve()
    await add_stored_backup(site, "b1")
    # Logs of restores can only go below `restores`, and nothing goes below a file.
    (folder / "restores").touch()
    spec = {"backupName": "b1", "namespaceMapping": {site.namespace: target}}
    await site.create("restores", "r1", spec=spec)

    status = (await site.reached("restores", "r1"))["status"]

    assert (status["phase"], status["errors"]) == ("PartiallyFailed", 1)
    assert (await site.client.get(CONFIGMAPS, "map-0", target))["metadata"]["name"] == "map-0"


@pytest.mark.spec("RST-108")
async def test_two_servers_run_a_restore_once(site: Site, serve: Serve, target: str) -> None:
    await site.add_folder()
    await site.add_maps()
    servers = [await serve(), await serve()]
    await add_stored_backup(site, "b1")
    for number in range(4):
        spec = {"backupName": "b1", "namespaceMapping": {site.namespace: target}}
        await site.create("restores", f"r{number}", spec=spec)

    phases = [(await site.reached("restores", f"r{number}"))["status"]["phase"] for number in range(4)]

    assert phases == ["Completed"] * 4
    assert sum(counters(server).get("restore_success", 0) for server in servers) == 4


@pytest.mark.spec("RST-108")
async def test_a_label_set_before_the_first_patch_is_kept(
    site: Site,
    serve: Serve,
    target: str,
    control_plane: ControlPlane,
    connect: Connect,
    fault_proxy: StartProxy,
) -> None:
    await site.add_folder()
    await site.add_maps()
    proxy = await fault_proxy(control_plane)
    await serve(client=await connect(control_plane, via=proxy))
    await add_stored_backup(site, "b1")
    held = proxy.rules.add(Stall(), method="PATCH", path="/restores/r1$", times=1)
    spec = {"backupName": "b1", "namespaceMapping": {site.namespace: target}}
    await site.create("restores", "r1", spec=spec)
    await held.struck()
    labels = {"metadata": {"labels": {"by": "user"}}}
    await site.client.patch(velero("restores"), "r1", labels, site.namespace)
    held.release()

    restore = await site.reached("restores", "r1")

    assert restore["status"]["phase"] == "Completed"
    assert restore["metadata"]["labels"] == {"by": "user"}


async def test_a_restore_deleted_while_it_runs_does_not_come_back(
    site: Site,
    serve: Serve,
    target: str,
    control_plane: ControlPlane,
    connect: Connect,
    fault_proxy: StartProxy,
) -> None:
    await site.add_folder()
    await site.add_maps()
    proxy = await fault_proxy(control_plane)
    await serve(client=await connect(control_plane, via=proxy))
    await add_stored_backup(site, "b1")
    held = proxy.rules.add(Stall(), method="POST", path=f"/namespaces/{target}/configmaps$", times=1)
    spec = {"backupName": "b1", "namespaceMapping": {site.namespace: target}}
    await site.create("restores", "r1", spec=spec)
    await held.struck()
    await site.client.delete(velero("restores"), "r1", site.namespace)
    held.release()
    await site.create("restores", "r2", spec=spec)

    _, second = await asyncio.gather(site.gone("restores", "r1"), site.reached("restores", "r2", "Completed"))

    assert second["metadata"]["name"] == "r2"
    with pytest.raises(NotFound):
        await site.get("restores", "r1")


RULES = """
version: v1
resourceModifierRules:
- conditions: {groupResource: configmaps}
  mergePatches: [{patchData: '{"data": {"a": "changed"}}'}]
"""


@pytest.mark.spec("AFT-080", "AFT-081", "AFT-082")
async def test_the_servers_modifiers_change_restores_that_name_none_and_do_not_skip_them(
    site: Site, serve: Serve, target: str
) -> None:
    folder = await site.add_folder()
    await site.add_maps(a="b")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rules"}, "data": {"x": RULES}}
    await site.client.create(CONFIGMAPS, body, site.namespace)
    await serve(restore=RestoreSettings(default_modifiers="rules"), log_level="info")
    await add_stored_backup(site, "b1")

    async def restored(name: str, **spec: Any) -> str:
        spec |= {"backupName": "b1", "namespaceMapping": {site.namespace: target}}
        await site.create("restores", name, spec={**spec, "existingResourcePolicy": "update"})
        await site.reached("restores", name, "Completed")
        found = await site.client.get(CONFIGMAPS, "map-0", target)
        return str(found["data"]["a"])

    assert await restored("r1") == "changed"
    assert await restored("r2", skipDefaultResourceModifier=True) == "b"
    await site.client.delete(CONFIGMAPS, "rules", site.namespace)
    assert await restored("r3") == "b"

    log = gzip.decompress((folder / "restores/r1/restore-r1-logs.gz").read_bytes()).decode()
    assert f"Applying the resource modifiers in ConfigMap {site.namespace}/rules" in log
    results = json.loads(gzip.decompress((folder / "restores/r3/restore-r3-results.gz").read_bytes()))
    assert "The default of the server is not applied: resource modifiers" in json.dumps(results["warnings"])


@pytest.mark.spec("AFT-050", "AFT-051", "AFT-052", "AFT-053")
async def test_a_restore_obeys_the_filter_policies_that_it_names_and_is_refused_without_them(
    site: Site, serve: Serve, target: str
) -> None:
    await site.add_folder()
    await site.add_maps(a="b", c="d")
    policies = (
        f"namespacedFilterPolicies: [{{namespaces: [{site.namespace}],"
        " resourceFilters: [{kinds: [ConfigMap], names: [map-0]}]}]"
    )
    for name, rules in (("filters", policies), ("volumes", "volumePolicies: [{action: {type: skip}}]")):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        document = f"version: v1\n{rules}\n"
        await site.client.create(CONFIGMAPS, {**body, "data": {"x": document}}, site.namespace)
    await serve()
    await add_stored_backup(site, "b1")

    async def status(name: str, kind: str, config_map: str) -> dict[str, Any]:
        spec = {"backupName": "b1", "namespaceMapping": {site.namespace: target}}
        policy = {"kind": kind, "name": config_map}
        await site.create("restores", name, spec={**spec, "resourcePolicy": policy})
        found: dict[str, Any] = (await site.reached("restores", name))["status"]
        return found

    assert (await status("r1", "configmap", "filters"))["phase"] == "Completed"
    refused = {
        name: (await status(name, kind, config_map))["validationErrors"]
        for name, kind, config_map in (
            ("r2", "configmap", "volumes"),
            ("r3", "Secret", "filters"),
            ("r4", "configmap", "gone"),
        )
    }
    restored = {item["metadata"]["name"] for item in await site.client.list_all(CONFIGMAPS, target)}
    assert restored - {"kube-root-ca.crt"} == {"map-0"}
    assert refused["r2"] == [
        f"fail to validate ResourcePolicies in ConfigMap {site.namespace}/volumes:"
        " volumePolicies are not supported for restore"
    ]
    assert refused["r3"] == ['invalid ResourcePolicy kind "Secret", only "configmap" is supported']
    assert refused["r4"][0].startswith(f"fail to get ResourcePolicies {site.namespace}/gone ConfigMap: ")
