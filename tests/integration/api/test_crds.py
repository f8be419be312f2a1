"""The CustomResourceDefinitions on a real API server: accepted, structural, and nothing of ours is pruned."""

import asyncio
import contextlib
import copy
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from hack.cluster.control_plane import ControlPlane
from hack.container_schema import DOCUMENT, TARGET, text
from hack.container_schema import container_schema as schema_of
from pinnace.api import kinds
from pinnace.api.codec import decode, encode
from pinnace.api.definitions.crd_merge import superset
from pinnace.api.definitions.crds import crd_manifests
from pinnace.api.definitions.velero import DEFINITIONS
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, Invalid, NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, velero
from tests.integration.api.samples import samples
from tests.support.stores.golden import VERSIONS, unpack
from tests.support.waiting import eventually

READY_SECONDS = 120.0
POLL_SECONDS = 0.05
PLURALS = {kind.kind: kind.plural for kind in kinds.VELERO}
WITH_STATUS_SUBRESOURCE = {each.kind.kind for each in DEFINITIONS if each.status_subresource}
SAMPLES = {encode(sample)["kind"]: sample for sample in samples()}


def _conditions(crd: dict[str, Any]) -> dict[str, str]:
    return {
        condition["type"]: condition["status"] for condition in crd.get("status", {}).get("conditions") or []
    }


def _ready(crd: dict[str, Any]) -> bool:
    conditions = _conditions(crd)
    return conditions.get("Established") == "True" and conditions.get("NamesAccepted") == "True"


async def _served(client: KubeClient, manifest: dict[str, Any]) -> dict[str, Any]:
    """The definition once the server has established it and answers for its resource.

    The server may still answer 404 for a moment after it called the resource established.
    """
    names = manifest["spec"]["names"]
    while True:
        crd = await client.get(CUSTOM_RESOURCE_DEFINITIONS, manifest["metadata"]["name"])
        if _ready(crd):
            with contextlib.suppress(NotFound):
                await client.list_all(velero(names["plural"]), "default")
                return crd
        await asyncio.sleep(POLL_SECONDS)


@pytest.fixture
async def crds(client: KubeClient) -> dict[str, dict[str, Any]]:
    """The definitions of all kinds as the server has them, by kind, established and served."""
    for manifest in crd_manifests():
        try:
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, manifest)
        except AlreadyExists:
            continue  # by another test of this server
    async with asyncio.timeout(READY_SECONDS):
        served = [await _served(client, manifest) for manifest in crd_manifests()]
    return {crd["spec"]["names"]["kind"]: crd for crd in served}


async def test_the_definitions_are_accepted_and_structural(crds: dict[str, dict[str, Any]]) -> None:
    assert set(crds) == set(PLURALS)
    for crd in crds.values():
        assert "NonStructuralSchema" not in _conditions(crd)
        assert crd["status"]["acceptedNames"] == crd["spec"]["names"]
        assert crd["spec"].get("preserveUnknownFields", False) is False


async def test_the_server_stores_the_definitions_as_given(crds: dict[str, dict[str, Any]]) -> None:
    for manifest in crd_manifests():
        stored = crds[manifest["spec"]["names"]["kind"]]["spec"]["versions"][0]
        assert stored["schema"] == manifest["spec"]["versions"][0]["schema"]


SHOWN = {
    "backups": ("bak", "Name Status Errors Warnings Started Age", "{name} Completed 1 2"),
    "restores": ("rst", "Name Backup Status Errors Warnings Age", "{name} b Completed 1 2"),
    "downloadrequests": ("dreq", "Name Target Kind Target Name Status Age", "{name} BackupLog b"),
    "serverstatusrequests": ("ssr", "Name Status Server Version Processed Age", "{name}"),
    "volumesnapshotlocations": ("vsl", "Name Provider Phase Age", "{name} aws Available"),
    "deletebackuprequests": ("dbr", "Name BackupName Status", "{name} b Processed"),
}
FIELDS: dict[str, dict[str, Any]] = {
    "backups": {"status": {"phase": "Completed", "errors": 1, "warnings": 2}},
    "restores": {
        "spec": {"backupName": "b"},
        "status": {"phase": "Completed", "errors": 1, "warnings": 2},
    },
    "downloadrequests": {"spec": {"target": {"kind": "BackupLog", "name": "b"}}},
    "serverstatusrequests": {"spec": {}},
    "volumesnapshotlocations": {"spec": {"provider": "aws"}, "status": {"phase": "Available"}},
    "deletebackuprequests": {"spec": {"backupName": "b"}, "status": {"phase": "Processed"}},
}


@pytest.mark.spec("AFT-012")
@pytest.mark.found("op-104")
@pytest.mark.parametrize("plural", SHOWN)
async def test_kubectl_gets_columns(
    client: KubeClient, namespace: str, crds: dict[str, dict[str, Any]], plural: str
) -> None:
    """Those of Velero's main, as are the short names. A field that is not set is empty."""
    resource, fields = velero(plural), FIELDS[plural]
    obj = {"apiVersion": resource.api_version, "kind": resource.kind}
    await client.create(resource, {**obj, **fields, "metadata": {"name": "shown"}}, namespace)
    spec = {"spec": fields["spec"]} if "spec" in fields else {}
    await client.create(resource, {**obj, **spec, "metadata": {"name": "unset"}}, namespace)

    answer = await client.request("GET", resource.path(namespace), accept=TABLE)

    table = json.loads(answer)
    short, columns, cells = SHOWN[plural]
    assert crds[resource.kind]["status"]["acceptedNames"]["shortNames"] == [short]
    names = [each["name"] for each in table["columnDefinitions"]]
    assert " ".join(names) == columns
    row, bare = table["rows"]
    shown = [str(cell) for cell in row["cells"] if cell is not None]
    assert " ".join(shown).startswith(cells.format(name="shown"))
    of_status = {"Status", "Errors", "Warnings", "Started", "Server Version", "Processed", "Phase"}
    empty = {cell for name, cell in zip(names, bare["cells"], strict=True) if name in of_status}
    assert empty == {None}


TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
"""What kubectl accepts: the server then makes the rows."""


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize("kind", sorted(PLURALS))
async def test_an_object_with_all_fields_is_stored_without_loss(
    client: KubeClient, namespace: str, kind: str
) -> None:
    sample = SAMPLES[kind]
    resource = velero(PLURALS[kind])
    sent = encode(sample, unsent=True)
    stored = await client.create(resource, sent, namespace)
    if kind in WITH_STATUS_SUBRESOURCE:
        assert "phase" not in stored.get("status", {}), "a status sent to the main resource is ignored"
        stored = await client.patch(
            resource, "sample", {"status": sent["status"]}, namespace, subresource="status"
        )
    assert {"spec": stored.get("spec", {}), "status": stored["status"]} == {
        "spec": sent["spec"],
        "status": sent["status"],
    }
    assert _as_sent(decode(type(sample), stored)) == _as_sent(sample)
    (listed,) = await client.list_all(resource, namespace)
    assert decode(type(sample), listed) == decode(type(sample), stored)


def _as_sent(value: Struct) -> dict[str, Any]:
    """The object without the metadata that only a server sets."""
    encoded = encode(value)
    encoded["metadata"] = {key: encoded["metadata"][key] for key in ("name", "labels", "annotations")}
    return encoded


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize("kind", sorted(PLURALS))
async def test_an_object_with_nothing_but_what_is_always_written_is_valid(
    client: KubeClient, namespace: str, kind: str
) -> None:
    empty = encode(type(SAMPLES[kind])(), unsent=True)
    empty["metadata"]["name"] = "empty"
    if kind == "DownloadRequest":
        empty["spec"]["target"]["kind"] = "BackupLog"  # the one enum that is always written
    stored = await client.create(velero(PLURALS[kind]), empty, namespace)
    assert stored["metadata"]["name"] == "empty"


@pytest.mark.usefixtures("crds")
async def test_nulls_of_go_clients_are_accepted(client: KubeClient, namespace: str) -> None:
    backup = {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"name": "nulls", "creationTimestamp": None},
        "spec": {
            "includedNamespaces": None,
            "labelSelector": None,
            "hooks": {"resources": None},
            "ttl": "1h0m0s",
        },
        "status": {"expiration": None, "validationErrors": None, "progress": None},
    }
    stored = await client.create(velero("backups"), backup, namespace)
    assert decode(Backup, stored).metadata.name == "nulls"
    assert stored["spec"]["includedNamespaces"] is None, "nullable fields keep a null"


@pytest.mark.usefixtures("crds")
async def test_a_null_duration_is_never_stored(client: KubeClient, namespace: str) -> None:
    backup = {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"name": "b"},
        "spec": {"ttl": None},
    }
    stored = await client.create(velero("backups"), backup, namespace)
    assert "ttl" not in stored["spec"]


@pytest.mark.found("U4")
@pytest.mark.usefixtures("crds")
async def test_a_restore_of_a_schedule_names_no_backup(client: KubeClient, namespace: str) -> None:
    restore = {
        "apiVersion": "velero.io/v1",
        "kind": "Restore",
        "metadata": {"name": "f1"},
        "spec": {"scheduleName": "daily"},
    }
    stored = await client.create(velero("restores"), restore, namespace)
    assert decode(Restore, stored).spec.schedule_name == "daily"


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize(
    ("plural", "body"),
    [
        ("backups", {"kind": "Backup", "status": {"phase": "OfTheFuture"}}),
        ("backups", {"kind": "Backup", "spec": {"ttl": 3600}}),
        ("restores", {"kind": "Restore", "spec": {"backupName": 3}}),
        ("backupstoragelocations", {"kind": "BackupStorageLocation", "spec": {"provider": "p"}}),
        ("podvolumebackups", {"kind": "PodVolumeBackup", "spec": {"node": "n"}}),
        ("downloadrequests", {"kind": "DownloadRequest", "spec": {"target": {"kind": "Nope", "name": "n"}}}),
    ],
)
async def test_what_the_api_forbids_is_refused(
    client: KubeClient, namespace: str, plural: str, body: dict[str, Any]
) -> None:
    whole = {"apiVersion": "velero.io/v1", "metadata": {"name": "bad"}, **body}
    with pytest.raises(Invalid):
        await client.create(velero(plural), whole, namespace)


@pytest.mark.usefixtures("crds")
async def test_unknown_fields_of_a_spec_are_stored_at_every_level_and_survive_a_patch(
    client: KubeClient, namespace: str
) -> None:
    backup = encode(SAMPLES["Backup"], unsent=True)
    backup["spec"]["unknownField"] = {"deep": [1]}
    backup["spec"]["hooks"]["resources"][0]["pre"][0]["exec"]["later"] = "x"
    backup["status"]["unknownField"] = 1

    await client.create(velero("backups"), backup, namespace)
    stored = await client.patch(velero("backups"), "sample", {"status": {"phase": "Failed"}}, namespace)

    assert stored["spec"] == backup["spec"]
    assert "unknownField" not in stored["status"]


async def test_a_definition_widened_over_one_that_keeps_unknown_fields_is_structural(
    client: KubeClient,
) -> None:
    ours = next(each for each in crd_manifests() if each["spec"]["names"]["kind"] == "Backup")
    served = copy.deepcopy(ours)
    spec = served["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["hooks"], spec["properties"]["ttl"]
    wide = superset(ours, served)
    wide["metadata"]["name"] = "wides.velero.io"
    wide["spec"]["names"] = {"kind": "Wide", "listKind": "WideList", "plural": "wides", "singular": "wide"}

    await client.create(CUSTOM_RESOURCE_DEFINITIONS, wide)

    async def ready() -> bool:
        return _ready(await client.get(CUSTOM_RESOURCE_DEFINITIONS, "wides.velero.io"))

    await eventually(ready, timeout_seconds=READY_SECONDS)
    stored = await client.get(CUSTOM_RESOURCE_DEFINITIONS, "wides.velero.io")
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, "wides.velero.io")
    assert "NonStructuralSchema" not in _conditions(stored)


def with_init_container(**members: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", **members}
    hook = {"name": "h", "postHooks": [{"init": {"initContainers": [container], "timeout": "1s"}}]}
    return {
        "apiVersion": "velero.io/v1",
        "kind": "Restore",
        "metadata": {"name": "r1"},
        "spec": {"backupName": "b", "hooks": {"resources": [hook]}},
    }


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize(
    "members",
    [
        {"command": "sh"},
        {"env": {"A": "b"}},
        {"image": 3},
        {"ports": [{"containerPort": "http"}]},
        {"name": None},
    ],
    ids=lambda members: next(iter(members)),
)
async def test_an_init_container_that_go_cannot_read_is_refused(
    client: KubeClient, namespace: str, members: dict[str, Any]
) -> None:
    """One stored Restore that Velero's command line cannot decode hides all others from it."""
    with pytest.raises(Invalid):
        await client.create(velero("restores"), with_init_container(**members), namespace)


@pytest.mark.usefixtures("crds")
async def test_a_field_of_a_container_of_a_later_kubernetes_is_stored(
    client: KubeClient, namespace: str
) -> None:
    body = with_init_container(later={"a": 1}, resources={"limits": {"cpu": "1", "memory": 1}})
    stored = await client.create(velero("restores"), body, namespace)
    assert stored["spec"] == body["spec"]


async def test_the_schema_of_containers_is_that_of_the_api_server(control_plane: ControlPlane) -> None:
    """After an upgrade of the cluster of the tests: python -m hack.container_schema"""
    _status, document = control_plane.get(DOCUMENT)
    assert TARGET.read_text() == text(schema_of(json.loads(document)))


@pytest.mark.usefixtures("crds")
@pytest.mark.parametrize("version", [*VERSIONS, "main"])
async def test_backups_that_a_velero_server_wrote_are_stored_without_loss(
    client: KubeClient, namespace: str, tmp_path: Path, version: str
) -> None:
    files = sorted(unpack(version, tmp_path).glob("backups/*/velero-backup.json"))
    assert len(files) >= 3
    for file in files:
        written = json.loads(file.read_bytes())
        metadata = {"name": file.parent.name, "labels": written["metadata"].get("labels")}
        stored = await client.create(velero("backups"), {**written, "metadata": metadata}, namespace)
        assert (stored["spec"], stored["status"]) == (written["spec"], written["status"])
