"""Validates a Restore and fills in its defaults. (docs/spec: RST 3, CTL 8.2)

Backups are read through `BackupLookups`: from the cluster by a server, from the location by a command without
a server.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from pinnace.api import labels, phases
from pinnace.api.chosen_objects import decode_chosen
from pinnace.api.phases import BackupPhase
from pinnace.api.selection.label_choice import label_choice_errors
from pinnace.api.selection.validation import namespace_list_errors, resource_list_errors
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import ITEM_OPERATION_TIMEOUT, Backup
from pinnace.api.velero.restore import ExistingResourcePolicy, ExistingVolumeDataPolicy, Restore, RestoreSpec
from pinnace.restore.errors import BackupLookupError

NON_RESTORABLE: Final = (
    "nodes",
    "events",
    "events.events.k8s.io",
    "backups.velero.io",
    "restores.velero.io",
    "resticrepositories.velero.io",
    # The drivers of a node and the attachments of its volumes, which exist in the old cluster only. (BEY 5.5)
    "csinodes.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "backuprepositories.velero.io",
)
"""Never restored; appended to every restore's excluded resources, in this order."""

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class BackupLookups(Protocol):
    """Access to backups."""

    async def backups_of_schedule(self, schedule: str) -> Sequence[Backup]:
        """All backups labelled with the schedule's name.

        Raises:
            BackupLookupError: they cannot be listed.
        """
        ...

    async def backup(self, name: str) -> Backup:
        """Return the backup, after its location was found and its store opened.

        Raises:
            BackupLookupError: one of these steps failed; the text follows `Error retrieving backup: `.
        """
        ...


class CompletedRestore(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a validation.

    Attributes:
        restore: the Restore with its spec completed, even if it is not valid.
        backup: the backup to restore from; None if the Restore is not valid.
        errors: for `status.validationErrors`, in order; empty if valid.
        warnings: what the results of the restore begin with.
    """

    restore: Restore
    backup: Backup | None
    errors: tuple[str, ...]
    warnings: tuple[str, ...] = ()


async def validate_and_complete(
    restore: Restore, lookups: BackupLookups, *, operation_timeout: Duration = ITEM_OPERATION_TIMEOUT
) -> CompletedRestore:
    """Validate a Restore before it runs; the given object is not changed.

    Args:
        operation_timeout: the item operation timeout of a Restore that sets none.
    """
    spec = _with_default_exclusions(restore.spec)
    spec.item_operation_timeout = spec.item_operation_timeout or operation_timeout
    errors = [
        *list_errors(spec),
        *_policy_errors(spec),
        *_object_errors(restore),
        *_uploader_errors(spec),
    ]
    spec, backup, source_errors = await _find_source(spec, lookups)
    errors += source_errors
    warnings: list[str] = []
    if backup is not None:
        allows_failed = restore.metadata.annotations.get(labels.FAILED_BACKUP) == "true"
        problems, warnings = _phase_findings(backup, allows_failed=allows_failed)
        errors += problems
    return CompletedRestore(
        restore=msgspec.structs.replace(restore, spec=spec),
        backup=None if errors else backup,
        errors=tuple(errors),
        warnings=tuple(warnings),
    )


def _with_default_exclusions(spec: RestoreSpec) -> RestoreSpec:
    missing = [name for name in NON_RESTORABLE if name not in spec.excluded_resources]
    return msgspec.structs.replace(spec, excluded_resources=[*spec.excluded_resources, *missing])


def list_errors(spec: RestoreSpec) -> list[str]:
    """The validation errors of the four lists of a spec that has its default exclusions."""
    return [
        # As the user wrote it: `no` for nodes is not an error here, but excluded later.
        *(
            f"{name} are non-restorable resources"
            for name in NON_RESTORABLE
            if name in spec.included_resources
        ),
        *resource_list_errors(spec.included_resources, spec.excluded_resources),
        *namespace_list_errors(spec.included_namespaces, spec.excluded_namespaces),
        *label_choice_errors(spec.label_selector, spec.or_label_selectors, "restore"),
    ]


def _policy_errors(spec: RestoreSpec) -> list[str]:
    """The validation errors of the policies for existing objects and their data, and for statuses."""
    errors = []
    policy, known = spec.existing_resource_policy, [str(each) for each in ExistingResourcePolicy]
    if policy and policy not in known:
        errors.append(f'Invalid existingResourcePolicy "{policy}": it is one of {", ".join(known)}')
    data_policy, known = spec.existing_volume_data_policy, [str(each) for each in ExistingVolumeDataPolicy]
    if data_policy and data_policy not in known:
        errors.append(f"Invalid ExistingVolumeDataPolicy: {data_policy}")
    if spec.restore_status is not None:
        wanted = spec.restore_status
        errors += [
            f"restoreStatus: {error}"
            for error in resource_list_errors(wanted.included_resources, wanted.excluded_resources)
        ]
    return errors


def _object_errors(restore: Restore) -> list[str]:
    """The validation error of the annotation with single objects."""
    value = restore.metadata.annotations.get(labels.CHOSEN_OBJECTS)
    if value is None:
        return []
    try:
        decode_chosen(value)
    except ValueError as error:
        return [f"annotation {labels.CHOSEN_OBJECTS}: {error}"]
    return []


def _uploader_errors(spec: RestoreSpec) -> list[str]:
    """The validation errors of the settings for the uploader."""
    config, errors = spec.uploader_config, []
    if config is not None and config.parallel_files_download < 0:
        errors.append("uploaderConfig.parallelFilesDownload must not be negative")
    if config is not None and config.delete_extra_files and not spec.is_in_place:
        errors.append(
            "uploaderConfig.deleteExtraFiles needs existingVolumeDataPolicy full or incremental: without it"
            " files of existing volumes are not removed"
        )
    return errors


async def _find_source(
    spec: RestoreSpec, lookups: BackupLookups
) -> tuple[RestoreSpec, Backup | None, list[str]]:
    """The backup to restore from, with both names of the spec filled."""
    if bool(spec.backup_name) == bool(spec.schedule_name):
        problem = "Either a backup or schedule must be specified as a source for the restore, but not both"
        return spec, None, [problem]
    if spec.schedule_name:
        try:
            candidates = await lookups.backups_of_schedule(spec.schedule_name)
        except BackupLookupError:
            return spec, None, ["Unable to list backups for schedule"]
        errors = [] if candidates else ["No backups found for schedule"]
        newest = most_recent_completed(candidates)
        if newest is None:
            return spec, None, [*errors, "No completed backups found for schedule"]
        spec = msgspec.structs.replace(spec, backup_name=newest.metadata.name)
    try:
        backup = await lookups.backup(spec.backup_name)
    except BackupLookupError as error:
        return spec, None, [f"Error retrieving backup: {error}"]
    if not spec.schedule_name:
        schedule = backup.metadata.labels.get(labels.SCHEDULE_NAME, "")
        spec = msgspec.structs.replace(spec, schedule_name=schedule)
    return spec, backup, []


def _phase_findings(backup: Backup, *, allows_failed: bool) -> tuple[list[str], list[str]]:
    """The errors and warnings about the phase of a backup as a source. (docs/spec: AFT 7.3)"""
    name, phase = backup.metadata.name, backup.status.phase or BackupPhase.NEW
    if phase in phases.FINISHED:
        return [], []
    if phase == BackupPhase.DELETING:
        return [], [f'backup "{name}" is being deleted, or its deletion failed: what it has is restored']
    if phase == BackupPhase.FAILED and allows_failed:
        return [], [f'backup "{name}" is Failed and may lack objects: what it has is restored']
    problem = f'backup "{name}" is in phase "{phase}" and cannot be used as a restore source'
    if phase == BackupPhase.FAILED:
        problem += ": `restore create --allow-failed` restores what it has"
    return [problem], []


def most_recent_completed(backups: Sequence[Backup]) -> Backup | None:
    """The Completed backup that started last; one without a start counts as the oldest."""
    completed = [backup for backup in backups if backup.status.phase == BackupPhase.COMPLETED]
    return max(completed, key=lambda backup: backup.status.start_timestamp or _LONG_AGO, default=None)
