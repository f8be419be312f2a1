"""Facts about the machine of a run, without any that would identify it."""

import os
import platform
import re
from pathlib import Path

GIBIBYTE = 1 << 30


def describe(kubernetes_version: str) -> dict[str, str]:
    """Facts that decide how fast things are."""
    return {
        "CPU": _first("/proc/cpuinfo", r"model name\s*:\s*(.+)") or platform.machine(),
        "cores": f"{len(os.sched_getaffinity(0))}, shared by client and servers",
        "memory": f"{_memory_bytes() / GIBIBYTE:.0f} GiB",
        "kernel": f"{platform.system()} {_plain_version(platform.release())}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "Kubernetes": (
            "none"
            if kubernetes_version == "none"
            else f"{kubernetes_version}, etcd without fsync, API server's throttles raised"
        ),
    }


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _plain_version(release: str) -> str:
    # The rest of the release can be a name that was given to a custom kernel.
    found = re.match(r"[\d.]+", release)
    return found[0] if found else release


def _first(path: str, pattern: str) -> str:
    try:
        found = re.search(pattern, Path(path).read_text())
    except OSError:
        return ""
    return found[1].strip() if found else ""
