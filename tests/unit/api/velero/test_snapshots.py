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
    text = json.dumps([RECORD, RECORD]).replace("PersistentVolumeName", key).encode()
    snapshots = decode_snapshots(text)
    assert [snapshot.spec.persistent_volume_name for snapshot in snapshots] == ["pv-1", "pv-1"]
    assert json.loads(encode_snapshots(snapshots)) == [RECORD, RECORD]


def test_other_keys_too() -> None:
    (snapshot,) = decode_snapshots(
        b'[{"Spec":{"BackupName":"b","volumeIops":7},"STATUS":{"Phase":"Failed"}}]'
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
    (snapshot,) = decode_snapshots(f'[{{"spec":{spec}}}]'.encode())
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


@pytest.mark.parametrize("text", [b"null\n", b"[]", b" null "])
def test_no_records(text: bytes) -> None:
    assert decode_snapshots(text) == []


def test_empty_list_is_written_as_null() -> None:
    assert encode_snapshots([]) == b"null\n"


def test_null_values_are_absent() -> None:
    (snapshot,) = decode_snapshots(b'[{"spec":{"volumeIOPS":null,"volumeAZ":null},"status":null}]')
    assert snapshot == VolumeSnapshot()


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (b"foo", ""),
        (b"", ""),
        (b"{}", ""),
        (b"[1]", "[0]"),
        (b'[{},{"spec":{"volumeIOPS":"x"}}]', "[1].spec.volumeIOPS"),
        (b'[{"spec":[]}]', "[0].spec"),
        (b"[" * 100_000, ""),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_list_of_records_is_refused(text: bytes, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_snapshots(text)
    assert caught.value.path == path
