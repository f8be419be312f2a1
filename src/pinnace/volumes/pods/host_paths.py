"""Finds the directory of a pod's volume on its node. (docs/spec: PVL 6)

/host_pods/<pod uid>/volumes/<plug-in>/<directory>      e.g. kubernetes.io~csi/pvc-7d3/mount
"""

import os
from pathlib import Path
from typing import Final

from pinnace.api.objects import JSONObject
from pinnace.volumes.pods.pod_claims import claim_name, find_volume

CSI_PLUGIN: Final = "kubernetes.io~csi"
CSI_MOUNT: Final = "mount"
CSI_NOTES: Final = "vol_data.json"


class HostPathError(Exception):
    """The volume is not where it should be; the text is Velero's."""


def volume_claim(pod: JSONObject, volume: str) -> str:
    """The claim behind a volume of a pod; empty if there is none.

    Raises:
        HostPathError: the pod has no such volume.
    """
    source = find_volume(pod, volume)
    if source is None:
        raise HostPathError("volume not found in pod")
    return claim_name(pod, source)


def volume_directory(pod: JSONObject, volume: str, persistent: JSONObject | None) -> str:
    """The name of the volume's directory: pure.

    Args:
        persistent: the PersistentVolume that the volume's claim is bound to; None without a claim.

    Raises:
        HostPathError: the pod has no such volume, its claim is not bound, or the volume is in Block mode.
    """
    source = find_volume(pod, volume)
    if source is None:
        raise HostPathError("volume not found in pod")
    if not claim_name(pod, source):
        return f"{volume}/{CSI_MOUNT}" if source.get("csi") is not None else volume
    if persistent is None:
        raise HostPathError("the volume's claim is not bound to a persistent volume")
    if (persistent.get("spec") or {}).get("volumeMode") == "Block":
        raise HostPathError(
            "the volume is in Block mode, and only volumes with files are saved from pods: take a CSI"
            " snapshot of it, and move its data with --snapshot-move-data"
        )
    name: str = persistent["metadata"]["name"]
    return f"{name}/{CSI_MOUNT}" if (persistent.get("spec") or {}).get("csi") is not None else name


def find_volume_path(pods: Path, pod_uid: str, directory: str) -> Path:
    """The volume's content on this node.

    A volume of an in-tree plugin that was migrated to CSI has its content one level deeper than its
    PersistentVolume says. Snapshots that Velero took of the level above begin with `mount/`; a restore has to
    check that (`is_csi_parent`).

    Args:
        pods: the kubelet's directory of pods.
        directory: as volume_directory() gives it.

    Raises:
        HostPathError: there is not exactly one such directory.
    """
    if not pod_uid or any(part in ("", ".", "..") for part in (pod_uid, *directory.split("/"))):
        raise HostPathError("expected one matching path, got 0")
    volumes = pods / pod_uid / "volumes"
    plugins = sorted(volumes.iterdir()) if volumes.is_dir() else []
    found = [plugin / directory for plugin in plugins if (plugin / directory).exists()]
    if len(found) != 1:
        raise HostPathError(f"expected one matching path, got {len(found)}")
    [path] = found
    return path / CSI_MOUNT if is_csi_parent(path) else path


def find_device(pods: Path, pod_uid: str, volume: str) -> Path:
    """The device of a pod's volume in Block mode, opened once to check that it can be.

    The kubelet has a link to it, below its directory of plugins:
    /host_pods/<pod uid>/volumeDevices/<plug-in>/<PersistentVolume>

    Raises:
        HostPathError: there is not exactly one, or it cannot be opened.
    """
    if not pod_uid or any(part in ("", ".", "..") or "/" in part for part in (pod_uid, volume)):
        raise HostPathError("expected one matching device, got 0")
    devices = pods / pod_uid / "volumeDevices"
    plugins = sorted(devices.iterdir()) if devices.is_dir() else []
    found = [plugin / volume for plugin in plugins if os.path.lexists(plugin / volume)]
    if len(found) != 1:
        raise HostPathError(f"expected one matching device, got {len(found)}")
    [path] = found
    try:
        device = path.resolve(strict=True)
        if not device.is_block_device():
            raise HostPathError(f"{device} is no block device")
        with device.open("rb", buffering=0):
            return device
    except OSError as error:
        raise HostPathError(
            f"the device of the volume cannot be opened: {error.strerror}: volumes in Block mode need a"
            " privileged node agent that sees the kubelet's directory of plugins (`pinnace install"
            " --use-node-agent --privileged-node-agent`)"
        ) from error


def is_csi_parent(path: Path) -> bool:
    """Whether CSI mounts a volume in this directory, beside its own notes."""
    mounted = path.parent.name == CSI_PLUGIN and (path / CSI_MOUNT).is_dir()
    return mounted and (path / CSI_NOTES).is_file()


def is_migrated(path: Path, directory: str) -> bool:
    """Whether a found path is one level below the directory that was looked for: a volume of an old plug-in,
    migrated to CSI. Velero's snapshots of such a volume may be of the level above."""
    return path.name == CSI_MOUNT and not f"/{directory}".endswith(f"/{CSI_MOUNT}")
