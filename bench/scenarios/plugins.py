"""The cost of an item action in another process: `python -m bench.scenarios.plugins` (scenario `plugins`).

Sends 10,000 generated pods through the backup item action of the sample plugin: our own program, and the one
that Velero's framework was compiled into, with as many items at once as the backup engine takes and with
many. A bare call of the action in this process stands beside them.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.figures import Figure, Rule, Series, Target, Unit, text_table
from bench.measure import SampleFailed
from hack.cluster import binaries
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.backup.collecting import ITEMS_AT_ONCE
from pinnace.plugins.asynchronous import BackupItemActionV2
from pinnace.plugins.errors import PluginError
from pinnace.plugins.installed import PluginOptions, find_plugins
from pinnace.plugins.protocols import BackupItemAction
from tests.support.plugins.programs import SAMPLE_MODULE, put_own

TARGET: Final = Target(first=1e6 / 1_000, aim=1e6 / 3_000)
"""A thousand, and three thousand, objects a second."""

OBJECTS: Final = 10_000
MANY: Final = 64
IN_PROCESS: Final = "in this process"
Say = Callable[[str], None]

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


async def observe(folder: Path, count: int, runs: int, say: Say) -> dict[str, list[float]]:
    """The rates of each candidate, interleaved."""
    found: dict[str, list[float]] = {}
    own, compiled = folder / "own", folder / "compiled"
    put_own(own)
    compiled.mkdir()
    (compiled / "sample").symlink_to(binaries.locate(["plugin-sample"])["plugin-sample"])
    ways = {
        IN_PROCESS: PluginOptions(modules=[SAMPLE_MODULE]),
        "own program": PluginOptions(modules=[], directory=own),
        "compiled program": PluginOptions(modules=[], directory=compiled),
    }
    for number in range(1, runs + 1):
        for name, options in ways.items():
            plugins = await find_plugins(options)
            for at_once in (ITEMS_AT_ONCE, MANY):
                async with plugins.operation() as operation:
                    (action,) = operation.backup_actions
                    assert not isinstance(action, BackupItemActionV2)
                    label = f"{name}, {at_once} at once"
                    found.setdefault(label, []).append(await rate(action, pods(count), at_once))
        say(f"plugins {number}/{runs}")
    return found


def figures(rates: Mapping[str, Sequence[float]]) -> list[Figure]:
    """The lines of the table, as time for an object: less is better."""
    return [
        Figure(
            name=f"backup item action, {label}",
            unit=Unit.MICROSECONDS,
            rule=Rule.ALONE,
            ours=Series(name=label, values=[1e6 / each for each in values]),
            target=None if label.startswith(IN_PROCESS) else TARGET,
        )
        for label, values in rates.items()
    ]


def measure_plugins(folder: Path, count: int, runs: int, say: Say) -> list[Figure]:
    """Run the scenario. Raises SampleFailed, ClusterError."""
    folder.mkdir()
    try:
        return figures(asyncio.run(observe(folder, count, runs, say)))
    except PluginError as error:
        raise SampleFailed(str(error)) from error


def main(arguments: Sequence[str]) -> int:
    """Run it alone."""
    parser = argparse.ArgumentParser(prog="python -m bench.scenarios.plugins", description=__doc__)
    parser.add_argument("--objects", type=int, default=OBJECTS, help=f"items of a sample ({OBJECTS})")
    parser.add_argument("--runs", type=int, default=5, help="samples of each candidate (5)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="pinnace-bench-") as folder:
        found = measure_plugins(
            Path(folder, "plugins"),
            options.objects,
            options.runs,
            lambda text: print(text, file=sys.stderr, flush=True),
        )
    print(text_table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
