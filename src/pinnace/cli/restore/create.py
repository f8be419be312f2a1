"""What `restore create` does. (docs/spec: CLI 5.1)"""

from typing import Any

import click

from pinnace.api import labels
from pinnace.api.codec import encode
from pinnace.api.values.times import utcnow
from pinnace.cli import build
from pinnace.cli.backend.wait import wait_for_end
from pinnace.cli.connect import open_cluster, program_name, run_async, settings_of
from pinnace.cli.errors import CommandError, ExitCode, InvalidInput
from pinnace.cli.output.printing import OutputFlags, print_objects
from pinnace.cli.output.tables import restore_table
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import velero


def create(ctx: click.Context, name: str, output: OutputFlags, flags: dict[str, Any]) -> int:
    """Print, submit or make the restore. Returns the exit code."""
    settings = settings_of(ctx)
    if bool(flags["from_backup"]) == bool(flags["from_schedule"]):
        raise InvalidInput("either a backup or schedule must be specified, but not both")
    name = name or build.stamped_name(flags["from_backup"] or flags["from_schedule"], utcnow())
    if settings.location is None:
        return run_async(_submit(settings, name, output, flags))
    if output.format:
        print_restore(build.restore_from_flags(name, settings.namespace, flags), output)
        return ExitCode.OK
    from pinnace.cli.standalone_restore import make_restore

    return run_async(
        make_restore(
            settings,
            build.restore_from_flags(name, settings.namespace, flags),
            allow_partially_failed=bool(flags["allow_partially_failed"]),
        )
    )


def print_restore(restore: Any, output: OutputFlags) -> None:
    """Print a Restore that was never sent."""
    print_objects([encode(restore, unsent=True)], restore_table(), output)


async def _submit(settings: Settings, name: str, output: OutputFlags, flags: dict[str, Any]) -> int:
    async with open_cluster(settings) as client:
        await _resolve_source(client, settings.namespace, flags)
        restore = build.restore_from_flags(name, settings.namespace, flags)
        if output.format:
            print_restore(restore, output)
            return ExitCode.OK
        resource = velero("restores")
        created = await client.create(resource, encode(restore), settings.namespace)
        click.echo(f'Restore request "{name}" submitted successfully.')
        if flags["wait"]:
            await wait_for_end(client, resource, created, "restore", "itemsRestored")
        else:
            program = program_name()
            click.echo(
                f"Run `{program} restore describe {name}` or `{program} restore logs {name}` "
                "for more details."
            )
        return ExitCode.OK


async def _resolve_source(client: KubeClient, namespace: str, flags: dict[str, Any]) -> None:
    """Check the source; with --allow-partially-failed pick the backup here. (docs/spec: CLI 5.1)"""
    if flags["from_backup"]:
        await client.get(velero("backups"), flags["from_backup"], namespace)
        return
    schedule = flags["from_schedule"]
    selector = f"{labels.SCHEDULE_NAME}={labels.label_value(schedule)}"
    backups = await client.list_all(velero("backups"), namespace, label_selector=selector)
    if not backups:
        raise CommandError(f"No backups found for the schedule {schedule}")
    if flags["allow_partially_failed"]:
        chosen = build.newest(backups, ("Completed", "PartiallyFailed"))
        if chosen is not None:
            flags["from_backup"], flags["from_schedule"] = chosen["metadata"]["name"], ""
