"""The work of `backup prune`. (docs/adr/128)"""

import asyncio
from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, cast

import click

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api import labels
from pinnace.api.objects import JSONObject, text
from pinnace.api.retention.candidates import RetentionCandidate, Standing, Surroundings, candidate
from pinnace.api.retention.deciding import decide
from pinnace.api.retention.removal import RemovalReason
from pinnace.api.retention.rules import RetentionRules
from pinnace.api.selection.selectors import Selector
from pinnace.api.values.counts import counted
from pinnace.cli.backends import open_backend
from pinnace.cli.backup.delete import BackupDeleteOptions
from pinnace.cli.backup.prune import BackupPruneOptions
from pinnace.cli.common.deletion import delete_objects
from pinnace.cli.common.retained import DecidedGroup, print_groups
from pinnace.cli.connect import run_async, settings_of
from pinnace.cli.errors import CommandError, InvalidInput, aggregate
from pinnace.cli.guard import complain
from pinnace.cli.kinds import BACKUP
from pinnace.cli.output.prompt import confirmed
from pinnace.cli.settings import Settings
from pinnace.client.interface import Backend
from pinnace.client.server import ServerBackend

if TYPE_CHECKING:
    from pinnace.client.location import LocationBackend

_VOLUME_DATA = "pinnace.cli.backup.deletion:delete_volume_data"


def prune(ctx: click.Context, options: BackupPruneOptions) -> None:
    """Print what the rules say, and delete what no rule keeps. Raises CommandError, InvalidInput."""
    settings = settings_of(ctx)
    given = options.given_rules
    if not given:
        raise InvalidInput("give the rules, such as --keep-daily 7: without any, nothing is deleted")
    if options.restic_password_file and settings.location is None:
        raise InvalidInput("--restic-password-file goes with --location; a server knows the password")
    rules, zone = RetentionRules.read(given, flags=True), _zone(options.time_zone)
    selector = Selector.from_label_selector(options.selector)
    if options.selector is not None and selector.empty:
        raise InvalidInput("--selector must not be empty")
    groups = run_async(_decided(settings, rules, zone, str(selector)))
    print_groups(groups, options.output_format)
    going = [name for group in groups for name in group.going]
    if not groups:
        complain("No backups found.")
    if options.dry_run or not going:
        return
    complain(f"{counted(len(going), 'backup')} to delete.")
    if not options.confirm and not confirmed():
        return
    deletion = BackupDeleteOptions(
        names=(),
        confirm=True,
        all=False,
        selector=None,
        force=False,
        restic_password_file=options.restic_password_file,
    )
    deleting = delete_objects(
        settings, BACKUP, deletion, going, volume_data=_VOLUME_DATA, reason=RemovalReason.RULE
    )
    if errors := run_async(deleting):
        raise CommandError(aggregate(errors))


def _zone(name: str) -> tzinfo:
    """The zone of that name. Raises InvalidInput."""
    from pinnace.api.values.zones import named_zone  # only those who prune need it

    try:
        return named_zone(name)
    except ValueError as error:
        raise InvalidInput(f"--time-zone: {name!r} is no time zone, such as Europe/Berlin") from error


async def _decided(
    settings: Settings, rules: RetentionRules, zone: tzinfo, selector: str
) -> list[DecidedGroup]:
    async with open_backend(settings) as backend:
        backups = await backend.objects("backups", selector)
        around = await _surroundings(backend)
        groups = _decide(rules, backups, around, zone, chosen=bool(selector))
        if not isinstance(backend, ServerBackend):
            going = {name for group in groups for name in group.going}
            if held := await _held(cast("LocationBackend", backend), going):
                around = Surroundings(now=around.now, held=held)
                groups = _decide(rules, backups, around, zone, chosen=bool(selector))
        return groups


def _decide(
    rules: RetentionRules,
    backups: Sequence[JSONObject],
    around: Surroundings,
    zone: tzinfo,
    *,
    chosen: bool,
) -> list[DecidedGroup]:
    """Decide for each group. Pure.

    Args:
        chosen: whether the user has chosen the backups, so that those of no schedule are a group.
    """
    groups: dict[tuple[str, str, str, str], list[RetentionCandidate]] = {}
    for obj in backups:
        schedule = text(obj, "metadata", "labels", labels.SCHEDULE_NAME)
        location = text(obj, "spec", "storageLocation")
        cluster = text(obj, "metadata", "annotations", labels.SOURCE_CLUSTER_UID)
        namespace = text(obj, "metadata", "namespace")  # of the server, where one made it
        found = candidate(obj, around)
        if not schedule and not chosen:
            found = RetentionCandidate(
                name=found.name, standing=Standing.APART, moment=found.moment, apart="of no schedule"
            )
        groups.setdefault((schedule, location, cluster, namespace), []).append(found)
    return [
        DecidedGroup(title=_title(*key), decisions=decide(rules, group, zone))
        for key, group in sorted(groups.items())
    ]


def _title(schedule: str, location: str, cluster: str, namespace: str) -> str:
    named = f"Schedule {schedule}" if schedule else "No schedule"
    of = "".join(
        f", {what} {name}" for what, name in (("cluster", cluster), ("namespace", namespace)) if name
    )
    return f"{named} in {location or 'no location'}{of}"


async def _surroundings(backend: Backend) -> Surroundings:
    if isinstance(backend, ServerBackend):
        from pinnace.cli.common.decided_schedules import surroundings

        return await surroundings(backend)
    return Surroundings(now=SYSTEM_CLOCK.now())


async def _held(backend: "LocationBackend", names: set[str]) -> dict[str, str]:
    """The backups that a file beside them holds, with the reason. Raises StorageError."""
    from pinnace.client.location import PARALLEL_READS

    limit = asyncio.Semaphore(PARALLEL_READS)

    async def read(name: str) -> tuple[str, str | None]:
        async with limit:
            hold = await backend.store.read_hold(name)
            return name, hold.reason if hold is not None and hold.held else None

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(read(name)) for name in sorted(names)]
    return {name: reason for name, reason in (task.result() for task in tasks) if reason is not None}
