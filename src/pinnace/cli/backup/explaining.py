"""Implements `backup explain-filters`."""

from collections.abc import Sequence

import click

from pinnace.api.chosen_objects import ObjectName, parse_object
from pinnace.api.codec import decode
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.resource_policies import PolicyError
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.archive.runlog import RunLog
from pinnace.backup.errors import FatalBackupError
from pinnace.backup.explaining import ExplainedObject, explain
from pinnace.backup.plan import BackupFilter
from pinnace.backup.scoping import read_scope
from pinnace.cli.backends import open_backend
from pinnace.cli.backup.explain_filters import ExplainFiltersOptions
from pinnace.cli.browse.rows import check_format, print_data
from pinnace.cli.build import filtered_backup
from pinnace.cli.common.cluster import say_cluster
from pinnace.cli.connect import open_cluster, run_async, settings_of
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound, UnknownResource
from pinnace.operations.namespace_choice import NamespaceChoiceError, choose_namespaces
from pinnace.operations.policies import policies_of
from pinnace.volumes.policies import VolumePolicies

_UNFILTERED = Backup(metadata=ObjectMeta(), spec=BackupSpec(included_namespaces=["*"]))
_TITLES = {(True, True): "saved", (False, True): "saved only where another saved object needs it"}


def explain_filters(ctx: click.Context, options: ExplainFiltersOptions) -> None:
    """Print the rules that each object meets."""
    form = options.output_format and check_format(options.output_format, ("json", "yaml"))
    try:
        named = [parse_object(word) for word in options.objects]
    except ValueError as error:
        raise InvalidInput(str(error)) from error
    found = run_async(_explained(settings_of(ctx), named, options))
    if form:
        print_data([_as_data(name, each) for name, each in found], form)
        return
    for number, (name, each) in enumerate(found):
        if number:
            click.echo()
        click.echo(f"{name}: {_title(each)}")
        for step in each.steps:
            click.echo(f"  {step.rule}: {step.says}")


async def _explained(
    settings: Settings, named: Sequence[ObjectName], options: ExplainFiltersOptions
) -> list[tuple[str, ExplainedObject]]:
    backup = await _backup(settings, options)
    async with open_cluster(settings) as client:
        say_cluster(client, "Looking at objects of")
        discovery = await Discovery.load(client)
        scope = await _scope(client, settings, backup, discovery)
        return [(str(name), await _one(client, discovery, scope, name)) for name in named]


async def _backup(settings: Settings, options: ExplainFiltersOptions) -> Backup:
    """The backup that is named, or one with the filters of the flags. Raises InvalidInput."""
    of_flags = filtered_backup(options)
    if not options.backup:
        return of_flags
    if of_flags != _UNFILTERED:
        raise InvalidInput("give either --backup, or filters: a backup that exists has its own")
    async with open_backend(settings) as backend:
        return decode(Backup, await backend.object("backups", options.backup))


async def _scope(
    client: KubeClient, settings: Settings, backup: Backup, discovery: Discovery
) -> BackupFilter:
    spec = backup.spec
    try:
        if not backup.status.start_timestamp:  # else the namespaces were chosen when it began
            await choose_namespaces(client, backup)
        policies = await policies_of(client, settings.namespace, spec, discovery.canonical)
        return await read_scope(
            client, discovery, spec, VolumePolicies(client, policies), RunLog(None, fields={}, level="error")
        )
    except (PolicyError, NamespaceChoiceError, FatalBackupError) as error:
        raise InvalidInput(f"the filters are not valid:\n  {error}") from error


async def _one(
    client: KubeClient, discovery: Discovery, scope: BackupFilter, name: ObjectName
) -> ExplainedObject:
    try:
        resource = discovery.resolve(name.kind)
        item = await client.get(resource, name.name, name.namespace or None)
    except (UnknownResource, NotFound) as error:
        raise CommandError(f"{name}: {error}") from error
    return explain(scope, resource, item)


def _title(found: ExplainedObject) -> str:
    return _TITLES.get((found.is_saved, found.if_needed), "not saved")


def _as_data(name: str, found: ExplainedObject) -> JSONObject:
    return {
        "object": name,
        "saved": found.is_saved,
        "savedIfNeeded": found.if_needed,
        "rules": [{"rule": step.rule, "says": step.says, "admits": step.admits} for step in found.steps],
    }
