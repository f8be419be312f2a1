"""What Pinnace adds to kopia, and its memory: the same volume saved by kopia alone and by the adapter.

Two volumes, of few large and of many small files, each saved twice: new, and with nothing changed.

    python -m bench.kopia --mib 1024
"""

import argparse
import asyncio
import base64
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from hack.cluster import binaries
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import SECRETS, APIResource
from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.interface import Source

PLACE = Repository(location="default", namespace="bench")
PASSWORD = "bench"
FILES = (1_000, 50_000)


class _Cluster:
    """A location in a folder, and the password."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def get(self, resource: APIResource, name: str, namespace: str) -> dict[str, Any]:
        if resource == SECRETS:
            return {"data": {"repository-password": base64.b64encode(PASSWORD.encode()).decode()}}
        spec = {
            "provider": "pinnace.io/filesystem",
            "config": {"path": str(self._folder)},
            "objectStorage": {"bucket": "bucket"},
        }
        return {
            "apiVersion": "velero.io/v1",
            "kind": "BackupStorageLocation",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }


def fill(folder: Path, files: int, size_bytes: int) -> None:
    """Write files of equal size and random content."""
    generator = random.Random(files)
    for number in range(files):
        path = folder / f"{number % 100:02}" / f"{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(generator.randbytes(size_bytes // files))


def alone(program: str, folder: Path, volume: Path) -> list[float]:
    """Seconds of the first and second snapshot by kopia itself."""
    environment = {
        **os.environ,
        "HOME": str(folder),
        "KOPIA_PASSWORD": PASSWORD,
        "KOPIA_CONFIG_PATH": str(folder / "alone.config"),
    }
    common = [program, "--disable-file-logging", "--no-auto-maintenance"]

    def run(*args: str) -> float:
        began = time.monotonic()
        subprocess.run([*common, *args], env=environment, check=True, capture_output=True)
        return time.monotonic() - began

    (folder / "alone").mkdir()
    run("repository", "create", "filesystem", f"--path={folder / 'alone'}", "--flat")
    return [run("snapshot", "create", str(volume)) for _ in range(2)]


async def adapted(program: str, folder: Path, volume: Path) -> list[float]:
    """The same by the adapter."""
    work = folder / "work"
    work.mkdir()
    (folder / "bucket").mkdir()
    inherited: Mapping[str, str] = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    accesses = AccessProvider(cast("KubeClient", _Cluster(folder)), "velero", work, inherited=inherited)
    kopia = Kopia(accesses, program=program)
    await kopia.init(PLACE)
    taken = []
    for number in range(2):
        began = time.monotonic()
        await kopia.save(PLACE, Source(path=volume, name="bench", tags={"backup": str(number)}))
        taken.append(time.monotonic() - began)
    return taken


def main() -> None:
    """Measure and print one line of JSON for each volume."""
    parser = argparse.ArgumentParser(prog="python -m bench.kopia", description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="size of a volume (1024)")
    parser.add_argument("--runs", type=int, default=5, help="samples of each (5)")
    options = parser.parse_args()
    program = str(binaries.locate(binaries.UPLOADER)["kopia"])
    for files in FILES:
        samples: list[list[float]] = []
        with tempfile.TemporaryDirectory(prefix="bench-kopia-") as name:
            volume = Path(name) / "volume"
            volume.mkdir()
            fill(volume, files, options.mib << 20)
            for number in range(options.runs):
                folder = Path(name) / str(number)
                folder.mkdir()
                samples.append(
                    [*alone(program, folder, volume), *asyncio.run(adapted(program, folder, volume))]
                )
        first, second, ours_first, ours_second = (
            statistics.median(each) for each in zip(*samples, strict=True)
        )
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        line = {
            "files": files,
            "mib": options.mib,
            "first": {"kopia": first, "pinnace": ours_first, "ratio": ours_first / first},
            "second": {"kopia": second, "pinnace": ours_second, "ratio": ours_second / second},
            "peak_child_mib": peak,
            "own_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        }
        sys.stdout.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
