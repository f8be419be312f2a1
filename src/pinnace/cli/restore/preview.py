"""`restore create --dry-run`: shows what a restore would do, with and without a server."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import click

from pinnace.api import labels
from pinnace.api.codec import DecodeError, decode
from pinnace.api.codec import encode as encode_object
from pinnace.api.objects import JSONObject, objects, text
from pinnace.api.resource_policies import PolicyError
from pinnace.api.restore_outcomes import MEANINGS, Outcome
from pinnace.api.values.counts import counted
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.api.velero.pod_volume import PodVolumeBackup
from pinnace.api.velero.restore import Restore
from pinnace.api.velero.snapshots import decode_snapshots
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.archive.runlog import RunLog
from pinnace.catalogue.pod_volumes import SavedPodVolumes, pod_volumes
from pinnace.catalogue.records import BackupRecords
from pinnace.cli.backends import open_backend
from pinnace.cli.client.plugin_actions import plugin_actions
from pinnace.cli.common.cluster import described, foreign_source, say_cluster, say_source
from pinnace.cli.common.reading import check_free
from pinnace.cli.common.server_flags import shown_flag
from pinnace.cli.connect import open_cluster
from pinnace.cli.errors import CommandError, ExitCode, InvalidInput
from pinnace.cli.kinds import RESTORE
from pinnace.cli.output.findings import Message, grouped
from pinnace.cli.output.layout import Sheet, echo_laid_out
from pinnace.cli.output.printing import encode
from pinnace.cli.progress.showing import showing
from pinnace.cli.restore.compared_files import ClaimFiles
from pinnace.cli.restore.mapped import check_mapping
from pinnace.cli.restore.objects import outcome_title
from pinnace.cli.settings import Settings
from pinnace.client.errors import ClientError, FileMissing, NoSuchObject
from pinnace.client.interface import Backend, DownloadOptions, fetch, fetch_json
from pinnace.kube.errors import KubeError
from pinnace.operations.modifiers import modifiers_of
from pinnace.operations.policies import filters_of_restore
from pinnace.operations.preview import BackupContents, Preview, PreviewSettings, preview_restore
from pinnace.operations.server_flags import MODIFIERS_FLAG
from pinnace.operations.workdir import work_directory
from pinnace.restore.errors import BackupLookupError, RestoreFailed
from pinnace.restore.modifiers.rules import ModifierError
from pinnace.restore.selection.validation import validate_and_complete
from pinnace.runs.activity import Activity
from pinnace.storage.errors import StorageError

FORMATS: Final = (None, "json", "yaml")
_DOWNLOADS: Final = DownloadOptions(timeout_seconds=600.0)
T = TypeVar("T")


async def preview(
    settings: Settings,
    restore: Restore,
    *,
    ask_api_server: bool,
    compares_files: bool,
    form: str | None,
    progress: str,
) -> int:
    """Print what the restore would do.

    Returns the exit code that the restore would have, or 1 if files that were to be compared were not.

    Args:
        ask_api_server: whether each object is sent as the API server's dry run too.
        compares_files: whether the files of claims that exist are compared with the backup.
        form: `json`, `yaml` or None for text.
        progress: how progress is shown.
    """
    if form not in FORMATS:
        raise InvalidInput(f"a dry run prints text, json or yaml, not {form}")
    await check_free(settings, RESTORE, restore.metadata.name)
    async with (
        work_directory(None) as folder,
        open_backend(settings) as backend,
        open_cluster(settings) as client,
        showing("dry run", activity := Activity(), client, form=progress) as view,
    ):
        say_cluster(client, "Looking at what a restore would do in")
        completed = await validate_and_complete(restore, _Lookups(backend))
        if completed.errors or completed.backup is None:
            raise InvalidInput("the restore is not valid:\n  " + "\n  ".join(completed.errors))
        try:
            default = ""
            if settings.location is None:
                default = await shown_flag(client, settings.namespace, MODIFIERS_FLAG)
            modifiers = await modifiers_of(
                client, settings.namespace, completed.restore.spec, default=default
            )
            policies = await filters_of_restore(client, settings.namespace, completed.restore.spec)
        except (ModifierError, PolicyError) as error:
            raise InvalidInput(f"the restore is not valid:\n  {error}") from error
        source = encode_object(completed.backup)
        view.close()
        await say_source(client, source)
        mapping = completed.restore.spec.namespace_mapping
        await check_mapping(backend, completed.backup.metadata.name, mapping)
        contents = await _contents(backend, completed.backup, folder, activity)
        how = PreviewSettings(
            log=RunLog(None, fields={}, level="error"),
            folder=folder,
            namespace=settings.namespace,
            features=settings.features,
            by_server=settings.location is None,
            ask_server=ask_api_server,
            modifiers=modifiers.modifiers,
            policies=policies,
            activity=activity,
            caveats=[*completed.warnings, *modifiers.warnings],
            plugin_actions=await plugin_actions(settings, client, "RestoreItemAction"),
        )
        files = None
        if compares_files:
            location = completed.backup.spec.storage_location
            files = ClaimFiles(client, settings.namespace, completed.restore, location)
            await files.begin()
        try:
            found = await preview_restore(client, completed.restore, contents, how)
        except RestoreFailed as error:
            raise CommandError(f"the restore would fail: {error}") from error
        if files is not None:
            await files.compare(found)
        clusters = {
            "cluster": await described(client),
            "otherSource": await foreign_source(client, source) or None,
        }
    if form is None:
        echo_laid_out(preview_text(completed.restore, found, asks=ask_api_server, files=files))
    else:
        compared = {"files": files.data()} if files is not None else {}
        data = {**clusters, **_data(completed.restore, found), **compared}
        click.echo(encode(data, form).rstrip("\n"))
    if found.results.errors.count:
        return ExitCode.PARTIALLY_FAILED
    return ExitCode.ERROR if files is not None and files.failed else ExitCode.OK


class _Lookups:
    """Looks up backups in a backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def backups_of_schedule(self, schedule: str) -> Sequence[Backup]:
        """All readable backups of a schedule. Raises BackupLookupError."""
        selector = f"{labels.SCHEDULE_NAME}={labels.label_value(schedule)}"
        found = await _looked_up(lambda: self._backend.objects("backups", selector))
        return [_decoded(obj) for obj in found]

    async def backup(self, name: str) -> Backup:
        """The backup. Raises BackupLookupError."""
        return _decoded(await _looked_up(lambda: self._backend.object("backups", name)))


async def _looked_up(read: Callable[[], Awaitable[T]]) -> T:
    try:
        return await read()
    except NoSuchObject:
        raise
    except (ClientError, KubeError, StorageError) as error:
        raise BackupLookupError(str(error)) from error


def _decoded(obj: JSONObject) -> Backup:
    try:
        return decode(Backup, obj)
    except DecodeError as error:
        raise BackupLookupError(str(error)) from error


async def _contents(backend: Backend, backup: Backup, folder: Path, activity: Activity) -> BackupContents:
    name, tarball = backup.metadata.name, folder / "contents.tar.gz"
    activity.downloading = tarball
    try:
        with tarball.open("wb") as sink:
            await fetch(backend, DownloadTargetKind.BACKUP_CONTENTS, name, _DOWNLOADS, sink)
    except FileMissing as error:
        raise CommandError(f"the restore would fail: backup {name} has no tarball") from error
    finally:
        activity.downloading = None
    snapshots = await _optional(backend, DownloadTargetKind.BACKUP_VOLUME_SNAPSHOTS, name)
    infos = await _optional(backend, DownloadTargetKind.BACKUP_VOLUME_INFOS, name)
    operations = await _optional(backend, DownloadTargetKind.BACKUP_ITEM_OPERATIONS, name)
    stored = await backend.volumes_of(name)
    try:
        volume_infos = [decode(BackupVolumeInfo, each) for each in infos]
        for each in stored:
            decode(PodVolumeBackup, each)
        return BackupContents(
            backup=backup,
            tarball=tarball,
            records=BackupRecords(
                native=decode_snapshots(snapshots),
                pod_volumes=SavedPodVolumes(pod_volumes(stored, volume_infos)),
                infos=volume_infos,
                operations=operations,
            ),
        )
    except DecodeError as error:
        raise CommandError(f"the records of the volumes of backup {name} cannot be read: {error}") from error


async def _optional(backend: Backend, kind: DownloadTargetKind, name: str) -> Sequence[JSONObject]:
    """A list in a file of the backup; empty if the backup lacks the file, or the server does not serve it."""
    try:
        found: Sequence[JSONObject] = await fetch_json(backend, kind, name, _DOWNLOADS)
    except FileMissing:
        return ()
    except ValueError as error:
        raise CommandError(f"the {kind.words} of backup {name} cannot be read: {error}") from error
    return found


def _groups(found: Preview) -> Iterator[tuple[str, str, JSONObject]]:
    for group in objects(found.outcomes.details(with_created=True), "groups"):
        yield text(group, "outcome"), text(group, "reason"), group["objects"]


def _data(restore: Restore, found: Preview) -> JSONObject:
    """The preview as data."""
    return {
        "backup": restore.spec.backup_name,
        "counts": {str(outcome): number for outcome, number in sorted(found.outcomes.counts.items())},
        "namespaces": list(found.namespaces),
        "definitions": list(found.definitions),
        "objects": [
            {"kind": kind, "name": title, "outcome": outcome, **({"reason": reason} if reason else {})}
            for outcome, reason, by_kind in _groups(found)
            for kind, titles in by_kind.items()
            for title in titles
        ],
        "volumes": [{"volume": note.volume, "source": note.source} for note in found.notes.volumes],
        "hooks": [
            {"pod": note.pod, "container": note.container, "command": list(note.command)}
            for note in found.notes.hooks
        ],
        "asked": found.asked,
        "accepted": found.accepted,
        "notAsked": found.not_asked,
        **found.results.to_dict(),
    }


def preview_text(restore: Restore, found: Preview, *, asks: bool, files: ClaimFiles | None = None) -> str:
    """The preview for people.

    Args:
        asks: whether the API server was to be asked about each write.
        files: the files that were compared; None if that was not wanted.
    """
    sheet = Sheet()
    sheet.line(f"A restore of backup {restore.spec.backup_name} would do this; nothing was changed.")
    sheet.line()
    _totals(sheet, found)
    if asks and not found.asked and not found.not_asked:
        sheet.line("  The API server was asked about nothing: the restore would write nothing.")
    for title, names in (
        ("Namespaces to be created", found.namespaces),
        ("Definitions to be created", found.definitions),
    ):
        if names:
            sheet.line(f"{title}: {', '.join(names)}")
    if found.notes.volumes:
        sheet.line("Volumes to be filled:")
        for volume in found.notes.volumes:
            sheet.line(f"  {volume.volume} from {volume.source}")
    if files is not None:
        sheet.line("Files of claims that exist:" if files.claims else "No claim that exists gets data.")
        sheet.outline(files.lines())
    if found.notes.hooks:
        sheet.line("Hooks to be run:")
        for hook in found.notes.hooks:
            sheet.line(f"  {hook.pod}, container {hook.container or '<first>'}: {' '.join(hook.command)}")
    _objects(sheet, found)
    for what, result in (("Warnings", found.results.warnings), ("Errors", found.results.errors)):
        lines = grouped(Message(text=str(notice)) for _, notice in result.notices())
        if lines:
            sheet.line()
            sheet.line(f"{what} that the restore would end with:")
            for group in lines:
                sheet.line(f"  {group.line}")
    return sheet.render() + "\n"


def _totals(sheet: Sheet, found: Preview) -> None:
    counts = found.outcomes.counts
    if not counts:
        sheet.line("No object of the backup is selected: nothing would be restored.")
    for outcome in Outcome:
        if number := counts.get(outcome):
            sheet.line(f"  {counted(number, 'object')}:\t{MEANINGS[outcome]}")
    if found.asked:
        sheet.line(
            f"  The API server was asked about {counted(found.asked, 'write')} and accepted"
            f" {'all' if found.accepted == found.asked else f'{found.accepted:,}'}."
        )
    if found.not_asked:
        sheet.line(
            f"  The API server could not be asked about {counted(found.not_asked, 'object')}, whose namespace"
            " or kind does not exist yet."
        )


def _objects(sheet: Sheet, found: Preview) -> None:
    lines: dict[str, list[str]] = {}
    for outcome, reason, by_kind in _groups(found):
        because = f": {reason}" if reason else ""
        of_outcome = lines.setdefault(outcome, [])
        of_outcome += [f"  {kind} {title}{because}" for kind, titles in by_kind.items() for title in titles]
    for each in Outcome:
        if each in lines:
            sheet.line()
            sheet.line(f"{outcome_title(each)}:")
            for line in lines[each]:
                sheet.line(line)
