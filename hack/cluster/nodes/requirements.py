"""What a machine needs to run nodes, and whether this one has it."""

import os
import shutil
import sys
from pathlib import Path

from hack.cluster.errors import ClusterError, ProgramUnavailable
from hack.cluster.nodes.config import CNI_DIRECTORIES, CNI_PLUGINS
from hack.cluster.processes import run_command

PROBE_TIMEOUT_SECONDS = 60.0
# What a start does first, in namespaces that end with the command.
PROBE = """
mount -t tmpfs tmpfs /run
ip link add probe0 type bridge
ip link add probe1 type veth peer name probe2
"""
PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "containerd-shim-runc-v2": "containerd",
    "runc": "runc",
    "busybox": "busybox-static",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
CNI_PACKAGE = "containernetworking-plugins"


def why_impossible() -> str | None:
    """Return why nodes can never run here as things stand, or None when they can.

    A missing program is no such reason, since it can be installed: see `require`.
    """
    if sys.platform != "linux":
        return "nodes need Linux"
    if os.geteuid() != 0:
        return "nodes need root, for namespaces, mounts and control groups"
    if any(shutil.which(program) is None for program in ("ip", "unshare")):
        return None  # cannot be tried; `require` says what is missing
    try:
        run_command(
            ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh", "-ec", PROBE],
            timeout_seconds=PROBE_TIMEOUT_SECONDS,
        )
    except ClusterError as error:
        return f"nodes need namespaces, bridges and veth pairs: {error}"
    return None


def require() -> None:
    """Check that nodes can run here and that their programs are there.

    Raises:
        ClusterError: they can never run; the text says why.
        ProgramUnavailable: the text says what is missing and how to get it.
    """
    if reason := why_impossible():
        raise ClusterError(reason)
    missing = {program: package for program, package in PACKAGES.items() if shutil.which(program) is None}
    if _find_cni() is None:
        missing[f"CNI plugins ({', '.join(CNI_PLUGINS)})"] = CNI_PACKAGE
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        raise ProgramUnavailable(
            f"A node needs programs that this machine lacks: {', '.join(missing)}. "
            f"On Debian and Ubuntu: apt-get install {packages}"
        )


def cni_directory() -> Path:
    """Return the folder of the CNI plugins."""
    found = _find_cni()
    if found is None:
        raise ProgramUnavailable(f"The CNI plugins are missing. On Debian: apt-get install {CNI_PACKAGE}")
    return found


def _find_cni() -> Path | None:
    for directory in map(Path, CNI_DIRECTORIES):
        if all(os.access(directory / plugin, os.X_OK) for plugin in CNI_PLUGINS):
            return directory
    return None
