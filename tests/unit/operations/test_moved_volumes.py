"""The records of volumes whose data was moved, when the operations have ended."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.volume_info import BackupVolumeInfo, DataMovementInfo
from pinnace.operations.moved_volumes import lacking, with_outcomes
from pinnace.plugins.item_operations import ItemOperation, OperationPhase
from pinnace.plugins.protocols import ResourceIdentifier

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CLAIM = ResourceIdentifier(group="", resource="persistentvolumeclaims", namespace="ns", name="data")
UPLOAD = ResourceIdentifier(group="velero.io", resource="datauploads", namespace="velero", name="b-1")


def info(operation: str = "du-1") -> BackupVolumeInfo:
    return BackupVolumeInfo(
        pvc_namespace="ns",
        pvc_name="data",
        snapshot_data_moved=True,
        result="succeeded",
        snapshot_data_movement_info=DataMovementInfo(data_mover="velero", operation_id=operation),
    )


def operation(error: str = "") -> ItemOperation:
    phase = OperationPhase.FAILED if error else OperationPhase.COMPLETED
    return ItemOperation(
        action="a",
        operation_id="du-1",
        item=CLAIM,
        created=NOW,
        post_items=[UPLOAD],
        phase=phase,
        error=error,
    )


def upload(**status: object) -> JSONObject:
    return {"metadata": {"name": "b-1"}, "status": status}


def test_the_record_says_where_the_data_is_and_how_much() -> None:
    status = {
        "phase": "Completed",
        "snapshotID": "abc",
        "completionTimestamp": "2026-01-02T03:04:05Z",
        "incrementalBytes": 5,
        "progress": {"totalBytes": 20, "bytesDone": 20},
    }

    [found] = with_outcomes([info()], [operation()], {UPLOAD: upload(**status)})

    assert (found.result, found.completion_timestamp) == ("succeeded", NOW)
    assert found.snapshot_data_movement_info == DataMovementInfo(
        data_mover="velero",
        operation_id="du-1",
        snapshot_handle="abc",
        size=20,
        incremental_size=5,
        phase="Completed",
    )


@pytest.mark.parametrize("objects", [{}, {UPLOAD: upload(phase=3)}, {UPLOAD: upload(phase="Failed")}])
def test_a_failed_operation_is_no_success(objects: dict[ResourceIdentifier, JSONObject]) -> None:
    [found] = with_outcomes([info()], [operation("disk on fire")], objects)

    assert found.result == "failed"
    assert found.snapshot_data_movement_info is not None
    assert found.snapshot_data_movement_info.snapshot_handle == ""


@pytest.mark.found("V07")
def test_files_that_were_not_moved_as_they_are_are_warnings() -> None:
    spec = {"sourceNamespace": "ns", "sourcePVC": "data"}
    said = {**upload(phase="Completed", message="sockets were not saved: s"), "spec": spec}
    others = [
        upload(phase="Completed"),
        upload(phase="Failed", message="no"),
        upload(phase="Completed", message=3),
        {**upload(phase="Completed", message="all is well"), "spec": {**spec, "datamover": "vendor"}},
    ]
    uploads = {replace(UPLOAD, name=f"b-{number}"): each for number, each in enumerate([*others, said])}

    assert lacking({**uploads, CLAIM: said}) == [
        "Volume of PersistentVolumeClaim ns/data: sockets were not saved: s"
    ]


def test_other_records_stay_as_they_are() -> None:
    plain = BackupVolumeInfo(pvc_namespace="ns", pvc_name="plain", result="succeeded")

    assert with_outcomes([plain, info("du-2")], [operation()], {}) == [plain, info("du-2")]
