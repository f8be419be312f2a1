"""Which volumes are mounts, and whether one is."""

from pathlib import Path

import pytest

from pinnace.api.objects import JSONObject
from pinnace.volumes.pods.mounts import is_mount_point, must_be_mounted

CLAIM: JSONObject = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}


@pytest.mark.found("V25")
@pytest.mark.parametrize(
    ("volume", "persistent", "must"),
    [
        (CLAIM, {"csi": {"driver": "disk.csi.example.com"}}, True),
        (CLAIM, {"nfs": {"server": "s"}}, True),
        (CLAIM, {"local": {"path": "/disk"}}, True),
        (CLAIM, {"gcePersistentDisk": {"pdName": "d"}}, True),
        (CLAIM, {"hostPath": {"path": "/disk"}}, False),
        (CLAIM, {"flexVolume": {"driver": "vendor/driver"}}, False),
        ({"name": "v", "ephemeral": {}}, {"csi": {"driver": "disk.csi.example.com"}}, True),
        ({"name": "v", "csi": {"driver": "inline.csi.example.com"}}, None, True),
        ({"name": "v", "nfs": {"server": "s"}}, None, True),
        ({"name": "v", "emptyDir": {"medium": "Memory"}}, None, True),
        ({"name": "v", "emptyDir": {"medium": "HugePages-2Mi"}}, None, True),
        ({"name": "v", "emptyDir": {"medium": ""}}, None, False),
        ({"name": "v", "emptyDir": {}}, None, False),
        ({"name": "v", "configMap": {"name": "c"}}, None, False),
        ({"name": "v", "projected": {}}, None, False),
    ],
    ids=str,
)
def test_volumes_are_mounts_unless_their_kind_is_a_directory(
    volume: JSONObject, persistent: JSONObject | None, must: bool
) -> None:
    spec = None if persistent is None else {"metadata": {"name": "pv"}, "spec": persistent}
    assert must_be_mounted(volume, spec) is must


@pytest.mark.found("V25")
def test_a_mount_is_told_from_a_directory(tmp_path: Path) -> None:
    assert is_mount_point(Path("/proc"))
    assert not is_mount_point(tmp_path)
    with pytest.raises(FileNotFoundError):
        is_mount_point(tmp_path / "missing")
