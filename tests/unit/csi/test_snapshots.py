"""CSI snapshots as objects: the choice of the class, the annotations, the objects of a restore."""

from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.resource_policies import facts_of, read_policies
from pinnace.api.values.quantities import size_quantity
from pinnace.api.velero.backup import Backup
from pinnace.csi import snapshots as csi
from pinnace.csi.snapshots import CSIError
from tests.support.cluster.snapshot_crds import kinds

DRIVER = "disk.example.io"


def snapshot_class(name: str, driver: str = DRIVER, **marks: str) -> JSONObject:
    return {"metadata": {"name": name, "labels": marks}, "driver": driver, "deletionPolicy": "Retain"}


LABELLED = {labels.CSI_SNAPSHOT_CLASS: ""}


@pytest.mark.spec("SRV-021")
@pytest.mark.parametrize(
    ("classes", "chosen"),
    [
        ([snapshot_class("plain"), snapshot_class("empty", **LABELLED)], "empty"),
        ([snapshot_class("other", "x.example.io", **LABELLED), snapshot_class("ours", **LABELLED)], "ours"),
        ([snapshot_class("one", **LABELLED), snapshot_class("two", **LABELLED)], "one"),
    ],
    ids=["an empty label counts", "of the driver", "the first"],
)
def test_the_labelled_class_of_the_driver_is_chosen(classes: list[JSONObject], chosen: str) -> None:
    assert csi.choose_class(classes, DRIVER).name == chosen


@pytest.mark.spec("SRV-021")
@pytest.mark.parametrize(
    ("classes", "text"),
    [
        ([], "there is no VolumeSnapshotClass of the driver disk.example.io: create one"),
        (
            [snapshot_class("other", "x.example.io", **LABELLED)],
            "there is no VolumeSnapshotClass of the driver disk.example.io: create one",
        ),
        ([snapshot_class("one"), snapshot_class("two")], "several VolumeSnapshotClasses .* (one, two)"),
    ],
    ids=["none", "of another driver", "several"],
)
def test_without_an_unambiguous_class_there_is_no_snapshot(classes: list[JSONObject], text: str) -> None:
    with pytest.raises(CSIError) as raised:
        csi.choose_class(classes, DRIVER)
    for part in text.split(" .* "):
        assert part in str(raised.value)


def test_the_default_class_of_the_driver_comes_next_then_its_only_one() -> None:
    default = snapshot_class("default")
    default["metadata"]["annotations"] = {labels.CSI_DEFAULT_CLASS: "true"}
    plain, labelled = snapshot_class("plain"), snapshot_class("labelled", **LABELLED)
    foreign = snapshot_class("foreign", "x.example.io")
    for classes, chosen in (
        ([plain, default, labelled], "labelled"),
        ([plain, default], "default"),
        ([plain, foreign], "plain"),
    ):
        assert csi.choose_class(classes, DRIVER).name == chosen


def claim_naming(name: str) -> JSONObject:
    return {"metadata": {"name": "data", "annotations": {labels.CSI_SNAPSHOT_CLASS: name} if name else {}}}


def backup_naming(name: str) -> Backup:
    by_driver = {f"{labels.CSI_SNAPSHOT_CLASS}_disk.example.io": name} if name else {}
    return Backup(metadata=ObjectMeta(name="b1", annotations=by_driver))


FIRST = snapshot_class("first", **LABELLED)


@pytest.mark.found("S3")
@pytest.mark.parametrize(
    ("of_claim", "of_backup", "chosen", "told"),
    [
        ("second", "third", "second", []),
        ("", "third", "third", []),
        (
            "foreign",
            "third",
            "third",
            ["foreign, which an annotation of the claim names, is of the driver x."],
        ),
        ("gone", "third", "third", ["gone, which an annotation of the claim names, does not exist"]),
        ("gone", "", "first", ["gone, which an annotation of the claim names, does not exist"]),
        (
            "gone",
            "foreign",
            "first",
            [
                "gone, which an annotation of the claim names, does not exist",
                "foreign, which an annotation of the backup names, is of the driver x.example.io, not disk.",
            ],
        ),
    ],
    ids=[
        "the claim's",
        "the backup's",
        "of another driver",
        "missing",
        "missing, none named",
        "neither fits",
    ],
)
def test_a_class_that_an_annotation_names_is_taken_if_it_fits(
    of_claim: str, of_backup: str, chosen: str, told: list[str]
) -> None:
    foreign = snapshot_class("foreign", "x.example.io", **LABELLED)
    classes = [foreign, FIRST, snapshot_class("second"), snapshot_class("third")]
    named = csi.named_classes(claim_naming(of_claim), backup_naming(of_backup), DRIVER.capitalize())

    found = csi.choose_class(classes, DRIVER, named)

    assert found.name == chosen
    assert [
        text.startswith(f"VolumeSnapshotClass {part}")
        for text, part in zip(found.passed_over, told, strict=True)
    ] == [True] * len(told)


@pytest.mark.spec("AFT-096")
@pytest.mark.parametrize(
    ("of_claim", "by_policy", "chosen", "told"),
    [
        ("second", "third", "second", ""),
        ("", "third", "third", ""),
        ("", "gone", "first", "VolumeSnapshotClass gone, which the resource policies rules names, does not"),
    ],
)
def test_a_policy_names_the_class_after_the_claim_and_before_the_backup(
    of_claim: str, by_policy: str, chosen: str, told: str
) -> None:
    document = "version: v1\nvolumePolicies: [{action: {type: snapshot, parameters: {snapshotClass: %s}}}]"
    rule = read_policies(document % by_policy, "rules").rule_for(facts_of())
    classes = [FIRST, snapshot_class("second"), snapshot_class("third")]
    named = csi.named_classes(claim_naming(of_claim), backup_naming("first"), DRIVER, rule)

    found = csi.choose_class(classes, DRIVER, named)

    assert found.name == chosen
    assert "".join(found.passed_over).startswith(told)


@pytest.mark.found("S3")
def test_if_nothing_else_fits_the_error_names_the_class_of_the_annotation_too() -> None:
    named = csi.named_classes(claim_naming("gone"), backup_naming(""), DRIVER)

    with pytest.raises(
        CSIError, match=r"VolumeSnapshotClass gone, .* does not exist; there is no VolumeSnapshotClass"
    ):
        csi.choose_class([], DRIVER, named)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (53687091200, "50Gi"),
        (1_000_000_000, "1000000000"),
        (1536, "1536"),
        (2048, "2Ki"),
        (0, "0"),
        (1 << 60, "1Ei"),
    ],
)
def test_a_size_is_written_with_the_largest_suffix_that_divides_it(size_bytes: int, text: str) -> None:
    assert size_quantity(size_bytes) == text


def content(**status: Any) -> JSONObject:
    return {
        "metadata": {"name": "c"},
        "spec": {"driver": DRIVER, "deletionPolicy": "Retain", "source": {"volumeHandle": "v"}},
        "status": status,
    }


@pytest.mark.found("X3")
@pytest.mark.parametrize(
    ("status", "notes"),
    [
        ({}, {labels.CSI_DELETION_POLICY: "Retain"}),
        (
            {"snapshotHandle": "snap-1", "restoreSize": 53687091200},
            {
                labels.CSI_DELETION_POLICY: "Retain",
                labels.CSI_SNAPSHOT_HANDLE: "snap-1",
                labels.CSI_DRIVER_NAME: DRIVER,
                labels.CSI_RESTORE_SIZE: "50Gi",
                labels.LATER_CSI_RESTORE_SIZE: "50Gi",
            },
        ),
        (
            {"snapshotHandle": "snap-1"},
            {
                labels.CSI_DELETION_POLICY: "Retain",
                labels.CSI_SNAPSHOT_HANDLE: "snap-1",
                labels.CSI_DRIVER_NAME: DRIVER,
            },
        ),
    ],
    ids=["no handle yet", "handle and size", "handle"],
)
def test_the_snapshot_is_annotated_with_what_a_restore_needs(
    status: JSONObject, notes: dict[str, str]
) -> None:
    snapshot: JSONObject = {"metadata": {"name": "s", "annotations": {"mine": "kept"}}}
    csi.annotate_snapshot(snapshot, content(**status))
    assert snapshot["metadata"]["annotations"] == {"mine": "kept", **notes}


def claim(request: str | None = "1Gi", **members: Any) -> JSONObject:
    resources: JSONObject = {"requests": {"storage": request}} if request else {}
    return {
        "metadata": {"name": "data", "namespace": "ns", **members.pop("metadata", {})},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "selector": {"matchLabels": {"a": "b"}},
            "volumeMode": "Filesystem",
            "storageClassName": "fast",
            "volumeName": "pv-1",
            "resources": resources,
            **members,
        },
    }


def restored(size: str = "50Mi") -> JSONObject:
    return {"metadata": {"name": "snap", "annotations": {labels.CSI_RESTORE_SIZE: size}}}


@pytest.mark.spec("SRV-024")
@pytest.mark.parametrize(
    ("request_", "size", "wanted"),
    [(None, "50Mi", "50Mi"), ("10Mi", "50Mi", "50Mi"), ("1Gi", "50Mi", "1Gi")],
    ids=["absent", "smaller", "larger"],
)
def test_a_claim_asks_for_at_least_the_size_of_its_snapshot(
    request_: str | None, size: str, wanted: str
) -> None:
    item = claim(request_)
    csi.provision_from(item, restored(size))
    assert item["spec"]["resources"]["requests"]["storage"] == wanted


@pytest.mark.found("V10")
@pytest.mark.parametrize("size", ["", "0"], ids=["not reported", "reported as nothing"])
def test_a_claim_asks_for_the_size_of_its_volume_where_that_of_the_snapshot_is_unknown(size: str) -> None:
    """The volume was larger than asked for, and its driver makes no smaller one of the snapshot."""
    item = claim("10Mi")
    csi.provision_from(item, restored(size), size_of_volume="12Mi")
    assert item["spec"]["resources"]["requests"]["storage"] == "12Mi"


@pytest.mark.spec("SRV-024")
@pytest.mark.found("V15")
def test_a_claim_is_provisioned_from_its_snapshot_and_keeps_the_rest() -> None:
    """But its selector, with which provisioners refuse it."""
    old = {"apiGroup": "", "kind": "PersistentVolumeClaim", "name": "origin"}
    bound = {labels.PV_BIND_COMPLETED: "yes", labels.SELECTED_NODE: "n1", "mine": "kept"}
    item = claim(dataSource=old, dataSourceRef=old, metadata={"annotations": bound})

    csi.provision_from(item, restored())

    assert item["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Filesystem",
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}},
        "dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"},
    }
    assert item["metadata"]["annotations"] == {"mine": "kept"}


def test_an_invalid_size_is_an_error() -> None:
    with pytest.raises(CSIError, match="cannot compare the snapshot's size big"):
        csi.provision_from(claim(), restored("big"))


@pytest.mark.found("V20")
@pytest.mark.parametrize(
    ("notes", "marks", "found"),
    [
        ({}, {}, ""),
        ({labels.VOLUME_SNAPSHOT_NAME: "s", labels.BACKUP_NAME: "b1"}, {}, "s"),
        ({labels.VOLUME_SNAPSHOT_NAME: "s", labels.BACKUP_NAME: "older"}, {}, ""),
        ({labels.VOLUME_SNAPSHOT_NAME: "s"}, {}, "s"),
        ({}, {labels.VOLUME_SNAPSHOT_NAME: "s"}, "s"),
        ({}, {labels.VOLUME_SNAPSHOT_NAME: "s", labels.BACKUP_NAME: "b1"}, "s"),
        ({}, {labels.VOLUME_SNAPSHOT_NAME: "s", labels.BACKUP_NAME: "older"}, ""),
        (
            {labels.VOLUME_SNAPSHOT_NAME: "s"},
            {labels.VOLUME_SNAPSHOT_NAME: "s", labels.BACKUP_NAME: "older"},
            "",
        ),
        (
            {labels.VOLUME_SNAPSHOT_NAME: "old", labels.BACKUP_NAME: "older"},
            {labels.VOLUME_SNAPSHOT_NAME: "s", labels.BACKUP_NAME: "b1"},
            "s",
        ),
        ({labels.VOLUME_SNAPSHOT_NAME: "old", labels.BACKUP_NAME: "older"}, {labels.BACKUP_NAME: "b2"}, ""),
        ({labels.VOLUME_SNAPSHOT_NAME: "s", labels.BACKUP_NAME: "b1"}, {labels.BACKUP_NAME: "b2"}, "s"),
    ],
    ids=[
        "no note",
        "noted",
        "noted by another backup",
        "noted without a backup",
        "labelled",
        "labelled by this backup",
        "labelled by another backup",
        "labelled by another backup and noted without one",
        "labelled over the note of another backup",
        "noted and labelled by others",
        "noted, and labelled by a restore",
    ],
)
def test_the_snapshot_of_a_claim_is_that_of_its_backup(
    notes: JSONObject, marks: JSONObject, found: str
) -> None:
    item = {"metadata": {"name": "data", "annotations": notes, "labels": marks}}
    assert csi.snapshot_of_claim(item, "b1") == found


@pytest.mark.found("V20")
def test_a_restored_claim_keeps_no_note_of_the_backup_that_it_came_from() -> None:
    notes = {labels.VOLUME_SNAPSHOT_NAME: "s", labels.BACKUP_NAME: "b1", labels.DATA_UPLOAD_NAME: "velero/b1"}
    item = claim(metadata={"annotations": {**notes, "mine": "kept"}})

    csi.provision_from(item, restored())

    assert item["metadata"]["annotations"] == {"mine": "kept"}


def stored_snapshot(**notes: str) -> JSONObject:
    given = {labels.CSI_SNAPSHOT_HANDLE: "snap-1", labels.CSI_DRIVER_NAME: DRIVER, **notes}
    return {"metadata": {"name": "s", "namespace": "ns", "annotations": given}, "spec": {}}


@pytest.mark.spec("SRV-025")
@pytest.mark.parametrize("missing", [labels.CSI_SNAPSHOT_HANDLE, labels.CSI_DRIVER_NAME])
def test_a_snapshot_without_annotations_cannot_be_restored(missing: str) -> None:
    with pytest.raises(CSIError, match=missing):
        csi.static_content(kinds(), stored_snapshot(**{missing: ""}), "ns", {})


@pytest.mark.spec("SRV-025")
@pytest.mark.parametrize("noted", ["", "Delete"])
def test_a_new_content_names_the_snapshot_by_its_handle_and_keeps_it(noted: str) -> None:
    made = csi.static_content(
        kinds("v1beta1"), stored_snapshot(**{labels.CSI_DELETION_POLICY: noted}), "other", {"r": "r1"}
    )
    assert made == {
        "apiVersion": "snapshot.storage.k8s.io/v1beta1",
        "kind": "VolumeSnapshotContent",
        "metadata": {"generateName": "velero-s-", "labels": {"r": "r1"}},
        "spec": {
            "deletionPolicy": "Retain",
            "driver": DRIVER,
            "source": {"snapshotHandle": "snap-1"},
            "volumeSnapshotRef": {"kind": "VolumeSnapshot", "namespace": "other", "name": "s"},
        },
    }


def test_the_content_names_the_secret_for_deleting() -> None:
    live = content(snapshotHandle="snap-1")
    live["metadata"]["annotations"] = {
        "snapshot.storage.kubernetes.io/deletion-secret-name": "key",
        "snapshot.storage.kubernetes.io/deletion-secret-namespace": "safe",
    }
    snapshot: JSONObject = {"metadata": {"name": "s"}}

    csi.annotate_snapshot(snapshot, live)
    made = csi.static_content(kinds(), snapshot, "ns", {})

    assert made["metadata"]["annotations"] == live["metadata"]["annotations"]


def test_a_synced_content_takes_no_new_snapshot_and_owns_nothing_of_another_cluster() -> None:
    stored = {
        "metadata": {
            "name": "snapcontent-1",
            "uid": "old",
            "resourceVersion": "7",
            "finalizers": ["x"],
            "labels": {"mine": "x", labels.BACKUP_NAME: "forged"},
        },
        "spec": {
            "deletionPolicy": "Delete",
            "driver": DRIVER,
            "source": {"volumeHandle": "vol-1"},
            "volumeSnapshotClassName": "c",
            "volumeSnapshotRef": {"kind": "VolumeSnapshot", "namespace": "n", "name": "s", "uid": "old"},
        },
        "status": {"snapshotHandle": "snap-1", "readyToUse": True},
    }
    assert csi.synced_content(kinds(), stored, "b1") == {
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": "snapcontent-1", "labels": {labels.BACKUP_NAME: "b1"}},
        "spec": {
            "deletionPolicy": "Delete",
            "driver": DRIVER,
            "source": {"snapshotHandle": "snap-1"},
            "volumeSnapshotClassName": "c",
            "volumeSnapshotRef": {"kind": "VolumeSnapshot", "namespace": "n", "name": "s"},
        },
    }


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"metadata": {"name": "c"}, "spec": {"volumeSnapshotRef": {}}},
        {"metadata": {}, "spec": {"volumeSnapshotRef": {}}, "status": {"snapshotHandle": "h"}},
        {"metadata": {"name": "c"}, "spec": {}, "status": {"snapshotHandle": "h"}},
        {"metadata": "no", "spec": []},
    ],
    ids=["nothing", "no handle", "no name", "no snapshot", "other shapes"],
)
def test_an_object_that_is_no_content_is_not_synced(stored: JSONObject) -> None:
    with pytest.raises(CSIError):
        csi.synced_content(kinds(), stored, "b1")
