"""What `backup create` does. (docs/spec: CLI 4.1)"""

from typing import Any

import click

from pinnace.api.codec import encode
from pinnace.api.objects import JSONObject
from pinnace.api.spec_fields import check_spec
from pinnace.api.values.times import utcnow
from pinnace.cli import build
from pinnace.cli.backend.wait import wait_for_end
from pinnace.cli.connect import open_cluster, program_name, run_async, settings_of
from pinnace.cli.errors import ExitCode, InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.output.printing import OutputFlags, print_objects
from pinnace.cli.output.tables import backup_table
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import velero


def create(ctx: click.Context, name: str, output: OutputFlags, flags: dict[str, Any]) -> int:
    """Print, submit or make the backup. Returns the exit code."""
    settings = settings_of(ctx)
    if not name and not flags["from_schedule"]:
        raise InvalidInput("A backup name is required, unless you are creating based on a schedule.")
    if settings.location is not None:
        _refuse_server_flags(flags)
    if settings.location is not None or (output.format and not flags["from_schedule"]):
        backup = build.backup_from_flags(name, settings.namespace, flags)
        if output.format:
            print_objects([encode(backup, unsent=True)], backup_table(), output)
            return ExitCode.OK
        from pinnace.cli.standalone_backup import make_backup

        return run_async(make_backup(settings, backup))
    return run_async(_submit(settings, name, output, flags))


def _refuse_server_flags(flags: dict[str, Any]) -> None:
    """What only a server can do is refused, not ignored."""
    for flag in ("from_schedule", "storage_location", "volume_snapshot_locations"):
        if flags[flag]:
            raise InvalidInput(
                f"--{flag.replace('_', '-')} needs a server; it cannot be used with --location"
            )


async def _submit(settings: Settings, name: str, output: OutputFlags, flags: dict[str, Any]) -> int:
    async with open_cluster(settings) as client:
        await _check_locations(client, settings.namespace, flags)
        backup = await _backup(client, settings.namespace, name, flags)
        if output.format:
            print_objects([backup], backup_table(), output)
            return ExitCode.OK
        findings = check_spec("Backup", backup)
        for text in (*findings.errors, *findings.warnings):
            complain(f"WARNING: {text}")
        resource = velero("backups")
        created = await client.create(resource, backup, settings.namespace)
        if flags["from_schedule"]:
            click.echo("Creating backup from schedule, all other filters are ignored.")
        name = created["metadata"]["name"]
        click.echo(f'Backup request "{name}" submitted successfully.')
        if flags["wait"]:
            await wait_for_end(client, resource, created, "backup", "itemsBackedUp")
        else:
            program = program_name()
            click.echo(
                f"Run `{program} backup describe {name}` or `{program} backup logs {name}` for more details."
            )
        return ExitCode.OK


async def _check_locations(client: KubeClient, namespace: str, flags: dict[str, Any]) -> None:
    """The locations must exist: a typing error should not become a failed backup. Raises NotFound."""
    if flags["storage_location"]:
        await client.get(velero("backupstoragelocations"), flags["storage_location"], namespace)
    for location in flags["volume_snapshot_locations"]:
        await client.get(velero("volumesnapshotlocations"), location, namespace)


async def _backup(client: KubeClient, namespace: str, name: str, flags: dict[str, Any]) -> JSONObject:
    """The object to send or print."""
    if not flags["from_schedule"]:
        return encode(build.backup_from_flags(name, namespace, flags), unsent=True)
    schedule = await client.get(velero("schedules"), flags["from_schedule"], namespace)
    return build.backup_from_schedule(name, namespace, schedule, flags["labels"], utcnow())
