"""The samples of each scenario, ours and the floors in random order, and the figures made from them."""

import importlib.util
import random
import shutil
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench import measure
from bench.figures import MEBIBYTE, Figure, Rule, Series, Target, Unit
from bench.floor.cluster import BenchCluster
from bench.floor.generate import SEED
from bench.measure import Sample
from bench.scenarios.in_process import CHECKSUMS_ALONE, WITHOUT_INDEX
from pinnace.age.x25519 import X25519Identity

PYTHON = sys.executable
PINNACE = Path(sys.executable).with_name("pinnace")
ROOT = Path(__file__).resolve().parents[2]
SAMPLE_SECONDS = 1_800.0
START_SAMPLES = 15
BACKUP_CLIENTS = (("aiohttp", 1), ("aiohttp", 4), ("pycurl", 1), ("pycurl", 4))
SIDE_BY_SIDE = ("aiohttp x4", "pycurl x4")
"""Floors that list four resources at once. The target's floor is one list after the other."""
CREATE_CLIENTS = (("aiohttp", 32), ("aiohttp", 64), ("pycurl", 32))
BASE_BACKUP = "base"
_KEY = X25519Identity.generate()

BACKUP_TARGET = Target(first=1.5, aim=1.1)
RESTORE_TARGET = Target(first=1.6, aim=1.2)
MEMORY_TARGET = Target(first=250, aim=120)
ENCRYPTION_TARGET = Target(first=1.1, aim=1.05)
INDEX_TARGET = Target(first=1.15, aim=1.05)
START_TARGET = Target(first=250, aim=120)

OURS = "pinnace"
OURS_IN_PROCESS = "pinnace, in process"
OURS_WITHOUT_INDEX = "without index"
OURS_CHECKSUMS_ALONE = "checksums alone"
OURS_ENCRYPTED = "pinnace, encrypted"
OURS_ALL = (OURS, OURS_IN_PROCESS, OURS_WITHOUT_INDEX, OURS_CHECKSUMS_ALONE, OURS_ENCRYPTED)
BACKUP_DRY_RUN, RESTORE_DRY_RUN = "backup create --dry-run", "restore create --dry-run"

Samples = Mapping[str, Sequence[Sample]]
Candidate = Callable[[int], Sample]


def usable_clients(clients: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The clients whose library is installed."""
    return [(name, number) for name, number in clients if importlib.util.find_spec(name)]


@dataclass(kw_only=True)
class Bench:
    """One run of the benchmark against one loaded cluster.

    Attributes:
        runs: samples of each candidate.
        say: called with texts about the progress.
    """

    cluster: BenchCluster
    folder: Path
    runs: int
    say: Callable[[str], None]
    order: random.Random = field(default_factory=lambda: random.Random(SEED))

    @property
    def location(self) -> Path:
        """The location of the backups."""
        return self.folder / "location"

    def backup(self, *, floors: bool = True) -> Samples:
        """Measure backups of the whole cluster, and its lists as floors."""
        candidates: dict[str, Candidate] = {OURS: lambda number: self._back_up(f"run-{number}")}
        if floors:
            candidates[OURS_IN_PROCESS] = lambda number: self._back_up(f"inside-{number}", in_process=True)
            candidates[OURS_WITHOUT_INDEX] = lambda number: self._index_replaced(WITHOUT_INDEX, number)
            candidates[OURS_CHECKSUMS_ALONE] = lambda number: self._index_replaced(CHECKSUMS_ALONE, number)
            candidates[OURS_ENCRYPTED] = lambda number: self._back_up(f"sealed-{number}", sealed=True)
            candidates |= self._list_floors()
        return self._interleave("backup", candidates, warm_up=floors)

    def dry_runs(self) -> Samples:
        """Measure dry runs of a backup and a restore of everything, and lists as floors."""
        self._back_up(BASE_BACKUP, keep=True)
        candidates: dict[str, Candidate] = {
            BACKUP_DRY_RUN: lambda _number: self._pinnace(
                *("--location", str(self.location), "backup", "create", "never", "--dry-run"),
                in_process=False,
            ),
            RESTORE_DRY_RUN: lambda _number: self._restore("--dry-run"),
            **self._list_floors(),
        }
        try:
            return self._interleave("dry run", candidates, warm_up=True)
        finally:
            shutil.rmtree(self.location / "backups" / BASE_BACKUP)

    def _list_floors(self) -> dict[str, Candidate]:
        return {
            f"{client} x{lanes}": self._floor("bench.floor.list", self.cluster.paths_file, client, lanes)
            for client, lanes in usable_clients(BACKUP_CLIENTS)
        }

    def restore(self, *, floors: bool = True) -> Samples:
        """Measure restores into the emptied namespaces, and bare creates of the same objects as floors."""
        self._back_up(BASE_BACKUP, keep=True)
        self.say(f"restore: {self.cluster.save_requests()} objects")
        candidates: dict[str, Candidate] = {OURS: lambda _number: self._restore()}
        if floors:
            candidates[OURS_IN_PROCESS] = lambda _number: self._restore(in_process=True)
            for client, in_flight in usable_clients(CREATE_CLIENTS):
                candidates[f"{client} x{in_flight}"] = self._floor(
                    "bench.floor.create", self.cluster.requests_file, client, in_flight
                )
        return self._interleave("restore", candidates, warm_up=floors, before=self.cluster.empty)

    def _back_up(
        self, name: str, *, in_process: bool = False, keep: bool = False, sealed: bool = False
    ) -> Sample:
        sample = self._pinnace(
            *("--location", str(self.location), "backup", "create", name),
            in_process=in_process,
            environment={"PINNACE_RECIPIENTS": str(_KEY.recipient)} if sealed else {},
        )
        if not keep:
            shutil.rmtree(self.location / "backups" / name)
        return sample

    def _index_replaced(self, by: str, number: int) -> Sample:
        command = [PYTHON, "-m", "bench.scenarios.in_process", by, "--location", str(self.location)]
        name = f"plain-{number}"
        sample = self._run([*command, "backup", "create", name])
        shutil.rmtree(self.location / "backups" / name)
        return sample

    def _restore(self, *options: str, in_process: bool = False) -> Sample:
        namespaces = ",".join(self.cluster.generator.namespaces)
        return self._pinnace(
            *("--location", str(self.location), "restore", "create"),
            *("--from-backup", BASE_BACKUP, "--include-namespaces", namespaces, *options),
            in_process=in_process,
        )

    def _pinnace(self, *arguments: str, in_process: bool, environment: Mapping[str, str] = {}) -> Sample:
        program: list[str | Path] = [PYTHON, "-m", "bench.scenarios.in_process"] if in_process else [PINNACE]
        return self._run([*program, *arguments], environment)

    def _floor(self, module: str, file: Path, client: str, number: int) -> Candidate:
        command = [PYTHON, "-m", module, str(self.cluster.access_file), str(file), client, str(number)]
        return lambda _number: self._run(command)

    def _run(self, command: Sequence[str | Path], environment: Mapping[str, str] = {}) -> Sample:
        own = {"KUBECONFIG": str(self.cluster.kubeconfig), "PYTHONPATH": str(ROOT)}
        return measure.run(
            command,
            environment={**own, **environment},
            folder=self.folder,
            deadline_seconds=SAMPLE_SECONDS,
        )

    def _interleave(
        self,
        what: str,
        candidates: Mapping[str, Candidate],
        *,
        warm_up: bool,
        before: Callable[[], None] = lambda: None,
    ) -> Samples:
        """Run every candidate `runs` times, after a round for warming up that does not count."""
        samples: dict[str, list[Sample]] = defaultdict(list)
        for number in range(0 if warm_up else 1, self.runs + 1):
            for name in self.order.sample(list(candidates), k=len(candidates)):
                before()
                sample = candidates[name](number)
                if number:
                    samples[name].append(sample)
                self.say(
                    f"{what} {number or 'warm-up'}/{self.runs}: {name}: {sample.wall_seconds:.2f} s, "
                    f"cpu {sample.cpu_seconds:.2f} s, {sample.peak_bytes / MEBIBYTE:.0f} MiB"
                )
        return samples


def measure_start(folder: Path, say: Callable[[str], None]) -> list[Figure]:
    """Measure the start of the command line, with the start of Python as floor."""
    commands: dict[str, list[str | Path]] = {
        "python -c pass": [PYTHON, "-c", "pass"],
        "pinnace --help": [PINNACE, "--help"],
        "pinnace version --client-only": [PINNACE, "version", "--client-only"],
    }
    walls: dict[str, list[float]] = defaultdict(list)
    order = random.Random(SEED)
    for number in range(START_SAMPLES + 1):
        for name in order.sample(list(commands), k=len(commands)):
            sample = measure.run(commands[name], environment={}, folder=folder, deadline_seconds=60)
            # The first round fills the page cache.
            if number:
                walls[name].append(sample.wall_seconds * 1000)
    say(f"start: {START_SAMPLES} samples of each")
    bare, *ours = (Series(name=name, values=walls[name]) for name in commands)
    return [
        Figure(
            name=series.name,
            unit=Unit.MILLISECONDS,
            rule=Rule.ADDED,
            ours=series,
            floors=[bare],
            target=START_TARGET,
        )
        for series in ours
    ]


def speed_figures(
    what: str, samples: Samples, target: Target, floor_work: str, *, stricter: Collection[str] = ()
) -> list[Figure]:
    """Figures of whole processes, of the work alone, and of CPU time, each against its floor.

    Args:
        stricter: floors beyond that of the target, with figures of their own.
    """
    floors = [name for name in samples if name not in OURS_ALL]
    plain = [name for name in floors if name not in stricter]

    def figure(
        name: str, value: Callable[[Sample], float], ours: str, against: Sequence[str], target: Target | None
    ) -> Figure:
        return Figure(
            name=f"{what}, {name}",
            unit=Unit.SECONDS,
            rule=Rule.RATIO,
            ours=Series(name=ours, values=[value(sample) for sample in samples[ours]]),
            floors=[Series(name=n, values=[value(sample) for sample in samples[n]]) for n in against],
            target=target,
        )

    def wall(sample: Sample) -> float:
        return sample.wall_seconds

    def work(sample: Sample) -> float:
        seconds: float = sample.json()["seconds"]
        return seconds

    figures = [
        figure("whole command", wall, OURS, plain, target),
        figure("without process start", work, OURS_IN_PROCESS, plain, target),
    ]
    if stricter:
        figures += [
            figure(f"whole command, against several {floor_work}s at once", wall, OURS, floors, None),
            figure(
                f"without process start, against several {floor_work}s at once",
                work,
                OURS_IN_PROCESS,
                floors,
                None,
            ),
        ]
    cpu = f"client CPU of the process ({floor_work} alone)"
    return [*figures, figure(cpu, lambda sample: sample.cpu_seconds, OURS, floors, None)]


def index_figures(samples: Samples) -> list[Figure]:
    """The cost of the index of a backup, without the start of the process."""

    def series(name: str, key: str) -> Series:
        return Series(name=name, values=[sample.json()[key] for sample in samples[name]])

    def figure(what: str, key: str, floor: str, target: Target | None) -> Figure:
        return Figure(
            name=f"backup with its index, {what}",
            unit=Unit.SECONDS,
            rule=Rule.RATIO,
            ours=series(OURS_IN_PROCESS, key),
            floors=[series(floor, key)],
            target=target,
        )

    return [
        figure("time", "seconds", OURS_WITHOUT_INDEX, INDEX_TARGET),
        figure("CPU", "cpu_seconds", OURS_WITHOUT_INDEX, INDEX_TARGET),
        # What lies between the two floors no index can save: SHA-256 of each item.
        figure("time, beyond its checksums", "seconds", OURS_CHECKSUMS_ALONE, None),
        figure("CPU, beyond its checksums", "cpu_seconds", OURS_CHECKSUMS_ALONE, None),
    ]


def encryption_figures(samples: Samples) -> list[Figure]:
    """The cost of encryption to whole backup commands."""

    def figure(what: str, value: Callable[[Sample], float], unit: Unit, target: Target | None) -> Figure:
        return Figure(
            name=f"encrypted backup, {what}",
            unit=unit,
            rule=Rule.RATIO,
            ours=Series(name=OURS_ENCRYPTED, values=[value(each) for each in samples[OURS_ENCRYPTED]]),
            floors=[Series(name=OURS, values=[value(each) for each in samples[OURS]])],
            target=target,
        )

    return [
        figure("time", lambda sample: sample.wall_seconds, Unit.SECONDS, ENCRYPTION_TARGET),
        figure("CPU", lambda sample: sample.cpu_seconds, Unit.SECONDS, ENCRYPTION_TARGET),
        figure("peak memory", lambda sample: sample.peak_bytes / MEBIBYTE, Unit.MEBIBYTES, None),
    ]


def dry_run_figures(samples: Samples) -> list[Figure]:
    """Whole commands against listing one resource after the other."""

    def series(name: str) -> Series:
        return Series(name=name, values=[sample.wall_seconds for sample in samples[name]])

    ours = BACKUP_DRY_RUN, RESTORE_DRY_RUN
    floors = [series(name) for name in samples if name not in (*ours, *SIDE_BY_SIDE)]
    return [
        Figure(name=name, unit=Unit.SECONDS, rule=Rule.RATIO, ours=series(name), floors=floors)
        for name in ours
    ]


def memory_figure(what: str, samples: Samples) -> Figure:
    """The peak memory of our processes."""
    values = [sample.peak_bytes / MEBIBYTE for sample in samples[OURS]]
    return Figure(
        name=f"peak memory, {what}",
        unit=Unit.MEBIBYTES,
        rule=Rule.ALONE,
        ours=Series(name=OURS, values=values),
        target=MEMORY_TARGET,
    )
