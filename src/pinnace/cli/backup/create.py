"""What `backup create` does. (docs/spec: CLI 4.1)"""

from collections.abc import Callable

import click

from pinnace.api.codec import decode, encode
from pinnace.api.definitions.spec_fields import check_spec
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import utcnow
from pinnace.api.velero.backup import Backup
from pinnace.cli import build
from pinnace.cli.backend.server import ServerBackend
from pinnace.cli.backup.options import BackupCreateOptions
from pinnace.cli.common import outcome
from pinnace.cli.connect import open_cluster, program_name, run_async, settings_of
from pinnace.cli.errors import ExitCode, InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.kinds import BACKUP
from pinnace.cli.output.printing import OutputFlags, print_objects
from pinnace.cli.output.tables import backup_table
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import (
    BACKUP_STORAGE_LOCATIONS,
    BACKUPS,
    SCHEDULES,
    VOLUME_SNAPSHOT_LOCATIONS,
)


def create(ctx: click.Context, options: BackupCreateOptions) -> int:
    """Print, submit or make the backup. Returns the exit code."""
    output, settings = options.printed(), settings_of(ctx)
    outcome.check(settings, options)
    if not options.names and not options.from_schedule:
        raise InvalidInput(
            "A backup name is required, unless you are creating based on a schedule."
            f" Give one, as in `{program_name()} backup create NAME`, or --from-schedule SCHEDULE."
        )
    if settings.location is not None:
        _refuse_server_options(options)
    if options.previews:
        return run_async(_preview(settings, output.format, options))
    if settings.location is not None or (not output.sends and not options.from_schedule):
        backup = build.requested_backup(_name(options), settings.namespace, options)
        if not output.sends:
            print_objects([encode(backup, unsent=True)], backup_table(), output)
            return ExitCode.OK
        from pinnace.cli.backup.local import make_backup

        with output.naming(BACKUP.kind) as named:
            code = run_async(
                make_backup(settings, backup, progress=options.progress),
                interrupted=f"Interrupted: nothing that looks like backup {_name(options)} is left behind.",
            )
            named(_name(options))
        return code
    with output.naming(BACKUP.kind) as named:
        return run_async(_submit(settings, output, options, named))


async def _preview(settings: Settings, form: str | None, options: BackupCreateOptions) -> int:
    from pinnace.cli.backup.preview import preview

    if not options.from_schedule:
        return await preview(
            settings, build.requested_backup(_name(options), settings.namespace, options), form=form
        )
    async with open_cluster(settings) as client:
        obj = await _backup(client, settings.namespace, options)
    return await preview(settings, decode(Backup, obj), form=form)


def _name(options: BackupCreateOptions) -> str:
    return options.names[0] if options.names else ""


def _refuse_server_options(options: BackupCreateOptions) -> None:
    """Refuse options that only a server can fulfil, instead of ignoring them. Raises InvalidInput."""
    for flag, value in (
        ("--from-schedule", options.from_schedule),
        ("--storage-location", options.storage_location),
        ("--volume-snapshot-locations", options.volume_snapshot_locations),
    ):
        if value:
            raise InvalidInput(f"{flag} needs a server; it cannot be used with --location")


async def _submit(
    settings: Settings, output: OutputFlags, options: BackupCreateOptions, named: Callable[[str], None]
) -> int:
    async with open_cluster(settings) as client:
        await _check_locations(client, settings.namespace, options)
        backup = await _backup(client, settings.namespace, options)
        if not output.sends:
            print_objects([backup], backup_table(), output)
            return ExitCode.OK
        findings = check_spec("Backup", backup)
        for text in (*findings.errors, *findings.warnings):
            complain(f"WARNING: {text}")
        resource = BACKUPS
        created = await client.create(resource, backup, settings.namespace)
        if options.from_schedule:
            click.echo("Creating backup from schedule, all other filters are ignored.")
        name = created["metadata"]["name"]
        click.echo(f'Backup request "{name}" submitted successfully.')
        named(name)
        if options.wait:
            return await outcome.wait(client, settings, BACKUP, created, options)
        outcome.say_where_to_look(settings, BACKUP, name)
        return ExitCode.OK


async def _check_locations(client: KubeClient, namespace: str, options: BackupCreateOptions) -> None:
    """Check that the locations exist: a typing error should not become a failed backup. Raises NotFound."""
    backend = ServerBackend(client, namespace)
    if options.storage_location:
        await backend.object(BACKUP_STORAGE_LOCATIONS.name, options.storage_location)
    for location in options.volume_snapshot_locations:
        await backend.object(VOLUME_SNAPSHOT_LOCATIONS.name, location)


async def _backup(client: KubeClient, namespace: str, options: BackupCreateOptions) -> JSONObject:
    """The object to send or print."""
    name = _name(options)
    if not options.from_schedule:
        return encode(build.requested_backup(name, namespace, options), unsent=True)
    schedule = await ServerBackend(client, namespace).object(SCHEDULES.name, options.from_schedule)
    return build.backup_from_schedule(name, namespace, schedule, options, utcnow())
