"""The work of `schedule create`. (docs/spec: CLI 6)"""

import click

from pinnace.api import labels
from pinnace.api.codec import encode
from pinnace.api.meta import ObjectMeta
from pinnace.api.values.shell_words import as_name
from pinnace.api.velero.schedule import Schedule, ScheduleSpec
from pinnace.cli import build
from pinnace.cli.common.chosen_locations import check_locations, warn_of_unavailable
from pinnace.cli.common.get import server_settings
from pinnace.cli.common.known_fields import warn_of_lost_fields, with_known_fields
from pinnace.cli.common.named_objects import check_config_maps
from pinnace.cli.common.served import check_names
from pinnace.cli.connect import caller, command_line, open_cluster, run_async
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.kinds import SCHEDULE
from pinnace.cli.output.printing import print_unsent
from pinnace.cli.schedule.create import ScheduleCreateOptions
from pinnace.cli.settings import Settings
from pinnace.client.server import ServerBackend
from pinnace.kube.resources import SCHEDULES


def create(ctx: click.Context, options: ScheduleCreateOptions) -> None:
    """Print or submit the schedule."""
    output, (name,) = options.printed(), options.names
    settings = server_settings(ctx, "schedule create")
    _check_expression(options.schedule)
    schedule = requested_schedule(name, settings.namespace, options)
    if not output.sends:
        print_unsent(encode(schedule, unsent=True), SCHEDULE.table(), output)
        return
    with output.naming(SCHEDULE.kind) as named:
        run_async(_submit(settings, schedule))
        named(name)
        click.echo(f'Schedule "{name}" created successfully.')
        if options.paused:
            starts = command_line(settings, "schedule", "unpause", *as_name(name))
            click.echo(f"It is paused; this starts it: {starts}")


def _check_expression(expression: str) -> None:
    """Refuse an expression that the server would refuse later, where few look for it. Raises InvalidInput."""
    if not expression:
        raise InvalidInput("--schedule is required, as in --schedule '0 3 * * *' or --schedule @daily")
    from pinnace.api.values.cron import CronError, read_schedule

    try:
        read_schedule(expression)
    except CronError as error:
        meant = f"; did you mean @{expression}?" if _is_cron(f"@{expression}") else ""
        raise InvalidInput(f"{error}{meant}") from error


def _is_cron(expression: str) -> bool:
    from pinnace.api.values.cron import CronError, read_schedule

    try:
        read_schedule(expression)
    except CronError:
        return False
    return True


def requested_schedule(name: str, namespace: str, options: ScheduleCreateOptions) -> Schedule:
    """The Schedule that the options describe. Raises InvalidInput."""
    return Schedule(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            labels=dict(options.labels),
            annotations={
                **options.annotations,
                **build.namespace_selector(options),
                **_rules(options),
                **_verification(options),
                **_retention(options),
            },
        ),
        spec=ScheduleSpec(
            schedule=options.schedule,
            use_owner_references_in_backup=options.use_owner_references_in_backup,
            paused=options.paused,
            skip_immediately=options.skip_immediately,
            template=build.requested_backup(name, namespace, options).spec,
        ),
    )


def _rules(options: ScheduleCreateOptions) -> dict[str, str]:
    """The annotations that say when runs begin. Raises InvalidInput."""
    from pinnace.api.schedules.rules import CatchUp, read_rules

    given = {
        labels.NOT_DURING: options.not_during,
        labels.CATCH_UP: "" if options.catch_up == CatchUp.LAST else options.catch_up,
        labels.ALLOW_OVERLAP: "true" if options.allow_overlap else "",
    }
    notes = {name: value for name, value in given.items() if value}
    asked = {"metadata": {"annotations": {**options.annotations, **notes}}, "spec": {"schedule": "@daily"}}
    _, errors = read_rules(asked)
    if errors:
        said = "; ".join(errors)
        annotation = f"annotation {labels.NOT_DURING}"
        raise InvalidInput(said.replace(annotation, "--not-during") if options.not_during else said)
    return notes


def _verification(options: ScheduleCreateOptions) -> dict[str, str]:
    """The annotations that make the server verify backups. Raises InvalidInput."""
    if not options.verify:
        if options.verify_read_data:
            raise InvalidInput("--verify-read-data has no meaning without --verify")
        return {}
    from pinnace.api.values.cron import CronError, read_schedule
    from pinnace.volumes.uploader.share import ReadShare

    notes = {labels.VERIFY: options.verify}
    try:
        read_schedule(options.verify)
        if options.verify_read_data:
            notes[labels.VERIFY_READ_DATA] = str(ReadShare.parse(options.verify_read_data))
    except CronError as error:
        raise InvalidInput(f"--verify: {error}") from error
    except ValueError as error:
        raise InvalidInput(f"--verify-read-data: {error}") from error
    return notes


def _retention(options: ScheduleCreateOptions) -> dict[str, str]:
    """The annotation with the rules that were given. Raises InvalidInput."""
    rules = options.given_rules
    lines = [f"{name}: {value}" for name, value in rules.items()]
    return {labels.RETENTION: "\n".join(lines)} if rules else {}


async def _submit(settings: Settings, schedule: Schedule) -> None:
    """Create it if its locations exist."""
    async with open_cluster(settings) as client:
        template, backend = schedule.spec.template, ServerBackend(client, settings.namespace, caller())
        await check_locations(backend, template.storage_location, template.volume_snapshot_locations)
        if template.resource_policy is not None:
            policies = template.resource_policy.name
            try:
                await check_config_maps(client, settings.namespace, resource_policies_configmap=policies)
            except CommandError as error:  # it may be made before the first run
                complain(f"WARNING: {error}, and runs fail until it has")
        await warn_of_unavailable(backend, template.storage_location)
        await check_names(client, template, later=True)
        obj = await with_known_fields(client, SCHEDULES, encode(schedule))
        created = await client.create(SCHEDULES, obj, settings.namespace)
        warn_of_lost_fields(obj, created)
