"""Implements `backup create`. (docs/spec: CLI 4.1)"""

import click

from pinnace.api.codec import decode, encode
from pinnace.api.velero.backup import Backup
from pinnace.cli import build
from pinnace.cli.backup.create import BackupCreateOptions
from pinnace.cli.common import outcome
from pinnace.cli.connect import open_cluster, program_name, run_async, settings_of
from pinnace.cli.errors import ExitCode, InvalidInput
from pinnace.cli.kinds import BACKUP
from pinnace.cli.output.printing import print_unsent
from pinnace.cli.output.tables import backup_table
from pinnace.cli.settings import Settings


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
    backup = None
    if not options.from_schedule:  # checked before anything is asked of a cluster
        backup = build.requested_backup(options.name, settings.namespace, options)
    if options.previews:
        return run_async(_preview(settings, output.format, options, backup))
    if backup is not None and (settings.location is not None or not output.sends):
        if not output.sends:
            print_unsent(encode(backup, unsent=True), backup_table(), output)
            return ExitCode.OK
        from pinnace.cli.backup.local import make_backup
        from pinnace.cli.common.telling import messages_of

        with output.naming(BACKUP.kind) as named:
            code = run_async(
                make_backup(
                    settings, backup, progress=options.progress, messages=messages_of(options.messages_file)
                ),
                interrupted=f"Interrupted: nothing that looks like backup {options.name} is left behind.",
            )
            named(options.name)
        return code
    from pinnace.cli.backup.submission import submit

    with output.naming(BACKUP.kind) as named:
        return run_async(submit(settings, output, options, backup, named))


async def _preview(
    settings: Settings, form: str | None, options: BackupCreateOptions, backup: Backup | None
) -> int:
    from pinnace.cli.backup.preview import preview

    if backup is None:
        from pinnace.cli.backup.submission import of_schedule

        async with open_cluster(settings) as client:
            backup = decode(Backup, await of_schedule(client, settings.namespace, options))
    return await preview(settings, backup, form=form, progress=options.progress)


def _refuse_server_options(options: BackupCreateOptions) -> None:
    """Refuse options that only a server can fulfil, instead of ignoring them. Raises InvalidInput."""
    for flag, value in (
        ("--from-schedule", options.from_schedule),
        ("--storage-location", options.storage_location),
        ("--volume-snapshot-locations", options.volume_snapshot_locations),
    ):
        if value:
            raise InvalidInput(f"{flag} needs a server; it cannot be used with --location")
    if options.data_mover:
        raise InvalidInput("--data-mover has no effect with --location: only node agents move data")
