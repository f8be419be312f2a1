"""Where volumes are on a node."""

from pathlib import Path

import pytest

from pinnace.api.objects import JSONObject
from pinnace.volumes.pods.host_paths import (
    HostPathError,
    find_device,
    find_volume_path,
    volume_claim,
    volume_directory,
)
from tests.unit.volumes.pod_volumes import a_pod, claimed, empty_dir

CSI = {"metadata": {"name": "a-pv"}, "spec": {"csi": {"driver": "d"}}}
NFS = {"metadata": {"name": "a-pv"}, "spec": {"nfs": {}}}
CLAIMED = a_pod(claimed("my-vol", "my-claim"))


@pytest.mark.spec("PVL-011", "PVL-012", "PVL-013", "PVL-014", "CTL-053")
@pytest.mark.parametrize(
    ("pod", "persistent", "directory"),
    [
        (CLAIMED, NFS, "a-pv"),
        (CLAIMED, CSI, "a-pv/mount"),
        (a_pod({"name": "my-vol", "csi": {"driver": "d"}}), None, "my-vol/mount"),
        (a_pod(empty_dir("my-vol")), None, "my-vol"),
        (a_pod({"name": "my-vol", "ephemeral": {}}), CSI, "a-pv/mount"),
    ],
)
def test_the_directory_of_each_kind_of_volume(
    pod: JSONObject, persistent: JSONObject | None, directory: str
) -> None:
    assert volume_directory(pod, "my-vol", persistent) == directory


@pytest.mark.spec("PVL-015")
def test_without_volume_or_persistent_volume_there_is_no_directory() -> None:
    with pytest.raises(HostPathError, match="volume not found in pod"):
        volume_directory(CLAIMED, "other", CSI)
    with pytest.raises(HostPathError, match="volume not found in pod"):
        volume_claim(CLAIMED, "other")
    with pytest.raises(HostPathError, match="not bound"):
        volume_directory(CLAIMED, "my-vol", None)


@pytest.mark.parametrize(
    ("source", "claim"),
    [
        (claimed("v", "c"), "c"),
        ({"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}, "p-v"),
        (empty_dir("v"), ""),
    ],
)
def test_the_claim_of_each_kind_of_volume(source: JSONObject, claim: str) -> None:
    assert volume_claim(a_pod(source), "v") == claim


@pytest.mark.spec("PVL-016")
@pytest.mark.parametrize("plugins", [[], ["kubernetes.io~csi"], ["kubernetes.io~csi", "kubernetes.io~nfs"]])
def test_exactly_one_match_is_expected(tmp_path: Path, plugins: list[str]) -> None:
    for plugin in plugins:
        (tmp_path / "uid" / "volumes" / plugin / "a-pv").mkdir(parents=True)
    (tmp_path / "uid" / "volumes" / "kubernetes.io~secret" / "other").mkdir(parents=True)

    if len(plugins) == 1:
        assert find_volume_path(tmp_path, "uid", "a-pv") == tmp_path / "uid/volumes/kubernetes.io~csi/a-pv"
    else:
        with pytest.raises(HostPathError, match=f"^expected one matching path, got {len(plugins)}$"):
            find_volume_path(tmp_path, "uid", "a-pv")


def test_a_volume_migrated_to_csi_is_its_mount(tmp_path: Path) -> None:
    path = tmp_path / "uid" / "volumes" / "kubernetes.io~csi" / "a-pv"
    (path / "mount").mkdir(parents=True)
    (path / "vol_data.json").write_text("{}")

    assert find_volume_path(tmp_path, "uid", "a-pv") == path / "mount"
    assert find_volume_path(tmp_path, "uid", "a-pv/mount") == path / "mount"


def test_a_volume_that_only_looks_migrated_is_used_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "uid" / "volumes" / "kubernetes.io~nfs" / "a-pv"
    (path / "mount").mkdir(parents=True)
    (path / "vol_data.json").write_text("{}")

    assert find_volume_path(tmp_path, "uid", "a-pv") == path


@pytest.mark.parametrize(("uid", "directory"), [("..", "x"), ("", "x"), ("uid", ".."), ("uid", "a/../../b")])
def test_names_do_not_lead_elsewhere(tmp_path: Path, uid: str, directory: str) -> None:
    (tmp_path / "volumes" / "plugin" / "x").mkdir(parents=True)

    with pytest.raises(HostPathError):
        find_volume_path(tmp_path, uid, directory)


def test_a_volume_in_block_mode_is_refused_with_the_reason() -> None:
    block = {"metadata": {"name": "a-pv"}, "spec": {"csi": {"driver": "d"}, "volumeMode": "Block"}}

    with pytest.raises(HostPathError, match="in Block mode, and only volumes with files"):
        volume_directory(CLAIMED, "my-vol", block)


def add_device(pods: Path, plugin: str, target: Path) -> None:
    folder = pods / "uid-p" / "volumeDevices" / plugin
    folder.mkdir(parents=True)
    (folder / "a-pv").symlink_to(target)


@pytest.mark.parametrize("plugins", [(), ("kubernetes.io~csi", "kubernetes.io~other")], ids=["none", "two"])
def test_a_volume_that_is_not_one_device_is_refused(tmp_path: Path, plugins: tuple[str, ...]) -> None:
    for plugin in plugins:
        add_device(tmp_path, plugin, Path("/dev/null"))

    with pytest.raises(HostPathError, match=f"expected one matching device, got {len(plugins)}"):
        find_device(tmp_path, "uid-p", "a-pv")


@pytest.mark.parametrize(
    ("pod_uid", "volume"), [("", "a-pv"), ("..", "a-pv"), ("uid-p", "../a-pv"), ("uid-p", "..")]
)
def test_a_device_is_looked_for_only_below_its_pod(tmp_path: Path, pod_uid: str, volume: str) -> None:
    add_device(tmp_path, "kubernetes.io~csi", Path("/dev/null"))

    with pytest.raises(HostPathError, match="expected one matching device, got 0"):
        find_device(tmp_path, pod_uid, volume)


def test_the_target_of_the_kubelet_s_link_must_be_a_block_device(tmp_path: Path) -> None:
    add_device(tmp_path, "kubernetes.io~csi", Path("/dev/null"))

    with pytest.raises(HostPathError, match="/dev/null is no block device"):
        find_device(tmp_path, "uid-p", "a-pv")


def test_an_agent_that_does_not_see_the_device_names_what_it_lacks(tmp_path: Path) -> None:
    add_device(tmp_path, "kubernetes.io~csi", tmp_path / "plugins" / "elsewhere")

    with pytest.raises(
        HostPathError, match="No such file or directory: volumes in Block mode need a privileged"
    ):
        find_device(tmp_path, "uid-p", "a-pv")
