"""Flags of later versions of Velero that manifests pass to the server and the node agent. (docs/spec: BEY 10)

A flag with a meaning here is an option of the command itself, under both names. Those below have none: they
are accepted, so that a manifest written for Velero starts, and cause a warning if they ask for something else
than what happens anyway.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import click

from pinnace.cli.declaring.commands import hidden_option


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterFlag:
    """A flag that is accepted and has no effect.

    Attributes:
        why: what happens here instead.
        same: values that ask for what happens anyway.
    """

    name: str
    why: str
    same: tuple[str, ...] = ()
    switch: bool = False

    def caveat(self, value: Any) -> str:
        """The warning for a value; empty if the value asks for what happens anyway."""
        if value in (None, False, "") or value in self.same:
            return ""
        given = self.name if value is True else f"{self.name}={value}"
        return f"{given} has no effect: {self.why}"


_CAVEATS: Final = "pinnace.caveats"
"""The key of a command's warnings in click's context."""

_BY_CONFIG_MAP: Final = "the ConfigMap that --repo-maintenance-job-configmap names has this setting"
_ONE_BY_ONE: Final = "volumes are snapshotted one by one"

OF_SERVER: Final = (
    LaterFlag(name="--client-page-size", same=("500",), why="lists are read in pages of 500"),
    LaterFlag(
        name="--max-concurrent-k8s-connections",
        same=("30",),
        why="as many connections are made as the API server takes",
    ),
    LaterFlag(
        name="--max-backup-extraction-size",
        why="no backup is unpacked into files, and what is decompressed has limits of its own",
    ),
    LaterFlag(name="--disable-informer-cache", switch=True, why="restores keep no such cache"),
    LaterFlag(name="--keep-latest-maintenance-jobs", same=("3",), why=_BY_CONFIG_MAP),
    LaterFlag(name="--maintenance-job-cpu-request", same=("0",), why=_BY_CONFIG_MAP),
    LaterFlag(name="--maintenance-job-mem-request", same=("0",), why=_BY_CONFIG_MAP),
    LaterFlag(name="--maintenance-job-cpu-limit", same=("0",), why=_BY_CONFIG_MAP),
    LaterFlag(name="--maintenance-job-mem-limit", same=("0",), why=_BY_CONFIG_MAP),
    LaterFlag(name="--item-block-worker-count", same=("1",), why="items are always read side by side"),
    LaterFlag(name="--volume-group-snapshot-label-key", same=("velero.io/volume-group",), why=_ONE_BY_ONE),
)
OF_NODE_AGENT: Final = (
    LaterFlag(
        name="--backup-repository-configmap",
        why="the server takes it; node agents read the settings in each BackupRepository",
    ),
    LaterFlag(
        name="--data-mover-prepare-timeout",
        same=("30m", "30m0s", "0s"),
        why="the server waits half an hour for a node agent, always",
    ),
    LaterFlag(name="--resource-timeout", same=("10m", "10m0s", "0s"), why="each wait has a limit of its own"),
)

CONTROLLERS: Final[Mapping[str, str]] = {
    "backup-repo": "restic-repo",
    "backup-queue": "backup-queue",
    "backup-operations": "backup-operations",
    "backup-finalizer": "",
    "restore-operations": "restore-operations",
    "restore-finalizer": "",
}
"""Names for --disable-controllers in Velero 1.18: the name here, or empty if there is no such controller."""


def accepted(flags: Iterable[LaterFlag]) -> list[click.Option]:
    """Options that make a command take these flags; no help shows them."""
    return [hidden_option(flag.name, _note(flag), switch=flag.switch) for flag in flags]


def _note(flag: LaterFlag) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if text := flag.caveat(value):
            ctx.meta.setdefault(_CAVEATS, []).append(text)

    return callback


def caveats(ctx: click.Context) -> list[str]:
    """Warnings about the given flags without effect."""
    found: list[str] = ctx.meta.get(_CAVEATS, [])
    return found


def known_controllers(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """The names of controllers, with those of Velero 1.18 translated, and warnings about the unknown."""
    known: list[str] = []
    warnings: list[str] = []
    for name in names:
        if name not in CONTROLLERS:
            known.append(name)
        elif CONTROLLERS[name]:
            known.append(CONTROLLERS[name])
        else:
            warnings.append(f"--disable-controllers={name} has no effect: there is no such controller here")
    return known, warnings
