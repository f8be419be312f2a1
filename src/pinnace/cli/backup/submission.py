"""`backup create` with a server: a Backup is sent to the cluster, which the server then makes.

Apart from `create`, so that a backup without a server does not load what this needs.
"""

from collections.abc import Callable

import click

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.codec import encode
from pinnace.api.objects import JSONObject, text
from pinnace.api.values.default_names import other_names
from pinnace.api.velero.backup import Backup
from pinnace.cli.backup.create import BackupCreateOptions
from pinnace.cli.common import outcome
from pinnace.cli.common.chosen_locations import check_locations, warn_of_unavailable
from pinnace.cli.common.cluster import say_cluster, with_source
from pinnace.cli.common.content_options import WaitOptions
from pinnace.cli.common.known_fields import warn_of_lost_fields, with_known_fields
from pinnace.cli.common.named_objects import check_config_maps
from pinnace.cli.common.served import check_names
from pinnace.cli.common.waiting import warn_of_absence
from pinnace.cli.connect import caller, open_cluster
from pinnace.cli.errors import ExitCode
from pinnace.cli.guard import complain
from pinnace.cli.kinds import BACKUP
from pinnace.cli.output.printing import OutputFlags, print_unsent
from pinnace.cli.output.tables import backup_table
from pinnace.cli.settings import Settings
from pinnace.client.server import ServerBackend, created_under
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import BACKUPS, SCHEDULES


async def submit(
    settings: Settings,
    output: OutputFlags,
    options: BackupCreateOptions,
    requested: Backup | None,
    named: Callable[[str], None],
) -> int:
    """Send the Backup, or print it. Returns the exit code.

    Args:
        requested: the Backup that the options describe; None if it comes from a schedule.
        named: told the name of the Backup that was sent.
    """
    async with open_cluster(settings) as client:
        backend = ServerBackend(client, settings.namespace, caller())
        await check_locations(backend, options.storage_location, options.volume_snapshot_locations)
        if requested is None:
            backup = await of_schedule(client, settings.namespace, options)
        else:
            backup = encode(requested, unsent=True)
        if output.sends:
            say_cluster(client, "Asking for a backup of")
        if requested is not None:
            await check_names(client, requested.spec)
        if not output.sends:
            print_unsent(backup, backup_table(), output)
            return ExitCode.OK
        policies = options.resource_policies_configmap
        await check_config_maps(client, settings.namespace, resource_policies_configmap=policies)
        await warn_of_unavailable(backend, text(backup, "spec", "storageLocation"))
        if requested is None:
            warn_of_fields(backup)
        created = await created_backup(client, backup, is_named=bool(options.name) or requested is not None)
        if options.from_schedule:
            click.echo("Creating backup from schedule, all other filters are ignored.")
        named(created["metadata"]["name"])
        return await follow(client, settings, created, options)


async def created_backup(client: KubeClient, backup: JSONObject, *, is_named: bool) -> JSONObject:
    """Create the Backup; under another name where it is not the user's and is taken."""
    name = text(backup, "metadata", "name")
    names = (name,) if is_named else (name, *other_names(name))
    backup = await with_known_fields(client, BACKUPS, await with_source(client, backup))
    created = await created_under(client, BACKUPS, backup, names)
    warn_of_lost_fields(backup, created)
    return created


async def follow(client: KubeClient, settings: Settings, created: JSONObject, options: WaitOptions) -> int:
    """Say that the Backup was created, and wait for its end if that is wanted. Returns the exit code."""
    name = created["metadata"]["name"]
    click.echo(f'Backup request "{name}" submitted successfully.')
    if options.wait:
        return await outcome.wait(client, settings, BACKUP, created, options)
    outcome.say_where_to_look(settings, BACKUP, name)
    await warn_of_absence(ServerBackend(client, settings.namespace, caller()), BACKUP.noun)
    return ExitCode.OK


def warn_of_fields(backup: JSONObject) -> None:
    """Warn of fields of a schedule's template that the server does not honour; the flags request none."""
    from pinnace.api.definitions.spec_fields import check_spec  # loads all kinds

    findings = check_spec("Backup", backup)
    for finding in (*findings.errors, *findings.warnings):
        complain(f"WARNING: {finding}")


async def of_schedule(client: KubeClient, namespace: str, options: BackupCreateOptions) -> JSONObject:
    """The Backup that a schedule's template describes, to be sent or printed."""
    from pinnace.cli.backup.from_schedule import backup_from_schedule  # loads the rules of schedules

    schedule = await ServerBackend(client, namespace, caller()).object(SCHEDULES.name, options.from_schedule)
    return backup_from_schedule(options.name, namespace, schedule, options, SYSTEM_CLOCK.now())
