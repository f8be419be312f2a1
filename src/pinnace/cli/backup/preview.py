"""`backup create --dry-run`: shows what a backup would hold, with a server or without one."""

from collections.abc import Sequence
from typing import TypeVar

import click
from msgspec import Struct

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject
from pinnace.api.resource_policies import PolicyError
from pinnace.api.values.counts import counted
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.snapshot_location import VolumeSnapshotLocation
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.backup.errors import FatalBackupError
from pinnace.backup.request import ServerDefaults, prepare_backup
from pinnace.cli.browse.rows import size_text
from pinnace.cli.client.plugin_actions import plugin_actions
from pinnace.cli.common.cluster import described, say_cluster
from pinnace.cli.common.reading import check_free
from pinnace.cli.common.server_flags import shown_flag
from pinnace.cli.connect import caller, open_cluster
from pinnace.cli.errors import CommandError, ExitCode, InvalidInput
from pinnace.cli.kinds import BACKUP
from pinnace.cli.output.findings import grouped, log_findings
from pinnace.cli.output.layout import Sheet, echo_laid_out
from pinnace.cli.output.printing import encode
from pinnace.cli.progress.showing import showing
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, VOLUME_SNAPSHOT_LOCATIONS, APIResource
from pinnace.operations.backup_preview import BackupPreview, BackupPreviewSettings, preview_backup
from pinnace.operations.namespace_choice import NamespaceChoiceError, choose_namespaces
from pinnace.operations.policies import policies_of
from pinnace.operations.server_flags import VOLUME_POLICIES_FLAG
from pinnace.runs.activity import Activity

S = TypeVar("S", bound=Struct)


async def preview(settings: Settings, backup: Backup, *, form: str | None, progress: str) -> int:
    """Print what the backup would hold. Returns the exit code that the backup would have.

    Args:
        form: `json`, `yaml` or None for text.
        progress: how progress is shown.
    """
    if form not in (None, "json", "yaml"):
        raise InvalidInput(f"a dry run prints text, json or yaml, not {form}")
    await check_free(settings, BACKUP, backup.metadata.name)
    async with open_cluster(settings) as client:
        say_cluster(client, "Looking at what a backup would hold of")
        discovery = await Discovery.load(client, all_versions="EnableAPIGroupVersions" in settings.features)
        prepared = await _prepared(settings, client, backup, discovery)
        try:
            of_server = ""
            if settings.location is None:
                of_server = await shown_flag(client, settings.namespace, VOLUME_POLICIES_FLAG)
            policies = await policies_of(
                client, settings.namespace, prepared.spec, discovery.canonical, of_server=of_server
            )
        except PolicyError as error:
            raise InvalidInput(f"the backup is not valid:\n  {error}") from error
        activity = Activity()
        async with showing("dry run", activity, client, form=progress) as view:
            how = BackupPreviewSettings(
                features=settings.features,
                saves_pod_volumes=settings.location is None,
                plugin_actions=await plugin_actions(settings, client, "BackupItemAction"),
                policies=policies,
                activity=activity,
                progress=view.publish,
            )
            try:
                found = await preview_backup(client, discovery, prepared, how)
            except FatalBackupError as error:
                raise CommandError(f"the backup would fail: {error}") from error
        cluster = await described(client)
    if form is None:
        echo_laid_out(_text(prepared, found))
    else:
        click.echo(encode({"cluster": cluster, **_data(prepared, found)}, form).rstrip("\n"))
    return ExitCode.PARTIALLY_FAILED if found.errors else ExitCode.OK


async def _prepared(settings: Settings, client: KubeClient, backup: Backup, discovery: Discovery) -> Backup:
    """The Backup completed as a server does. Raises InvalidInput with all problems."""
    if settings.location is not None:
        from pinnace.cli.identities import given_identities
        from pinnace.client.location import LocationBackend

        async with LocationBackend.open(
            settings.location, caller(), namespace=settings.namespace, identities=given_identities(settings)
        ) as opened:
            locations = [opened.location]
        snapshot_locations: Sequence[VolumeSnapshotLocation] = []
    else:
        namespace = settings.namespace
        locations = await _all_of(client, BackupStorageLocation, BACKUP_STORAGE_LOCATIONS, namespace)
        snapshot_locations = await _all_of(
            client, VolumeSnapshotLocation, VOLUME_SNAPSHOT_LOCATIONS, namespace
        )
    assert discovery.server_version is not None
    prepared = prepare_backup(
        backup,
        defaults=ServerDefaults(),
        storage_locations=locations,
        snapshot_locations=snapshot_locations,
        server_version=discovery.server_version,
        now=SYSTEM_CLOCK.now(),
    )
    problems = list(prepared.status.validation_errors)
    try:
        await choose_namespaces(client, prepared)
    except NamespaceChoiceError as error:
        problems.append(str(error))
    if problems:
        raise InvalidInput("the backup is not valid:\n  " + "\n  ".join(problems))
    return prepared


async def _all_of(client: KubeClient, struct: type[S], resource: APIResource, namespace: str) -> list[S]:
    try:
        return [decode(struct, obj) for obj in await client.list_all(resource, namespace)]
    except DecodeError as error:
        raise CommandError(f"{resource.group_resource} cannot be read: {error}") from error


def _data(backup: Backup, found: BackupPreview) -> JSONObject:
    findings = {
        level: [group.line for group in grouped(log_findings(found.log.splitlines(), level))]
        for level in ("warning", "error")
    }
    return {
        "name": backup.metadata.name,
        "items": [
            {"resource": kind, "namespace": namespace, "items": each.items, "bytes": each.size_bytes}
            for (kind, namespace), each in sorted(found.counts.items())
        ],
        "volumes": [{"volume": volume, "saved": how} for volume, how in found.notes.volumes],
        "hooks": [{"pod": pod, "command": command} for pod, command in found.notes.hooks],
        "leftOut": list(found.left_out),
        "warnings": findings["warning"],
        "errors": findings["error"],
    }


def _text(backup: Backup, found: BackupPreview) -> str:
    sheet = Sheet()
    items = sum(each.items for each in found.counts.values())
    size = size_text(sum(each.size_bytes for each in found.counts.values()))
    sheet.line(f"Backup {backup.metadata.name} would hold {counted(items, 'item')}: {size} of JSON.")
    sheet.line("Nothing was written.")
    if found.counts:
        sheet.line()
        sheet.line("RESOURCE\tNAMESPACE\tITEMS\tSIZE")
        for (kind, namespace), each in sorted(found.counts.items()):
            sheet.line(f"{kind}\t{namespace or '-'}\t{each.items}\t{size_text(each.size_bytes)}")
    if found.notes.volumes:
        sheet.line()
        sheet.line("Volumes to be saved:")
        for volume, how in found.notes.volumes:
            sheet.line(f"  {volume} {how}")
    if found.notes.hooks:
        sheet.line()
        sheet.line("Hooks to be run:")
        for pod, command in found.notes.hooks:
            sheet.line(f"  {pod}: {command}")
    if found.left_out:
        sheet.line()
        sheet.line("Left out by the resource policies:")
        for line in found.left_out:
            sheet.line(f"  {line}")
    for level in ("warning", "error"):
        lines = grouped(log_findings(found.log.splitlines(), level))
        if lines:
            sheet.line()
            sheet.line(f"{level.capitalize()}s that the backup would end with:")
            for group in lines:
                about = f" ({group.about})" if group.about else ""
                sheet.line(f"  {group.line}{about}")
    return sheet.render() + "\n"
