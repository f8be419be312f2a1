"""Commands beside those of a Velero program: `python -m bench.scenarios.command`, or the scenario `command`.

One cluster with our definitions, a store, a server of ours, some backups, schedules and restores. The same
words are given to both programs in turn, in random order; PINNACE_TEST_VELERO is the path of Velero's. The
table has our wall and processor time against that of Velero, if one is given; the processor time alone, with
its aim; and the modules that each command loads, whose number is the same on a busy machine. Commands that
read a folder are measured alone, as Velero has none.
"""

import asyncio
import os
import random
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench import measure
from bench.figures import Figure, Rule, Series, Target, Unit, text_table
from bench.floor.generate import SEED
from bench.measure import Sample, SampleFailed
from bench.scenarios.idle_server import (
    NAMESPACE,
    PROGRAM,
    create_credentials,
    create_location,
    create_object,
    for_each,
    install_definitions,
    running_server,
)
from hack.cluster.control_plane import ControlPlane
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.api.objects import text
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.resources import BACKUPS, RESTORES, APIResource

VARIABLE = "PINNACE_TEST_VELERO"
OBJECTS = 50
"""Schedules, and restores that were refused, so that a server leaves them alone. The backups are fewer."""

READY_SECONDS = 60.0
POLL_SECONDS = 0.1
DEADLINE_SECONDS = 120.0
PROCESSOR_TARGET = Target(first=150, aim=110)
"""Milliseconds of the processor for a command that asks a server. (docs/adr/109)"""
LOCAL_TARGET = Target(first=250, aim=250)
"""The same for a command that reads a folder."""
PROCESSOR_RATIO = Target(first=2.5, aim=2.0)
WALL_RATIO = Target(first=2.5, aim=1.5)
"""Both against Velero's command."""
_COUNTING = """
import sys
from pinnace.cli.main import run
code = run(sys.argv[1:])
print()
print(len(sys.modules))
sys.exit(code)
"""
COMMANDS: Mapping[str, Sequence[str]] = {
    "backup get": ("backup", "get"),
    "schedule get": ("schedule", "get"),
    "backup-location get": ("backup-location", "get"),
    "restore get": ("restore", "get"),
    "backup create": ("backup", "create", "NAME", "--include-namespaces", "default"),
    "backup describe": ("backup", "describe", "finished"),
    "backup describe --details": ("backup", "describe", "finished", "--details"),
    "backup logs": ("backup", "logs", "finished"),
    "backup download": ("backup", "download", "finished", "-o", "NAME"),
    "restore describe": ("restore", "describe", "again"),
    "restore logs": ("restore", "logs", "again"),
}
"""What is measured; NAME becomes a name that is free."""
LOCAL_COMMANDS: Mapping[str, Sequence[str]] = {
    "backup get, from a folder": ("backup", "get"),
    "backup describe, from a folder": ("backup", "describe", "finished"),
    "backup logs, from a folder": ("backup", "logs", "finished"),
}


def programs() -> Mapping[str, Path]:
    """The programs by name: ours, and Velero's if one is given. Raises SampleFailed: no such file."""
    given = os.environ.get(VARIABLE)
    if given is None:
        return {"pinnace": PROGRAM}
    if not Path(given).is_file():
        raise SampleFailed(f"{VARIABLE} must be the path of a Velero program: {given!r} is no file")
    return {"velero": Path(given), "pinnace": PROGRAM}


def measure_command(folder: Path, runs: int, say: Callable[[str], None]) -> list[Figure]:
    """Run the scenario. Raises SampleFailed, ClusterError, ExceptionGroup."""
    found = programs()
    folder.mkdir()
    with ControlPlane(folder / "cluster", name="command") as plane, S3Server(folder / "s3") as s3:
        asyncio.run(_load(plane, s3.create_bucket("command")))
        with running_server(folder, plane.kubeconfig):
            asyncio.run(_wait(plane))
            say(f"command: {runs} samples of each of {len(COMMANDS)} commands and {len(found)} programs")
            samples = _samples(folder, plane.kubeconfig, found, runs)
            loaded = _loaded(folder, plane.kubeconfig)
        return [*figures(samples), *_local(folder, plane.kubeconfig, runs), *loaded]


def _samples(
    folder: Path, kubeconfig: Path, found: Mapping[str, Path], runs: int
) -> Mapping[tuple[str, str], list[Sample]]:
    """The samples by command and program."""
    samples: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    order = random.Random(SEED)
    pairs = [(name, program) for name in COMMANDS for program in found]
    environment = {"KUBECONFIG": str(kubeconfig), "HOME": str(folder)}
    for number in range(runs + 1):
        for name, program in order.sample(pairs, k=len(pairs)):
            free = f"{program}-{number}"
            words = _with_name(COMMANDS[name], free, folder)
            sample = measure.run(
                [found[program], *words],
                environment=environment,
                folder=folder,
                deadline_seconds=DEADLINE_SECONDS,
            )
            if number:  # the first round fills the page cache
                samples[name, program].append(sample)
    return samples


def _with_name(words: Sequence[str], free: str, folder: Path) -> list[str]:
    """The words with a free name in place of NAME; behind `-o` it is that of a file in the folder."""
    name = str(folder / free) if "-o" in words else free
    return [name if word == "NAME" else word for word in words]


def figures(samples: Mapping[tuple[str, str], Sequence[Sample]]) -> list[Figure]:
    """The lines of the table about time: wall and processor time of each command."""

    def figure(command: str, kind: str, target: Target, value: Callable[[Sample], float]) -> Figure:
        velero, ours = (
            Series(name=program, values=[value(sample) * 1000 for sample in samples[command, program]])
            for program in ("velero", "pinnace")
        )
        return Figure(
            name=f"{command}, {kind}",
            unit=Unit.MILLISECONDS,
            rule=Rule.RATIO,
            ours=ours,
            floors=[velero],
            target=target,
        )

    made = []
    for command in dict.fromkeys(command for command, _ in samples):
        if (command, "velero") in samples:
            made.append(figure(command, "wall", WALL_RATIO, lambda sample: sample.wall_seconds))
            made.append(figure(command, "processor", PROCESSOR_RATIO, lambda sample: sample.cpu_seconds))
        made.append(_alone(command, samples[command, "pinnace"], PROCESSOR_TARGET))
    return made


def _alone(command: str, samples: Sequence[Sample], target: Target) -> Figure:
    return Figure(
        name=f"{command}, processor alone",
        unit=Unit.MILLISECONDS,
        rule=Rule.ALONE,
        ours=Series(name="pinnace", values=[sample.cpu_seconds * 1000 for sample in samples]),
        target=target,
    )


def _local(folder: Path, kubeconfig: Path, runs: int) -> list[Figure]:
    """The lines of the table about commands that read a folder, with one backup in it."""

    def sample(*words: str) -> Sample:
        return measure.run(
            [PROGRAM, "--location", folder / "backups", *words],
            environment={"KUBECONFIG": str(kubeconfig), "HOME": str(folder)},
            folder=folder,
            deadline_seconds=DEADLINE_SECONDS,
        )

    sample("backup", "create", "finished", "--include-namespaces", "default")
    rounds = [{name: sample(*words) for name, words in LOCAL_COMMANDS.items()} for _ in range(runs + 1)]
    return [_alone(name, [each[name] for each in rounds[1:]], LOCAL_TARGET) for name in LOCAL_COMMANDS]


def _loaded(folder: Path, kubeconfig: Path) -> list[Figure]:
    """The lines of the table about modules: how many each command has loaded at its end."""

    def modules(words: Sequence[str]) -> int:
        named = _with_name(words, "counted", folder)
        sample = measure.run(
            [sys.executable, "-c", _COUNTING, *named],
            environment={"KUBECONFIG": str(kubeconfig), "HOME": str(folder)},
            folder=folder,
            deadline_seconds=DEADLINE_SECONDS,
        )
        return int(sample.output.split()[-1])

    return [
        Figure(
            name=f"{name}, modules",
            unit=Unit.COUNT,
            rule=Rule.ALONE,
            ours=Series(name="pinnace", values=[modules(words)]),
        )
        for name, words in COMMANDS.items()
    ]


async def _load(plane: ControlPlane, bucket: Bucket) -> None:
    async with KubeClient(load_config(str(plane.kubeconfig))) as client:
        await install_definitions(client)
        await create_credentials(client, bucket.server)
        await create_location(client, "default", bucket.name, bucket.location_config, default=True)
        await create_object(client, "backups", "finished", spec={"includedNamespaces": ["default"]})

        async def add(number: int) -> None:
            spec = {"schedule": "0 0 1 1 *", "template": {"ttl": "720h0m0s"}}
            await create_object(client, "schedules", f"s-{number}", spec=spec, status={"phase": "Enabled"})
            refused = {"phase": "FailedValidation", "validationErrors": ["there is no such backup"]}
            await create_object(
                client, "restores", f"refused-{number}", spec={"backupName": "none"}, status=refused
            )

        await for_each(range(OBJECTS), add)


async def _wait(plane: ControlPlane) -> None:
    """Wait until the server has made the first backup, and a restore from it."""
    async with KubeClient(load_config(str(plane.kubeconfig))) as client, asyncio.timeout(READY_SECONDS):
        await _completed(client, BACKUPS, "finished")
        await create_object(client, "restores", "again", spec={"backupName": "finished"})
        await _completed(client, RESTORES, "again")


async def _completed(client: KubeClient, resource: APIResource, name: str) -> None:
    while text(await client.get(resource, name, NAMESPACE), "status", "phase") != "Completed":  # noqa: ASYNC110 - a watch would cost the server
        await asyncio.sleep(POLL_SECONDS)


def main() -> int:
    """Run it alone."""
    with tempfile.TemporaryDirectory(prefix="pinnace-bench-") as folder:
        found = measure_command(
            Path(folder) / "command", 5, lambda said: print(said, file=sys.stderr, flush=True)
        )
    print(text_table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
