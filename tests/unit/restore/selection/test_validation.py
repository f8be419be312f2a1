"""The validation of a Restore, and its defaults."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup, BackupStatus
from pinnace.api.velero.restore import Restore, RestoreSpec, RestoreUploader
from pinnace.restore.errors import BackupLookupError
from pinnace.restore.selection.validation import (
    NON_RESTORABLE,
    CompletedRestore,
    most_recent_completed,
    validate_and_complete,
)

BOTH = "excludes list cannot contain an item in the includes list"
SOURCE = "Either a backup or schedule must be specified as a source for the restore, but not both"


def backup(name: str, phase: str = "Completed", second: int | None = 0, schedule: str = "") -> Backup:
    start = None if second is None else datetime(2021, 8, 11, 21, 43, second, tzinfo=UTC)
    return Backup(
        metadata=ObjectMeta(name=name, labels={"velero.io/schedule-name": schedule} if schedule else {}),
        status=BackupStatus(phase=phase, start_timestamp=start),
    )


class Shelf:
    """Some backups; `unlisted` makes listing fail."""

    def __init__(self, *backups: Backup, unlisted: bool = False) -> None:
        self._backups = backups
        self._unlisted = unlisted

    async def backups_of_schedule(self, schedule: str) -> Sequence[Backup]:
        if self._unlisted:
            raise BackupLookupError("no answer")
        wanted = {"velero.io/schedule-name": schedule}
        return [one for one in self._backups if one.metadata.labels == wanted]

    async def backup(self, name: str) -> Backup:
        for one in self._backups:
            if one.metadata.name == name:
                return one
        raise BackupLookupError(f'backup.velero.io "{name}" not found')


async def validated(*backups: Backup, unlisted: bool = False, **spec: Any) -> CompletedRestore:
    restore = Restore(metadata=ObjectMeta(name="restore-1"), spec=RestoreSpec(**spec))
    return await validate_and_complete(restore, Shelf(*backups, unlisted=unlisted))


def scheduled(name: str, phase: str = "Completed", second: int | None = 0) -> Backup:
    return backup(name, phase, second, "daily")


@pytest.mark.spec("RST-001")
async def test_a_namespace_in_both_lists_is_refused() -> None:
    done = await validated(backup("b"), backup_name="b", included_namespaces=["a"], excluded_namespaces=["a"])
    assert done.errors == (f"Invalid included/excluded namespace lists: {BOTH}: a",)
    assert done.backup is None


@pytest.mark.spec("RST-002")
async def test_a_resource_in_both_lists_is_refused() -> None:
    done = await validated(backup("b"), backup_name="b", included_resources=["r"], excluded_resources=["r"])
    assert done.errors == (f"Invalid included/excluded resource lists: {BOTH}: r",)


@pytest.mark.spec("RST-003")
@pytest.mark.parametrize("spec", [{}, {"backup_name": "b", "schedule_name": "s"}], ids=["neither", "both"])
async def test_exactly_one_source_is_needed(spec: dict[str, Any]) -> None:
    done = await validated(backup("b"), **spec)
    assert done.errors == (SOURCE,)


@pytest.mark.spec("RST-004")
@pytest.mark.parametrize("name", NON_RESTORABLE)
async def test_including_a_resource_that_is_never_restored_is_refused(name: str) -> None:
    done = await validated(backup("b"), backup_name="b", included_resources=[name])
    assert done.errors == (
        f"{name} are non-restorable resources",
        f"Invalid included/excluded resource lists: {BOTH}: {name}",
    )


@pytest.mark.spec("RST-005")
async def test_a_missing_backup_is_refused() -> None:
    done = await validated(backup_name="backup-1")
    assert done.errors == ('Error retrieving backup: backup.velero.io "backup-1" not found',)


@pytest.mark.spec("RST-006")
async def test_a_schedule_without_backups_is_refused() -> None:
    done = await validated(backup("other"), schedule_name="daily")
    assert done.errors == ("No backups found for schedule", "No completed backups found for schedule")


@pytest.mark.spec("RST-007")
async def test_a_schedule_without_completed_backups_is_refused() -> None:
    done = await validated(scheduled("b", "InProgress"), schedule_name="daily")
    assert done.errors == ("No completed backups found for schedule",)


async def test_backups_that_cannot_be_listed_are_an_error() -> None:
    done = await validated(unlisted=True, schedule_name="daily")
    assert done.errors == ("Unable to list backups for schedule",)


@pytest.mark.spec("RST-008")
async def test_the_newest_completed_backup_of_a_schedule_is_chosen() -> None:
    done = await validated(
        scheduled("later", "Completed", 2),
        scheduled("earlier", "Completed", 1),
        scheduled("never", "Completed", None),
        schedule_name="daily",
    )
    assert done.errors == ()
    assert done.restore.spec.backup_name == "later"
    assert done.restore.spec.schedule_name == "daily"


@pytest.mark.spec("RST-009")
def test_a_partially_failed_backup_is_never_chosen() -> None:
    chosen = most_recent_completed([backup("old", "Completed", 1), backup("new", "PartiallyFailed", 2)])
    assert chosen is not None
    assert chosen.metadata.name == "old"


async def test_a_valid_restore_is_completed_and_the_one_given_is_left_alone() -> None:
    restore = Restore(metadata=ObjectMeta(name="r"), spec=RestoreSpec(backup_name="b"))

    done = await validate_and_complete(restore, Shelf(backup("b", "PartiallyFailed")))

    assert done.errors == ()
    assert done.backup is not None
    assert tuple(done.restore.spec.excluded_resources) == NON_RESTORABLE
    assert restore.spec.excluded_resources == []


@pytest.mark.spec("RST-011")
async def test_default_exclusions_are_not_added_twice() -> None:
    done = await validated(backup("b"), backup_name="b", excluded_resources=["secrets", "nodes"])
    assert done.restore.spec.excluded_resources == [
        "secrets",
        "nodes",
        "events",
        "events.events.k8s.io",
        "backups.velero.io",
        "restores.velero.io",
        "resticrepositories.velero.io",
        "csinodes.storage.k8s.io",
        "volumeattachments.storage.k8s.io",
        "backuprepositories.velero.io",
    ]


async def test_the_schedule_of_a_backup_is_filled_in() -> None:
    done = await validated(scheduled("b"), backup_name="b")
    assert (done.restore.spec.backup_name, done.restore.spec.schedule_name) == ("b", "daily")


async def test_all_lists_are_checked_before_the_source() -> None:
    done = await validated(
        included_resources=["nodes", "*"], included_namespaces=["a", "*"], excluded_namespaces=["*"]
    )
    everything = "includes list must either contain '*' only, or a non-empty list of items"
    assert done.errors == (
        "nodes are non-restorable resources",
        f"Invalid included/excluded resource lists: {everything}",
        f"Invalid included/excluded resource lists: {BOTH}: nodes",
        f"Invalid included/excluded namespace lists: {everything}",
        "Invalid included/excluded namespace lists: excludes list cannot contain '*'",
        f"Invalid included/excluded namespace lists: {BOTH}: *",
        SOURCE,
    )


@pytest.mark.spec("BEY-047")
async def test_an_unknown_policy_for_existing_objects_is_refused() -> None:
    policies = ("", "none", "update", "recreate", "foo")
    found = [await validated(backup("b"), backup_name="b", existing_resource_policy=one) for one in policies]

    assert [one.backup is not None for one in found] == [True, True, True, True, False]
    assert found[-1].errors == ('Invalid existingResourcePolicy "foo": it is one of none, update, recreate',)


@pytest.mark.spec("AFT-152")
async def test_an_unknown_policy_for_the_data_of_existing_claims_is_refused() -> None:
    found = [
        await validated(backup("b"), backup_name="b", existing_volume_data_policy=policy)
        for policy in ("", "none", "full", "incremental", "some")
    ]

    assert [one.errors for one in found[:4]] == [(), (), (), ()]
    assert found[4].errors == ("Invalid ExistingVolumeDataPolicy: some",)


async def test_removing_extra_files_needs_the_policy() -> None:
    config = RestoreUploader(delete_extra_files=True)
    alone = await validated(backup("b"), backup_name="b", uploader_config=config)
    both = await validated(
        backup("b"), backup_name="b", uploader_config=config, existing_volume_data_policy="full"
    )

    assert alone.errors[0].startswith("uploaderConfig.deleteExtraFiles needs existingVolumeDataPolicy")
    assert both.errors == ()


async def test_a_negative_number_of_files_at_once_is_refused() -> None:
    found = await validated(
        backup("b"), backup_name="b", uploader_config=RestoreUploader(parallel_files_download=-1)
    )

    assert found.errors == ("uploaderConfig.parallelFilesDownload must not be negative",)


@pytest.mark.spec("AFT-162")
@pytest.mark.parametrize(
    ("phase", "shown"),
    [
        ("", "New"),
        ("InProgress", "InProgress"),
        ("FailedValidation", "FailedValidation"),
        ("WaitingForPluginOperations", "WaitingForPluginOperations"),
        ("SomethingLater", "SomethingLater"),
    ],
)
async def test_a_backup_without_contents_is_no_source(phase: str, shown: str) -> None:
    restore = Restore(
        metadata=ObjectMeta(name="r", annotations={"pinnace.io/allow-failed-backup": "true"}),
        spec=RestoreSpec(backup_name="b"),
    )
    done = await validate_and_complete(restore, Shelf(backup("b", phase)))

    assert done.errors == (f'backup "b" is in phase "{shown}" and cannot be used as a restore source',)
    assert done.backup is None


@pytest.mark.spec("AFT-162")
@pytest.mark.parametrize(
    ("phase", "allowed", "refused"),
    [("Failed", "", True), ("Failed", "false", True), ("Failed", "true", False), ("Deleting", "", False)],
)
async def test_a_failed_backup_is_a_source_on_demand_and_one_being_deleted_with_a_warning(
    phase: str, allowed: str, refused: bool
) -> None:
    notes = {"pinnace.io/allow-failed-backup": allowed} if allowed else {}
    restore = Restore(metadata=ObjectMeta(name="r", annotations=notes), spec=RestoreSpec(backup_name="b"))

    done = await validate_and_complete(restore, Shelf(backup("b", phase)))

    assert (done.backup is None, bool(done.errors), not done.warnings) == (refused, refused, refused)
