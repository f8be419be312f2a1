"""The records of native snapshots."""

import json

import pytest

from pinnace.api.codec import DecodeError
from pinnace.api.velero.snapshots import (
    VolumeSnapshot,
    VolumeSnapshotPhase,
    decode_snapshots,
    encode_snapshots,
)

RECORD = {
    "spec": {
        "backupName": "b",
        "backupUID": "u",
        "location": "default",
        "PersistentVolumeName": "pv-1",
        "providerVolumeID": "vol-1",
        "volumeType": "type-1",
        "volumeAZ": "zone-1",
        "volumeIOPS": 100,
    },
    "status": {"providerSnapshotID": "snap-1", "phase": "Completed"},
}


@pytest.mark.parametrize(
    "key", ["PersistentVolumeName", "persistentVolumeName", "persistentvolumename", "PERSISTENTVOLUMENAME"]
)
def test_volume_name_is_read_whatever_its_case_and_written_with_a_capital(key: str) -> None:
    text = json.dumps([RECORD, RECORD]).replace("PersistentVolumeName", key)
    snapshots = decode_snapshots(json.loads(text))
    assert [snapshot.spec.persistent_volume_name for snapshot in snapshots] == ["pv-1", "pv-1"]
    assert json.loads(encode_snapshots(snapshots)) == [RECORD, RECORD]


def test_other_keys_too() -> None:
    (snapshot,) = decode_snapshots(
        [{"Spec": {"BackupName": "b", "volumeIops": 7}, "STATUS": {"Phase": "Failed"}}]
    )
    assert snapshot.spec.backup_name == "b"
    assert snapshot.spec.volume_iops == 7
    assert snapshot.status.phase == VolumeSnapshotPhase.FAILED


@pytest.mark.parametrize(
    "spec",
    [
        '{"persistentVolumeName":"a","PersistentVolumeName":"b"}',
        '{"PersistentVolumeName":"b","persistentVolumeName":"a"}',
    ],
)
def test_exact_key_wins(spec: str) -> None:
    (snapshot,) = decode_snapshots([{"spec": json.loads(spec)}])
    assert snapshot.spec.persistent_volume_name == "b"


def test_empty_values() -> None:
    assert json.loads(encode_snapshots([VolumeSnapshot()])) == [
        {
            "spec": {
                "backupName": "",
                "backupUID": "",
                "location": "",
                "PersistentVolumeName": "",
                "providerVolumeID": "",
                "volumeType": "",
            },
            "status": {},
        }
    ]


def test_empty_list_is_written_as_null() -> None:
    assert encode_snapshots([]) == b"null\n"


def test_null_values_are_absent() -> None:
    (snapshot,) = decode_snapshots([{"spec": {"volumeIOPS": None, "volumeAZ": None}, "status": None}])
    assert snapshot == VolumeSnapshot()


@pytest.mark.parametrize(
    ("records", "path"),
    [
        ([1], "[0]"),
        ([{}, {"spec": {"volumeIOPS": "x"}}], "[1].spec.volumeIOPS"),
        ([{"spec": []}], "[0].spec"),
    ],
)
def test_what_is_no_list_of_records_is_refused(records: list[object], path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_snapshots(records)
    assert caught.value.path == path
