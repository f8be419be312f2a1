"""The work of `restore create`. (docs/spec: CLI 5.1)"""

from collections.abc import Callable, Iterable, Sequence

import click

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api import labels, phases
from pinnace.api.chosen_objects import parse_object
from pinnace.api.codec import encode
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.values.default_names import other_names, stamped_name
from pinnace.api.velero.restore import ExistingResourcePolicy, Restore
from pinnace.cli.common import outcome
from pinnace.cli.common.chosen_locations import warn_of_unavailable
from pinnace.cli.common.cluster import say_cluster, say_source
from pinnace.cli.common.known_fields import warn_of_lost_fields, with_known_fields
from pinnace.cli.common.named_objects import check_config_maps, check_identity_secret
from pinnace.cli.common.served import check_namespaces_of
from pinnace.cli.common.waiting import warn_of_absence
from pinnace.cli.connect import caller, command_line, open_cluster, run_async, settings_of
from pinnace.cli.errors import CommandError, ExitCode, InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.kinds import RESTORE
from pinnace.cli.output.printing import OutputFlags, print_unsent
from pinnace.cli.output.prompt import confirmed, on_terminal
from pinnace.cli.output.tables import restore_table
from pinnace.cli.restore.build import newest, requested_restore
from pinnace.cli.restore.create import RestoreCreateOptions
from pinnace.cli.settings import Settings
from pinnace.cli.structs import replace
from pinnace.client.server import ServerBackend, created_under
from pinnace.client.server_status import answered, ask_server, is_ours
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import BACKUPS, RESTORES, SCHEDULES

_STATUS_SECONDS = 10.0


def create(ctx: click.Context, options: RestoreCreateOptions) -> int:
    """Print, submit or make the restore. Returns the exit code."""
    output, settings = options.printed(), settings_of(ctx)
    outcome.check(settings, options)
    if bool(options.from_backup) == bool(options.from_schedule):
        raise InvalidInput(
            "either a backup or schedule must be specified, but not both: give --from-backup BACKUP or "
            f"--from-schedule SCHEDULE{_meant(settings, options)}"
        )
    if options.compare_files:
        from pinnace.cli.restore.compared_files import check_compare_files

        check_compare_files(settings, options)
    if options.identity_secret and settings.location is not None:
        raise InvalidInput(
            "--identity-secret is for restores of a server; with --location give --identity-file FILE"
        )
    if options.identity_secret and options.previews and not settings.identity_file:
        complain(
            "NOTE: a dry run reads the backup here, and makes no use of --identity-secret:"
            " --identity-file FILE opens an encrypted one."
        )
    if not options.previews and not _may_recreate(options):
        return ExitCode.OK
    if (selector := options.namespace_selector) is not None:
        from pinnace.cli.restore.labelled import with_chosen_namespaces  # few restores need it

        options = run_async(with_chosen_namespaces(settings, options, selector))
    source = options.from_backup or options.from_schedule
    name = options.names[0] if options.names else stamped_name(source, SYSTEM_CLOCK.now())
    others = () if options.names else tuple(other_names(name))
    if options.previews:
        from pinnace.cli.restore.preview import preview

        restore = requested_restore(name, settings.namespace, options)
        ask = options.dry_run == "server"
        form, progress = output.format, options.progress
        return run_async(
            preview(
                settings,
                restore,
                ask_api_server=ask,
                compares_files=options.compare_files,
                form=form,
                progress=progress,
            )
        )
    if settings.location is None:
        if options.names:  # a wrong word is told before the cluster is asked anything
            requested_restore(name, settings.namespace, options)
        with output.naming(RESTORE.kind) as named:
            names = (name, *others)
            return run_async(_submit(settings, names, output, options, named))
    restore = requested_restore(name, settings.namespace, options)
    if not output.sends:
        print_restore(restore, output)
        return ExitCode.OK
    again = command_line(settings, "restore", "resume", name)
    with output.naming(RESTORE.kind) as named:
        return run_async(
            _make(settings, restore, options, others, named),
            interrupted=f"Interrupted: what was restored so far stays. `{again}` continues.",
        )


async def _make(
    settings: Settings,
    restore: Restore,
    options: RestoreCreateOptions,
    other_names: Iterable[str],
    named: Callable[[str], None],
) -> int:
    """Make the restore without a server. Returns the exit code."""
    from pinnace.cli.common.telling import CURRENT_CLUSTER, ToldRun, messages_of
    from pinnace.cli.restore.local import make_restore

    messages = messages_of(options.messages_file)
    async with ToldRun(messages, restore, settings.kubecontext or CURRENT_CLUSTER) as told:

        def ended(finished: Restore) -> None:
            told.ended(finished)
            named(finished.metadata.name)

        return await make_restore(
            settings,
            restore,
            allow_partially_failed=bool(options.allow_partially_failed),
            progress=options.progress,
            other_names=other_names,
            ended=ended,
        )


def _meant(settings: Settings, options: RestoreCreateOptions) -> str:
    """The command for a backup that was named as if it were the restore; empty without such a name."""
    if options.from_backup or not options.names:
        return ""
    name = options.names[0]
    command = command_line(settings, "restore", "create", "--from-backup", name)
    return f"; if {name} is a backup, write `{command}`"


def _may_recreate(options: RestoreCreateOptions) -> bool:
    """Whether objects may be deleted. Asks only on a terminal: a script has set the flag on purpose."""
    deletes = options.existing_resource_policy == ExistingResourcePolicy.RECREATE
    if not deletes or options.confirm or not options.printed().sends or not on_terminal():
        return True
    print("Objects in the cluster that differ and cannot be patched will be deleted and created again.")
    return confirmed()


def _warn_of_phase(backup: JSONObject, *, allows_failed: bool) -> None:
    """Warn of a backup whose restore would be refused: that the request was sent looks like success.

    (docs/spec: AFT 7.3)
    """
    phase = text(backup, "status", "phase") or "New"
    if phase in phases.FINISHED or phase == "Deleting" or (phase == "Failed" and allows_failed):
        return
    helps = ", unless --allow-failed is given: what it has is restored then" if phase == "Failed" else ""
    name = backup["metadata"]["name"]
    complain(f"WARNING: backup {name} is {phase}, and the server may refuse to restore from it{helps}")


def _warn_of_encryption(backup: JSONObject, secret: str) -> None:
    """Warn of an encrypted backup without a Secret that opens it, as only a key in a KMS could then."""
    if secret or labels.ENCRYPTED not in mapping(backup, "metadata", "annotations"):
        return
    name = backup["metadata"]["name"]
    complain(
        f"WARNING: backup {name} is encrypted: without --identity-secret the restore fails,"
        " unless its location names a key in a KMS that the server may decrypt by"
    )


async def _check_chosen(client: KubeClient, namespace: str, options: RestoreCreateOptions) -> None:
    """Check that what the flags name exists. Raises CommandError."""
    await check_config_maps(
        client,
        namespace,
        resource_modifier_configmap=options.resource_modifier_configmap,
        resource_policies_configmap=options.resource_policies_configmap,
    )
    await check_identity_secret(client, namespace, options.identity_secret)


def print_restore(restore: Restore, output: OutputFlags) -> None:
    """Print a Restore that was never sent."""
    print_unsent(encode(restore, unsent=True), restore_table(), output)


async def _submit(
    settings: Settings,
    names: Sequence[str],
    output: OutputFlags,
    options: RestoreCreateOptions,
    named: Callable[[str], None],
) -> int:
    """Send the Restore under the first of the names that is free, or print it."""
    async with open_cluster(settings) as client:
        options, source = await _resolved(client, settings.namespace, options)
        restore = requested_restore(names[0], settings.namespace, options)
        if not output.sends:
            print_restore(restore, output)
            return ExitCode.OK
        say_cluster(client, "Asking for a restore into")
        backend = ServerBackend(client, settings.namespace, caller())
        if source is not None:
            await say_source(client, source)
            _warn_of_phase(source, allows_failed=bool(options.allow_failed))
            _warn_of_encryption(source, options.identity_secret)
            if location := text(source, "spec", "storageLocation"):
                await warn_of_unavailable(backend, location, writes=False)
        await _check_chosen(client, settings.namespace, options)
        if options.namespace_mappings and source is not None:
            from pinnace.cli.restore.mapped import check_mapping  # few restores need it

            await check_mapping(backend, source["metadata"]["name"], restore.spec.namespace_mapping)
        if options.objects:
            await _check_server(client, settings.namespace)
            await check_namespaces_of(client, [parse_object(each) for each in options.objects])
        obj = await with_known_fields(client, RESTORES, encode(restore))
        created = await created_under(client, RESTORES, obj, names)
        warn_of_lost_fields(obj, created)
        name = created["metadata"]["name"]
        named(name)
        click.echo(f'Restore request "{name}" submitted successfully.')
        if options.wait:
            return await outcome.wait(client, settings, RESTORE, created, options)
        outcome.say_where_to_look(settings, RESTORE, name)
        await warn_of_absence(backend, RESTORE.noun)
        return ExitCode.OK


async def _check_server(client: KubeClient, namespace: str) -> None:
    """Refuse single objects where a Velero server would restore everything. Raises CommandError."""
    answer = await ask_server(client, namespace, _STATUS_SECONDS)
    if not is_ours(answer):
        why = "is not Pinnace's" if answered(answer) else "does not say that it is Pinnace's"
        raise CommandError(
            f"the server in namespace {namespace} {why}, and another one would restore all objects instead of"
            " those named by --object; with --location the restore needs no server"
        )


async def _resolved(
    client: KubeClient, namespace: str, options: RestoreCreateOptions
) -> tuple[RestoreCreateOptions, JSONObject | None]:
    """Check that the source exists. With --allow-partially-failed the backup is chosen here. (CLI 5.1)

    Returns:
        The options, and the backup that is restored or, of a schedule, its newest one that can be.
    """
    if options.from_backup:
        return options, await ServerBackend(client, namespace, caller()).object(
            BACKUPS.name, options.from_backup
        )
    schedule = options.from_schedule
    selector = f"{labels.SCHEDULE_NAME}={labels.label_value(schedule)}"
    backups = await client.list_all(BACKUPS, namespace, label_selector=selector)
    if not backups:
        # Backups outlive their schedule, so only a schedule without backups must exist.
        await ServerBackend(client, namespace, caller()).object(SCHEDULES.name, schedule)
        raise CommandError(f"No backups found for the schedule {schedule}")
    if options.allow_partially_failed:
        chosen = newest(backups, phases.FINISHED)
        if chosen is not None:
            return replace(options, from_backup=chosen["metadata"]["name"], from_schedule=""), chosen
    return options, newest(backups, ("Completed",))
