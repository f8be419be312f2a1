"""The first process of a node: `init.py NODE_DIRECTORY KUBELET READY_FILE`.

Started by `unshare` in namespaces of its own (mounts, network, process ids), it gives the node its view of
the machine and then only collects the orphans that end. Everything else of the node is entered into these
namespaces, so its end ends the node: the kernel kills every process in them, and with the last process go
all mounts and the network.

The view: the machine's file system, but with /var/lib, /var/log and /run of the node's own. So the kubelet's
root is /var/lib/kubelet, as on any node, several nodes do not meet, and nothing is written beside the node's
folder.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

OWN_DIRECTORIES = ("lib", "log")
# The kubelet sets these for the whole machine, and ends when it cannot. Here it sets files of its own.
KERNEL_PARAMETERS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
KUBELET = Path("/run/pinnace/kubelet")


def main() -> None:
    """Set up, say so, and wait for orphans until killed."""
    directory, kubelet, ready = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    # The /proc in place is still the machine's, where this process has another number than 1.
    machine_pid = os.readlink("/proc/self")
    with ready.open("w") as answer:  # opened before /var changes under it
        _set_up(directory, kubelet)
        answer.write(f"{machine_pid}\n")
    while True:
        signal.sigwait({signal.SIGCHLD})
        _collect_orphans()


def _set_up(directory: Path, kubelet: str) -> None:
    _mount("-t", "proc", "proc", "/proc")
    _mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run")
    KUBELET.parent.mkdir()
    KUBELET.touch()
    # Reached by a path that cannot be hidden by the mounts below.
    _mount("--bind", kubelet, str(KUBELET))
    for name in OWN_DIRECTORIES:
        source = directory / name
        source.mkdir(exist_ok=True)
        _mount("--bind", str(source), f"/var/{name}")
    for name in KERNEL_PARAMETERS:
        copy = KUBELET.with_name(name.replace("/", "."))
        copy.write_text(Path("/proc/sys", name).read_text())
        _mount("--bind", str(copy), f"/proc/sys/{name}")
    # What the kubelet mounts for a pod must show up in a pod that asked for it (HostToContainer).
    _mount("--make-rshared", "/")


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, timeout=10)


def _collect_orphans() -> None:
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


if __name__ == "__main__":
    main()
