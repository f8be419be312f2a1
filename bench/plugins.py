"""`python -m bench.plugins`: items a second through an action in another process.

Sends 10,000 generated pods through the backup item action of the sample plugin: our own program, and the one
that Velero's framework was compiled into, with as many items at once as the backup engine takes and with
many. A bare call of the action in this process stands beside them.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from hack.cluster import binaries
from hack.cluster.errors import ClusterError
from pinnace.api.backup import Backup
from pinnace.api.meta import ObjectMeta
from pinnace.backup.engine import ITEMS_AT_ONCE
from pinnace.plugins.errors import PluginError
from pinnace.plugins.installed import PluginOptions, find_plugins
from pinnace.plugins.protocols import BackupItemAction
from tests.support.plugin_programs import SAMPLE_MODULE, put_own

FIRST_TARGET: Final = 1_000.0
AIM: Final = 3_000.0
MANY: Final = 64
BACKUP = Backup(metadata=ObjectMeta(name="bench", namespace="velero"))


def pods(count: int) -> list[dict[str, Any]]:
    """Pods of the size that a small Deployment makes, about 2 KiB of JSON."""
    container = {
        "name": "web",
        "image": "registry.example.com/shop/web:1.2.3",
        "env": [{"name": f"SETTING_{number}", "value": "value " * 4} for number in range(12)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/data"}],
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"web-{number}",
                "namespace": "shop",
                "labels": {"app": "web"},
                "annotations": {"example.io/do": "change"},
            },
            "spec": {"containers": [container], "nodeName": "node-1"},
            "status": {"phase": "Running", "podIP": "10.0.0.1"},
        }
        for number in range(count)
    ]


async def rate(action: BackupItemAction, items: Sequence[dict[str, Any]], at_once: int) -> float:
    """Items a second."""
    waiting = iter(items)

    async def work() -> None:
        for item in waiting:
            await action.execute(item, BACKUP)

    await action.applies_to()
    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    return len(items) / (time.perf_counter() - start)


async def measure(count: int, runs: int) -> dict[str, list[float]]:
    """The rates of each candidate, interleaved."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="pinnace-bench-") as folder:
        own, compiled = Path(folder, "own"), Path(folder, "compiled")
        put_own(own)
        compiled.mkdir()
        (compiled / "sample").symlink_to(binaries.locate(["plugin-sample"])["plugin-sample"])
        ways = {
            "in this process": PluginOptions(modules=[SAMPLE_MODULE]),
            "own program": PluginOptions(modules=[], directory=own),
            "compiled program": PluginOptions(modules=[], directory=compiled),
        }
        for _ in range(runs):
            for name, options in ways.items():
                plugins = await find_plugins(options)
                for at_once in (ITEMS_AT_ONCE, MANY):
                    async with plugins.operation() as operation:
                        (action,) = operation.backup_actions
                        label = f"{name}, {at_once} at once"
                        found.setdefault(label, []).append(await rate(action, pods(count), at_once))
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.plugins", description=__doc__)
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    options = parser.parse_args(arguments)
    try:
        found = asyncio.run(measure(options.objects, options.runs))
    except (PluginError, ClusterError) as error:
        print(f"bench failed: {error}", file=sys.stderr)
        return 1
    print(f"{'candidate':32}{'objects/s, median':>20}{'min':>10}{'max':>10}  target / aim")
    for label, rates in found.items():
        middle = median(rates)
        met = f"{'yes' if middle >= FIRST_TARGET else 'no'} / {'yes' if middle >= AIM else 'no'}"
        print(f"{label:32}{middle:>20,.0f}{min(rates):>10,.0f}{max(rates):>10,.0f}  {met}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
