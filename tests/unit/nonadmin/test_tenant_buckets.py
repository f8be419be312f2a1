"""Backups in a tenant's bucket are made known for that tenant only. (docs/spec: NAC A14, A34)"""

import json
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinnace.api.labels import label_value
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.controllers.sync.synced import NotSynced, SyncedLocation, backup_object, pod_volume_backup_object
from pinnace.nonadmin.identity import new_id, owner_metadata
from pinnace.runtime.keys import Key
from tests.support.servers.tenants import unique_id

OWN = unique_id("evil", "x")
NOW = datetime(2021, 8, 11, tzinfo=UTC)


def stored(namespace: str = "evil", identity: str = OWN, **changes: Any) -> bytes:
    marked = owner_metadata(Origin.BACKUP, identity, Key(namespace, "x"))
    backup = {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"name": "whatever", **marked},
        "spec": {"includedNamespaces": ["evil"]},
        "status": {"phase": "Completed"},
        **changes,
    }
    return orjson.dumps(backup)


def synced(data: bytes, tenant: str = "evil", name: str = OWN) -> JSONObject:
    found_in = SyncedLocation(name="l", namespace="velero", schedule_uid=lambda _: None, tenant=tenant)
    body = backup_object(data, name=name, found_in=found_in, now=NOW)
    parsed: JSONObject = orjson.loads(body)
    return parsed


def test_an_honest_backup_of_the_tenant_passes() -> None:
    assert synced(stored())["metadata"]["name"] == OWN


@pytest.mark.spec("NAC-049", "NAC-060")
@pytest.mark.parametrize(
    "data",
    [
        stored("victim"),
        stored(identity="victim-x-id"),
        stored(spec={"includedNamespaces": ["*"]}),
        stored(spec={"includedNamespaces": ["evil", "victim"]}),
        stored(spec={}),
        stored(metadata={"name": "plain"}),
        stored(status={"phase": "New"}),
        stored(status={}),
    ],
    ids=["origin", "id", "all", "two", "none", "unmarked", "new", "empty"],
)
def test_a_forged_backup_is_refused(data: bytes) -> None:
    with pytest.raises(NotSynced):
        synced(data)


def test_the_administrators_location_holds_any_backup() -> None:
    assert synced(stored("victim"), tenant="")["metadata"]["name"] == OWN


@pytest.mark.parametrize(
    "name",
    [
        "daily-20261123000000",
        "evil",
        "evil-x-id",
        OWN.upper(),
        f"{OWN}x",
        f"x{OWN}",
        unique_id("victim", "x"),
        unique_id("evil", "x" * 40),
        OWN.replace("x", "x\x1b[31m"),
        "",
    ],
)
def test_a_backup_under_a_name_that_self_service_does_not_give_is_refused(name: str) -> None:
    """Otherwise it could take the name of the next backup of the administrator's Schedule."""
    with pytest.raises(NotSynced, match="name"):
        synced(stored(identity=name), name=name)


def test_a_long_namespace_has_names_of_its_own() -> None:
    tenant = "a" * 63
    name = new_id(tenant, "nightly", "11111111-2222-4333-8444-555555555555")
    data = stored(tenant, identity=name, spec={"includedNamespaces": [tenant]})
    assert synced(data, tenant, name)["metadata"]["name"] == name


@pytest.mark.parametrize("origin", ["a/b", "../x", "UPPER", "a" * 254, "", "\x1b[31m"])
def test_a_backup_of_an_impossible_request_is_refused(origin: str) -> None:
    marked = owner_metadata(Origin.BACKUP, OWN, Key("evil", origin))
    with pytest.raises(NotSynced):
        synced(stored(metadata={"name": OWN, **marked}))


def test_labels_and_owners_that_other_controllers_use_are_removed() -> None:
    """A schedule's label would make it the newest backup of the administrator's schedule."""
    marked = owner_metadata(Origin.BACKUP, OWN, Key("evil", "x"))
    marked["labels"] |= {"velero.io/schedule-name": "daily", "velero.io/exclude-from-backup": "true"}
    marked["annotations"] |= {
        "pinnace.io/nab-origin-namespace-uid": "of-another",
        "velero.io/source-cluster-k8s-gitversion": "v1.30.0",
        "velero.io/resource-timeout": "1h",
    }
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "gone"}]
    found = synced(stored(metadata={"name": OWN, **marked, "ownerReferences": owners, "finalizers": ["a/b"]}))
    own = owner_metadata(Origin.BACKUP, OWN, Key("evil", "x"))
    assert found["metadata"] == {
        "name": OWN,
        "namespace": "velero",
        "labels": {
            **owner_metadata(Origin.BACKUP, OWN, Key("evil", "x"))["labels"],
            "velero.io/storage-location": "l",
        },
        "annotations": {
            **own["annotations"],
            "velero.io/source-cluster-k8s-gitversion": "v1.30.0",
        },
    }


def volume(namespace: str, phase: str = "Completed") -> JSONObject:
    return {
        "metadata": {"name": "pvb", "labels": {"velero.io/backup-name": "victims"}},
        "spec": {"node": "n", "pod": {"namespace": namespace, "name": "p"}, "backupStorageLocation": "other"},
        "status": {"phase": phase},
    }


def made(raw: JSONObject) -> JSONObject:
    _, body = pod_volume_backup_object(
        raw, backup=OWN, backup_uid="u", location="l", namespace="velero", tenant="evil"
    )
    parsed: JSONObject = orjson.loads(body)
    return parsed


@pytest.mark.spec("NAC-061")
def test_a_forged_pod_volume_backup_is_refused() -> None:
    with pytest.raises(NotSynced):
        made(volume("evil", "New"))
    with pytest.raises(NotSynced):
        made(volume("victim"))
    own = made(volume("evil"))
    assert own["metadata"]["labels"]["velero.io/backup-name"] == OWN
    assert own["spec"]["backupStorageLocation"] == "l"


# --- Anything at all ------------------------------------------------------------------------------------

ODD_TEXTS = [
    "evil",
    OWN,
    "\x1b[2J",
    "\x00",
    "\ud800",
    "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z",
    "2021-08-11T00:00:00+99:99",
    "-1h",
    "1e400h",
    "999999999999999999h",
    "NaN",
    "a/b",
    "..",
    "Completed",
    "x" * 300,
]
TEXTS = st.text(max_size=40) | st.sampled_from(ODD_TEXTS)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
PLACES = [
    ("metadata",), ("metadata", "labels"), ("metadata", "annotations"), ("metadata", "ownerReferences"),
    ("metadata", "creationTimestamp"), ("metadata", "finalizers"), ("metadata", "name"),
    ("spec",), ("spec", "ttl"), ("spec", "hooks"), ("spec", "labelSelector"), ("spec", "orderedResources"),
    ("spec", "storageLocation"), ("spec", "excludedResources"),
    ("status",), ("status", "phase"), ("status", "expiration"), ("status", "completionTimestamp"),
    ("status", "startTimestamp"), ("status", "progress"), ("status", "validationErrors"),
    ("status", "version"), ("kind",), ("apiVersion",), ("unknown",),
]  # fmt: skip


def forged(changes: list[tuple[tuple[str, ...], object]]) -> bytes:
    backup = orjson.loads(stored())
    for place, value in changes:
        inner = backup
        for name in place[:-1]:
            if not isinstance(inner.get(name), dict):
                inner[name] = {}
            inner = inner[name]
        inner[place[-1]] = value
    return json.dumps(backup).encode("utf-8", "surrogatepass")


@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=3))
@settings(max_examples=8 * settings().max_examples)
def test_a_backup_with_any_content_is_refused_or_the_tenants(
    changes: list[tuple[tuple[str, ...], object]],
) -> None:
    try:
        made = synced(forged(changes))
    except NotSynced:
        return
    assert made["metadata"]["name"] == OWN
    assert made["metadata"].keys() <= {"name", "namespace", "labels", "annotations"}
    assert made["metadata"]["annotations"][Origin.BACKUP.namespace_annotation] == "evil"
    assert made["spec"]["includedNamespaces"] == ["evil"]
    assert made["spec"]["storageLocation"] == "l"
    assert made["status"]["phase"] in ("Completed", "PartiallyFailed", "Failed")


@given(
    data=st.binary(max_size=200) | st.builds(lambda text: text.encode("utf-8", "surrogatepass"), st.text())
)
@settings(deadline=None)
def test_bytes_that_are_not_a_backup_are_refused(data: bytes) -> None:
    with pytest.raises(NotSynced):
        synced(data)


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        stored()[:-1] + b',"deep":' + b'{"a":' * 400 + b"1" + b"}" * 400 + b"}",
        stored()[:-1] + b',"deep":' + b"[" * 1000 + b"]" * 1000 + b"}",
        stored()[:-1] + b',"x":NaN}',
        stored()[:-1] + b',"x":"\\ud800"}',
        stored()[:-1] + b',"x":1' + b"0" * 400 + b"}",
        stored(status={"phase": "Completed", "expiration": "99999-01-01T00:00:00Z"}),
        stored(spec={"includedNamespaces": ["evil"], "ttl": "1e99h"}),
        stored(more="x" * (2 << 20)),
    ],
    ids=["lists", "maps", "deep", "deep lists", "NaN", "surrogate", "number", "year", "ttl", "large"],
)
def test_absurd_files_are_refused_or_harmless(data: bytes) -> None:
    try:
        made = synced(data)
    except NotSynced:
        return
    assert len(orjson.dumps(made)) < (2 << 20)


@given(
    changes=st.lists(
        st.tuples(st.sampled_from([("metadata",), ("spec",), ("status",), ("spec", "pod")]), VALUES),
        max_size=2,
    )
)
@settings(deadline=None)
def test_a_pod_volume_backup_with_any_content_is_refused_or_the_tenants(
    changes: list[tuple[tuple[str, ...], object]],
) -> None:
    raw: dict[str, Any] = volume("evil")
    for place, value in changes:
        inner = raw if len(place) == 1 else raw.get(place[0])
        if isinstance(inner, dict):
            inner[place[-1]] = value
    try:
        found = made(raw)
    except NotSynced:
        return
    assert found["spec"]["pod"]["namespace"] == "evil"
    assert found["metadata"]["labels"]["velero.io/backup-name"] == label_value(OWN)
