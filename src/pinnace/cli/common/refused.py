"""Flags of Velero that a command knows and refuses, each with the reason. (docs/spec: BEY 8, 10)

Refusing by name differs from "no such option": a script written for Velero learns what would be missing, and
that the flag was not mistyped. A value that asks for what happens anyway is accepted.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

import click

from pinnace.cli.declaring.commands import hidden_option
from pinnace.cli.errors import InvalidInput
from pinnace.cli.structs import Struct


class RefusedFlag(Struct):
    """A flag that is known and not supported.

    Attributes:
        why: what is missing.
        instead: what the user can do.
        same: values that ask for what happens anyway.
        switch: whether the flag takes no value.
    """

    name: str
    why: str
    instead: str
    same: tuple[object, ...] = ()
    switch: bool = False


def refused(flags: Iterable[RefusedFlag]) -> list[click.Option]:
    """Options that make a command know these flags, and refuse them; no help shows them."""
    return [hidden_option(flag.name, _refuse(flag), switch=flag.switch) for flag in flags]


def _refuse(flag: RefusedFlag) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(_ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value not in (None, False, "") and value not in flag.same:
            raise InvalidInput(f"{flag.name} is not supported: {flag.why}; {flag.instead}")

    return callback


_LEAVE_OUT: Final = "leave the flag out"
_BY_CONFIG_MAP: Final = "the settings of maintenance Jobs are in a ConfigMap"
_NAME_IT: Final = "name it by --repo-maintenance-job-configmap"
_ONE_BY_ONE: Final = "volumes are snapshotted one by one"

OF_BACKUPS: Final = (
    RefusedFlag(
        name="--volume-group-snapshot-label-key",
        same=("velero.io/volume-group",),
        why=_ONE_BY_ONE,
        instead=_LEAVE_OUT,
    ),
)
"""Of `backup create` and `schedule create`."""

OF_INSTALL: Final = (
    RefusedFlag(
        name="--use-node-agent-windows",
        switch=True,
        why="the node agent does not run on Windows",
        instead="leave it out: volumes of pods on Windows nodes are not saved from their files",
    ),
    RefusedFlag(
        name="--node-agent-disable-host-path",
        switch=True,
        why="the node agent reads pod volumes through the directory of the kubelet",
        instead="leave out --use-node-agent if nodes must not be read; CSI snapshots need no node agent",
    ),
    RefusedFlag(
        name="--disable-informer-cache",
        same=(True,),
        switch=True,
        why="restores keep no such cache",
        instead=_LEAVE_OUT,
    ),
    RefusedFlag(
        name="--csi-snapshot-early-frequent-polling",
        same=(True,),
        switch=True,
        why="a snapshot is looked at after a quarter of a second, and then less and less often",
        instead=_LEAVE_OUT,
    ),
    RefusedFlag(
        name="--item-block-worker-count",
        same=("1",),
        why="items are always backed up side by side",
        instead=_LEAVE_OUT,
    ),
    RefusedFlag(name="--keep-latest-maintenance-jobs", same=("3",), why=_BY_CONFIG_MAP, instead=_NAME_IT),
    *(
        RefusedFlag(
            name=f"--maintenance-job-{each}",
            same=("0",),
            why=_BY_CONFIG_MAP,
            instead=_NAME_IT,
        )
        for each in ("cpu-request", "mem-request", "cpu-limit", "mem-limit")
    ),
)
