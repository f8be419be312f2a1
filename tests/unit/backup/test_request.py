"""Filling in and validating a Backup: every row of the tables, with the messages that users see."""

from datetime import timedelta
from typing import Any

import pytest

from pinnace.api.codec import encode, merge_patch
from pinnace.api.labels import OWN_TTL
from pinnace.api.meta import LabelSelector, ObjectMeta
from pinnace.api.nonadmin.names import Origin
from pinnace.api.phases import BackupPhase
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.api.velero.snapshot_location import VolumeSnapshotLocation, VolumeSnapshotLocationSpec
from pinnace.api.velero.storage_location import BackupStorageLocation, BackupStorageLocationSpec
from pinnace.backup.request import (
    ServerDefaults,
    SnapshotLocations,
    StorageLocations,
    Unreadable,
    movement_errors,
    prepare_backup,
)
from pinnace.kube.requesting import ServerVersion
from tests.support.clock import START

LONG_NAME = "default" * 10


def location(name: str, *, default: bool = False, access_mode: str = "") -> BackupStorageLocation:
    return BackupStorageLocation(
        metadata=ObjectMeta(name=name, namespace="velero"),
        spec=BackupStorageLocationSpec(provider="aws", default=default, access_mode=access_mode),
    )


def snapshot_location(name: str, provider: str = "aws") -> VolumeSnapshotLocation:
    return VolumeSnapshotLocation(
        metadata=ObjectMeta(name=name, namespace="velero"), spec=VolumeSnapshotLocationSpec(provider=provider)
    )


DEFAULT_LOCATIONS = (location("default"),)
EAST, WEST = snapshot_location("aws-us-east-1"), snapshot_location("aws-us-west-1")
SOME = snapshot_location("some-name", "fake-provider")


def prepare(
    spec: BackupSpec | None = None,
    *,
    locations: StorageLocations = DEFAULT_LOCATIONS,
    snapshots: SnapshotLocations = (),
    backup: Backup | None = None,
    **defaults: Any,
) -> Backup:
    given = backup or Backup(metadata=ObjectMeta(name="b1"), spec=spec or BackupSpec())
    before = encode(given)
    prepared = prepare_backup(
        given,
        defaults=ServerDefaults(**defaults),
        storage_locations=locations,
        snapshot_locations=snapshots,
        server_version=ServerVersion(git_version="v1.16.4", major="1", minor="16"),
        now=START,
    )
    assert encode(given) == before
    return prepared


@pytest.mark.spec("BKP-001", "API-009")
@pytest.mark.parametrize(
    ("ttl", "written", "lifetime"),
    [
        (Duration(), "720h0m0s", timedelta(hours=720)),
        (Duration.hours(1), "1h0m0s", timedelta(hours=1)),
        (Duration.minutes(10), "10m0s", timedelta(minutes=10)),
    ],
)
def test_the_ttl_determines_the_expiration(ttl: Duration, written: str, lifetime: timedelta) -> None:
    prepared = prepare(BackupSpec(ttl=ttl))
    assert str(prepared.spec.ttl) == written
    assert prepared.status.expiration == START + lifetime
    assert (prepared.status.version, prepared.status.format_version) == (1, "1.1.0")
    assert prepared.status.start_timestamp == START


@pytest.mark.parametrize(("own", "noted"), [("", "24h0m0s"), ("48h", "48h"), (None, None)])
def test_a_backup_of_rules_notes_the_default_ttl_where_its_template_sets_none(
    own: str | None, noted: str | None
) -> None:
    metadata = ObjectMeta(name="b1", annotations={} if own is None else {OWN_TTL: own})
    given = Backup(metadata=metadata, spec=BackupSpec(ttl=Duration.hours(87672)))
    prepared = prepare(backup=given, backup_ttl=Duration.hours(24))
    assert prepared.metadata.annotations.get(OWN_TTL) == noted


def test_a_negative_ttl_is_refused_and_the_backup_is_kept_for_the_default_ttl() -> None:
    prepared = prepare(BackupSpec(ttl=Duration.hours(-1)))

    assert prepared.status.phase == BackupPhase.FAILED_VALIDATION
    assert prepared.status.validation_errors == [
        "spec.ttl must not be negative, and is -1h0m0s: such a backup would be deleted at once; leave "
        "it out, or write how long to keep the backup, such as 720h"
    ]
    assert prepared.status.expiration == START + timedelta(hours=720)


@pytest.mark.spec("BKP-002")
def test_location_marked_as_default_is_chosen() -> None:
    prepared = prepare(locations=[location("other"), location("loc-1", default=True)])
    assert prepared.spec.storage_location == "loc-1"
    assert prepared.metadata.labels == {"velero.io/storage-location": "loc-1"}
    assert prepared.status.phase == BackupPhase.IN_PROGRESS


@pytest.mark.spec("BKP-003")
def test_a_missing_default_location_is_refused() -> None:
    prepared = prepare(locations=[], storage_location="loc-1")
    assert prepared.status.phase == BackupPhase.FAILED_VALIDATION
    assert prepared.status.start_timestamp is None
    assert prepared.status.expiration is not None
    (problem,) = prepared.status.validation_errors
    assert problem == (
        "an existing backup storage location wasn't specified at backup creation time and the server default"
        " 'loc-1' doesn't exist. Please address this issue (see `velero backup-location -h` for options) and"
        ' create a new backup. Error: backupstoragelocations.velero.io "loc-1" not found'
    )
    assert prepared.metadata.labels == {"velero.io/storage-location": "loc-1"}


@pytest.mark.spec("BKP-004")
def test_a_missing_named_location_is_refused() -> None:
    prepared = prepare(BackupSpec(storage_location="nonexistent"))
    (problem,) = prepared.status.validation_errors
    assert "the default 'nonexistent' wasn't found" in problem


@pytest.mark.spec("BKP-005")
def test_a_read_only_location_is_refused() -> None:
    read_only = location("read-only", access_mode="ReadOnly")
    prepared = prepare(BackupSpec(storage_location="read-only"), locations=[read_only])
    assert prepared.status.validation_errors == [
        "backup can't be created because backup storage location read-only is currently in read-only mode"
    ]


@pytest.mark.spec("BKP-006")
def test_long_location_name_fits_its_label() -> None:
    prepared = prepare(BackupSpec(storage_location=LONG_NAME), locations=[location(LONG_NAME)])
    label = prepared.metadata.labels["velero.io/storage-location"]
    assert label == "defaultdefaultdefaultdefaultdefaultdefaultdefaultdefaultd58343f"


@pytest.mark.spec("BKP-007")
def test_problems_come_in_order() -> None:
    both: dict[str, Any] = {"included_resources": ["foo"], "excluded_resources": ["foo"]}
    assert prepare(BackupSpec(**both)).status.validation_errors == [
        "Invalid included/excluded resource lists:"
        " excludes list cannot contain an item in the includes list: foo"
    ]
    namespaces: dict[str, Any] = {"included_namespaces": ["foo"], "excluded_namespaces": ["foo"]}
    prepared = prepare(BackupSpec(**both, **namespaces, storage_location="bad"))
    assert [problem.split(":")[0][:30] for problem in prepared.status.validation_errors] == [
        "an existing backup storage loc",
        "Invalid included/excluded reso",
        "Invalid included/excluded name",
    ]


@pytest.mark.spec("BKP-008")
def test_misplaced_stars_in_the_lists_are_refused() -> None:
    prepared = prepare(BackupSpec(included_resources=["*", "foo"], excluded_namespaces=["*"]))
    assert prepared.status.validation_errors == [
        "Invalid included/excluded resource lists:"
        " includes list must either contain '*' only, or a non-empty list of items",
        "Invalid included/excluded namespace lists: excludes list cannot contain '*'",
    ]


@pytest.mark.parametrize(
    ("given", "server", "result"),
    [(None, True, True), (None, False, None), (False, True, False), (True, False, True)],
)
@pytest.mark.parametrize("of_tenant", [False, True])
def test_moving_the_data_of_snapshots_by_default(
    given: bool | None, server: bool, result: bool | None, of_tenant: bool
) -> None:
    metadata = ObjectMeta(name="b1")
    if of_tenant:
        metadata.annotations = {Origin.BACKUP.namespace_annotation: "theirs"}
    backup = Backup(metadata=metadata, spec=BackupSpec(snapshot_move_data=given))

    prepared = prepare(backup=backup, snapshot_move_data=server)

    # For tenants the administrator says it in their settings, which are in the spec by then.
    assert prepared.spec.snapshot_move_data is (given if of_tenant else result)


@pytest.mark.spec("BKP-009")
@pytest.mark.parametrize(
    ("given", "server", "result"),
    [(None, True, True), (None, False, False), (False, True, False), (True, False, True)],
)
def test_default_volumes_to_restic(given: bool | None, server: bool, result: bool) -> None:
    prepared = prepare(BackupSpec(default_volumes_to_restic=given), volumes_to_fs_backup=server)
    assert prepared.spec.default_volumes_to_fs_backup is result
    assert prepared.spec.saves_files_by_default is result


@pytest.mark.spec("BKP-011")
def test_version_of_the_cluster_is_noted() -> None:
    name = "velero.io/source-cluster-k8s-gitversion"
    given = Backup(metadata=ObjectMeta(name="b1", annotations={"mine": "kept", name: "v0"}))
    assert prepare(backup=given).metadata.annotations == {
        "mine": "kept",
        name: "v1.16.4",
        "velero.io/source-cluster-k8s-major-version": "1",
        "velero.io/source-cluster-k8s-minor-version": "16",
    }


MORE_THAN_ONE = (
    "provider aws has more than one possible volume snapshot location,"
    " and none were specified explicitly or as a default:"
    " choose aws-us-east-1 or aws-us-west-1 with --volume-snapshot-locations"
)
SNAPSHOT_CASES = [
    pytest.param(["random-name"], [EAST, SOME], {}, None, "random-name", marks=pytest.mark.spec("BKP-013")),
    pytest.param(
        ["aws-us-west-1", "aws-us-west-1"],
        [EAST, WEST],
        {},
        ["aws-us-west-1"],
        "",
        marks=pytest.mark.spec("BKP-014"),
    ),
    pytest.param(
        ["aws-us-east-1", "aws-us-west-1"],
        [EAST, WEST],
        {},
        None,
        "more than one VolumeSnapshotLocation name specified for provider aws:"
        " aws-us-west-1; unexpected name was aws-us-east-1",
        marks=pytest.mark.spec("BKP-015"),
    ),
    pytest.param([], [EAST], {}, ["aws-us-east-1"], "", marks=pytest.mark.spec("BKP-016")),
    pytest.param([], [EAST, WEST], {}, None, MORE_THAN_ONE, marks=pytest.mark.spec("BKP-017")),
    pytest.param(
        [],
        [EAST, WEST],
        {"aws": "aws-us-east-1"},
        ["aws-us-east-1"],
        "",
        marks=pytest.mark.spec("BKP-017"),
    ),
    pytest.param([], [], {}, [], "", marks=pytest.mark.spec("BKP-018")),
    pytest.param(
        ["aws-us-west-1"],
        [WEST, SOME],
        {},
        ["aws-us-west-1", "some-name"],
        "",
        marks=pytest.mark.spec("BKP-019"),
    ),
    pytest.param(
        [], [EAST, WEST], {"aws": "gone"}, None, "error getting volume snapshot location named gone: "
    ),
    pytest.param(["x"], Unreadable("no"), {}, None, "error getting volume snapshot location named x: no"),
    pytest.param([], Unreadable("no"), {}, None, "error listing volume snapshot locations: no"),
]


@pytest.mark.spec("API-011")
@pytest.mark.parametrize(("names", "existing", "defaults", "chosen", "problem"), SNAPSHOT_CASES)
def test_snapshot_locations(
    names: list[str],
    existing: SnapshotLocations,
    defaults: dict[str, str],
    chosen: list[str] | None,
    problem: str,
) -> None:
    spec = BackupSpec(volume_snapshot_locations=names)
    prepared = prepare(spec, snapshots=existing, snapshot_locations=defaults)
    if chosen is None:
        (text,) = prepared.status.validation_errors
        assert problem in text
        assert prepared.spec.volume_snapshot_locations == names
    else:
        assert prepared.status.validation_errors == []
        assert prepared.spec.volume_snapshot_locations == chosen


@pytest.mark.spec("API-011", "BKP-020")
@pytest.mark.parametrize(("names", "existing", "defaults", "chosen", "problem"), SNAPSHOT_CASES)
def test_without_snapshots_no_snapshot_location_is_chosen(
    names: list[str], existing: SnapshotLocations, defaults: dict[str, str], chosen: object, problem: str
) -> None:
    spec = BackupSpec(volume_snapshot_locations=names, snapshot_volumes=False)
    prepared = prepare(spec, snapshots=existing, snapshot_locations=defaults)
    assert prepared.status.validation_errors == []
    assert prepared.spec.volume_snapshot_locations == []


def test_locations_that_cannot_be_read_are_an_error() -> None:
    prepared = prepare(locations=Unreadable("etcd is gone"))
    assert prepared.spec.storage_location == "default"
    assert prepared.status.validation_errors == ["error getting backup storage location: etcd is gone"]


def test_difference_is_what_has_to_be_patched() -> None:
    given = Backup(metadata=ObjectMeta(name="b1"))
    patch = merge_patch(encode(given), encode(prepare(backup=given)))
    assert sorted(patch) == ["metadata", "spec", "status"]
    assert patch["status"]["phase"] == "InProgress"
    assert patch["spec"] == {
        "ttl": "720h0m0s",
        "storageLocation": "default",
        "defaultVolumesToFsBackup": False,
        "csiSnapshotTimeout": "10m0s",
        "itemOperationTimeout": "4h0m0s",
    }


@pytest.mark.found("X3")
@pytest.mark.parametrize(
    ("restic", "fs_backup", "server", "written"),
    [
        (None, True, False, True),
        (None, False, True, False),
        (True, None, False, True),
        (True, True, False, True),
        (None, None, True, True),
    ],
)
def test_both_names_of_the_default_for_pod_volumes_count(
    restic: bool | None, fs_backup: bool | None, server: bool, written: bool
) -> None:
    spec = BackupSpec(default_volumes_to_restic=restic, default_volumes_to_fs_backup=fs_backup)

    prepared = prepare(spec, volumes_to_fs_backup=server).spec
    assert prepared.default_volumes_to_fs_backup is written
    assert prepared.default_volumes_to_restic is restic


def test_contradicting_names_of_the_default_for_pod_volumes_are_refused() -> None:
    spec = BackupSpec(default_volumes_to_restic=True, default_volumes_to_fs_backup=False)

    (error,) = prepare(spec).status.validation_errors

    assert "must not differ" in error


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"included_resources": ["pods"], "included_cluster_scoped_resources": ["nodes"]},
            "includedResources cannot be used together with includedClusterScopedResources: filter either all"
            " resources by one pair of lists, or each scope by its own",
        ),
        (
            {"label_selector": LabelSelector(), "or_label_selectors": [LabelSelector()]},
            "encountered labelSelector as well as orLabelSelectors in backup spec, only one can be specified",
        ),
    ],
)
def test_filters_that_contradict_each_other_fail_validation(spec: dict[str, Any], problem: str) -> None:
    status = prepare(BackupSpec(**spec)).status
    assert (status.phase, status.validation_errors) == (BackupPhase.FAILED_VALIDATION, [problem])


@pytest.mark.found("G5")
@pytest.mark.parametrize("mover", ["", "velero", "velero-fs"])
def test_the_built_in_mover_may_have_any_of_its_names(mover: str) -> None:
    assert movement_errors(BackupSpec(snapshot_move_data=True, datamover=mover), "spec") == []


@pytest.mark.parametrize("mover", ["velero-block", "theirs"])
def test_another_mover_is_refused_where_data_is_moved(mover: str) -> None:
    (error,) = movement_errors(BackupSpec(snapshot_move_data=True, datamover=mover), "spec")
    assert error.startswith(f"spec.datamover {mover} is not known: ")
    assert movement_errors(BackupSpec(datamover=mover), "spec") == []
