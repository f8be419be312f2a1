"""`backup create` with a server: a Backup is sent to the cluster, which the server then makes.

Apart from `create`, so that a backup without a server does not load what this needs.
"""

from collections.abc import Callable

import click

from pinnace.api.codec import encode
from pinnace.api.definitions.spec_fields import check_spec
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import utcnow
from pinnace.cli import build
from pinnace.cli.backend.server import ServerBackend
from pinnace.cli.backup.options import BackupCreateOptions
from pinnace.cli.common import outcome
from pinnace.cli.connect import open_cluster
from pinnace.cli.errors import ExitCode
from pinnace.cli.guard import complain
from pinnace.cli.kinds import BACKUP
from pinnace.cli.output.cells import status
from pinnace.cli.output.printing import OutputFlags, print_unsent
from pinnace.cli.output.tables import backup_table
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import (
    BACKUP_STORAGE_LOCATIONS,
    BACKUPS,
    SCHEDULES,
    VOLUME_SNAPSHOT_LOCATIONS,
)


async def submit(
    settings: Settings, output: OutputFlags, options: BackupCreateOptions, named: Callable[[str], None]
) -> int:
    """Send the Backup, or print it. Returns the exit code.

    Args:
        named: told the name of the Backup that was sent.
    """
    async with open_cluster(settings) as client:
        await _check_locations(client, settings.namespace, options)
        backup = await requested(client, settings.namespace, options)
        if not output.sends:
            print_unsent(backup, backup_table(), output)
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
    """Check that the locations exist: a typing error should not become a failed backup. Raises NotFound.

    A location that was unavailable when the server looked last may be available when the backup begins: it is
    a warning.
    """
    backend = ServerBackend(client, namespace)
    if options.storage_location:
        found = status(await backend.object(BACKUP_STORAGE_LOCATIONS.name, options.storage_location))
        if found.get("phase") == "Unavailable":
            why = f": {found['message']}" if found.get("message") else ""
            complain(f"WARNING: storage location {options.storage_location} is Unavailable{why}")
    for location in options.volume_snapshot_locations:
        await backend.object(VOLUME_SNAPSHOT_LOCATIONS.name, location)


async def requested(client: KubeClient, namespace: str, options: BackupCreateOptions) -> JSONObject:
    """The object to send or print."""
    if not options.from_schedule:
        return encode(build.requested_backup(options.name, namespace, options), unsent=True)
    schedule = await ServerBackend(client, namespace).object(SCHEDULES.name, options.from_schedule)
    return build.backup_from_schedule(options.name, namespace, schedule, options, utcnow())
