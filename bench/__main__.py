"""`python -m bench`: run scenarios, print one table."""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from bench import machine, results
from bench.figures import Figure, text_table
from bench.floor.cluster import BenchCluster
from bench.floor.generate import Generator
from bench.floor.posting import CreateFailed
from bench.measure import SampleFailed
from bench.scenarios.browse import OBJECTS as BROWSE_OBJECTS
from bench.scenarios.browse import measure_browse
from bench.scenarios.command import measure_command
from bench.scenarios.encryption import measure_encryption
from bench.scenarios.flood import measure_flood
from bench.scenarios.idle_server import measure_idle
from bench.scenarios.kopia import measure_kopia
from bench.scenarios.long_queue import measure_queue
from bench.scenarios.nonadmin import measure_nonadmin
from bench.scenarios.objects import (
    BACKUP_TARGET,
    PINNACE,
    RESTORE_TARGET,
    SIDE_BY_SIDE,
    Bench,
    dry_run_figures,
    encryption_figures,
    index_figures,
    measure_start,
    memory_figure,
    speed_figures,
)
from bench.scenarios.plugins import OBJECTS as ITEMS
from bench.scenarios.plugins import measure_plugins
from bench.scenarios.pod_volumes import measure_pod_volumes
from bench.scenarios.restic import SIZE_MEBIBYTES, measure_restic
from bench.scenarios.soak import MINUTES, measure_soak
from hack.cluster.errors import ClusterError

SCENARIOS = (
    *("backup", "restore", "memory", "dry-run", "start", "idle"),
    *("restic", "kopia", "plugins", "nonadmin", "browse", "encryption"),
)
LONG = ("soak", "flood", "queue", "pod-volumes", "command")
"""Scenarios that take long, or need a node and root, or a Velero program: run only when they are named."""

WITHOUT_OBJECTS = frozenset(
    {"start", "idle", "restic", "kopia", "plugins", "nonadmin", "browse", "encryption", *LONG}
)
"""Scenarios that need no cluster with generated objects."""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--objects", type=int, default=10_000, help="namespaced objects (10000)")
    parser.add_argument("--namespaces", type=int, default=50, help="over how many namespaces (50)")
    parser.add_argument("--runs", type=int, default=5, help="samples of each candidate (5)")
    every = ", ".join((*SCENARIOS, *LONG))
    parser.add_argument("scenarios", nargs="*", help=f"of {every} (all but {', '.join(LONG)})")
    parser.add_argument("--only", default="", help="the same as a comma list")
    parser.add_argument(
        "--soak-minutes", type=float, default=MINUTES, help=f"how long the scenario soak runs ({MINUTES:g})"
    )
    parser.add_argument(
        "--volume-mib",
        type=int,
        default=SIZE_MEBIBYTES,
        help=f"size of the volumes of restic and kopia ({SIZE_MEBIBYTES})",
    )
    parser.add_argument(
        "--browse-objects",
        type=int,
        default=BROWSE_OBJECTS,
        help=f"objects of the backups that are looked into ({BROWSE_OBJECTS})",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    parser.add_argument("--write-results", action="store_true", help="put the table into bench/RESULTS.md")
    options = parser.parse_args(arguments)
    named = [*options.scenarios, *(options.only.split(",") if options.only else [])]
    options.only = named or list(SCENARIOS)
    if unknown := set(options.only) - {*SCENARIOS, *LONG}:
        parser.error(f"unknown scenario: {', '.join(sorted(unknown))}")
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    return options


def say(text: str) -> None:
    """Report progress on standard error; the table goes to standard output."""
    print(text, file=sys.stderr, flush=True)


def reasons(error: Exception) -> Iterator[str]:
    """The texts of an error, or of the errors in a group."""
    if isinstance(error, ExceptionGroup):
        for each in error.exceptions:
            yield from reasons(each)
    else:
        yield str(error) or type(error).__name__


def measure_cluster(options: argparse.Namespace, folder: Path) -> tuple[list[Figure], dict[str, str]]:
    """Run the scenarios that need a loaded cluster; return their figures and their setting."""
    generator = Generator(options.objects, options.namespaces)
    figures: list[Figure] = []
    with BenchCluster(folder / "run", generator) as cluster:
        say(f"loading {options.objects} objects")
        cluster.load()
        setting = {
            "Kubernetes version": cluster.server_version(),
            "objects": f"{options.objects:,} generated in {options.namespaces} namespaces, "
            f"{cluster.count():,} in the whole cluster",
        }
        bench = Bench(cluster=cluster, folder=folder, runs=options.runs, say=say)
        memory = "memory" in options.only
        if "backup" in options.only or memory:
            samples = bench.backup(floors="backup" in options.only)
            if "backup" in options.only:
                figures += speed_figures("backup", samples, BACKUP_TARGET, "LIST", stricter=SIDE_BY_SIDE)
                figures += index_figures(samples) + encryption_figures(samples)
            figures += [memory_figure("backup", samples)] if memory else []
        if "dry-run" in options.only:
            figures += dry_run_figures(bench.dry_runs())
        if "restore" in options.only or memory:
            samples = bench.restore(floors="restore" in options.only)
            if "restore" in options.only:
                figures += speed_figures("restore", samples, RESTORE_TARGET, "POST")
            figures += [memory_figure("restore", samples)] if memory else []
    return figures, setting


def title(day: date, options: argparse.Namespace) -> str:
    """The heading of a run: its day and its scenarios, each with its number of objects if it has one."""
    numbers = {name: options.objects for name in options.only if name not in WITHOUT_OBJECTS}
    numbers |= {"browse": options.browse_objects}
    named = [f"{name} ({numbers[name]:,} objects)" if name in numbers else name for name in options.only]
    return f"{day:%Y-%m-%d}: {', '.join(named)}"


def main(arguments: Sequence[str]) -> int:
    """Run the scenarios that the command line names."""
    options = parse(arguments)
    if not PINNACE.exists():
        say(f"{PINNACE.name} is not installed beside {Path(sys.executable).name}")
        return 1
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up like after Ctrl-C
    figures: list[Figure] = []
    setting = {"Kubernetes version": "none"}
    try:
        with tempfile.TemporaryDirectory(prefix="pinnace-bench-") as folder:
            if "start" in options.only:
                figures += measure_start(Path(folder), say)
            if "idle" in options.only:
                figures += measure_idle(Path(folder) / "idle", say)
            if "restic" in options.only:
                figures += measure_restic(Path(folder) / "restic", options.runs, options.volume_mib, say)
            if "kopia" in options.only:
                figures += measure_kopia(Path(folder) / "kopia", options.runs, options.volume_mib, say)
            if "pod-volumes" in options.only:
                figures += measure_pod_volumes(Path(folder) / "pod-volumes", options.runs, say)
            if "plugins" in options.only:
                figures += measure_plugins(Path(folder) / "plugins", ITEMS, options.runs, say)
            if "nonadmin" in options.only:
                figures += measure_nonadmin(Path(folder) / "nonadmin", say)
            if "browse" in options.only:
                generator = Generator(options.browse_objects, options.namespaces)
                figures += measure_browse(Path(folder) / "browse", generator, options.runs, say)
            if "encryption" in options.only:
                figures += measure_encryption(Path(folder) / "encryption", options.runs, say)
            if "command" in options.only:
                figures += measure_command(Path(folder) / "command", options.runs, say)
            if "soak" in options.only:
                figures += measure_soak(Path(folder) / "soak", options.soak_minutes, say)
            if "flood" in options.only:
                (Path(folder) / "flood").mkdir()
                figures += measure_flood(Path(folder) / "flood", say)
            if "queue" in options.only:
                (Path(folder) / "queue").mkdir()
                figures += measure_queue(Path(folder) / "queue", say)
            if set(options.only) - WITHOUT_OBJECTS:
                found, setting = measure_cluster(options, Path(folder))
                figures = [*found, *figures]
    except (SampleFailed, CreateFailed, ClusterError, ExceptionGroup) as error:
        say(f"bench failed: {'; '.join(reasons(error))}")
        return 1
    except KeyboardInterrupt:
        return 130
    print(text_table(figures))
    facts = machine.describe(setting.pop("Kubernetes version"))
    setting["samples"] = f"{options.runs} of each candidate, interleaved in random order"
    if options.json:
        document = {
            "machine": facts,
            "setting": setting,
            "figures": [figure.document() for figure in figures],
        }
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    if options.write_results:
        results.write(results.section(title(datetime.now(UTC).date(), options), facts, setting, figures))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
