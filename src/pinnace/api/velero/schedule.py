"""Schedule: Backups made repeatedly, by a cron expression. (docs/spec: API 4)"""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from pinnace.api import API_VERSION, labels
from pinnace.api.fields import ENUM_KEY, NULLABLE, REQUIRED, NullableTime
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.backup import BackupSpec


class SchedulePhase(StrEnum):
    """The phase of a Schedule. Empty counts as New."""

    NEW = "New"
    ENABLED = "Enabled"
    FAILED_VALIDATION = "FailedValidation"


class ScheduleSpec(Struct, rename="camel", kw_only=True):
    """What to back up, and when.

    Attributes:
        template: Spec of the Backups to make.
        schedule: Cron expression of five fields, or `@every <duration>`, `@daily`, `@daily-random` and the
            like; `CRON_TZ=<zone>` before it names its time zone, which is the server's otherwise.
        use_owner_references_in_backup: Whether the Schedule owns its Backups; they are then deleted with it.
        paused: Whether the Schedule makes no Backups. A field of later versions of Velero.
        skip_immediately: Whether a run that is due now is skipped, once: the server then sets this to false.
            Absent means the server's default. A field of later versions of Velero. (docs/spec: BEY 7.1)
    """

    template: Annotated[BackupSpec, REQUIRED] = field(default_factory=BackupSpec)
    schedule: Annotated[str, REQUIRED] = ""
    use_owner_references_in_backup: Annotated[bool | None, NULLABLE] = None
    paused: bool = False
    skip_immediately: bool | None = None


class ScheduleStatus(Struct, rename="camel", kw_only=True):
    """What the server reports about the Schedule.

    Attributes:
        phase: The phase of the Schedule.
        last_backup: When the last Backup was made.
        last_skipped: When skipImmediately last took effect; only runs due after that time are made.
        validation_errors: Why the spec was refused.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: SchedulePhase})] = ""
    last_backup: NullableTime = None
    last_skipped: NullableTime = None
    validation_errors: list[str] = []


class Schedule(Struct, rename="camel", kw_only=True):
    """Backups made whenever a cron expression says so."""

    kind: str = "Schedule"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ScheduleSpec = field(default_factory=ScheduleSpec)
    status: ScheduleStatus = field(default_factory=ScheduleStatus)


_OF_SCHEDULE: Final = frozenset(
    {
        labels.VERIFY,
        labels.VERIFY_READ_DATA,
        labels.LAST_VERIFICATION,
        labels.NEXT_RUN,
        labels.LAST_SUCCESS,
        labels.MISSED_RUN,
        labels.RETENTION,
        labels.RETENTION_STATUS,
        labels.RETENTION_ANNOUNCED,
        labels.RETENTION_CONFIRMED,
        labels.HOLD,
        labels.HOLD_COPIED,
        labels.NOT_DURING,
        labels.CATCH_UP,
        labels.ALLOW_OVERLAP,
        labels.MESSAGES,
    }
)
"""Annotations that are about the Schedule, and which its Backups do not get."""


def backup_annotations(schedule: JSONObject) -> dict[str, str]:
    """The annotations of a Schedule's Backup: those of its template, else those of the Schedule. (BEY 7.1)

    The labels of its namespaces are a filter, which holds unless the template has another one.
    """
    own = mapping(schedule, "metadata", "annotations")
    given = mapping(schedule, "spec", "template", "metadata").get("annotations")
    if given is not None:
        own = {key: value for key, value in own.items() if key == labels.NAMESPACE_SELECTOR} | given
    made = {
        key: value
        for key, value in own.items()
        if not (key in _OF_SCHEDULE or key.startswith(labels.PROBLEM_PREFIX))
    }
    if labels.RETENTION in mapping(schedule, "metadata", "annotations"):
        made[labels.OWN_TTL] = text(schedule, "spec", "template", "ttl")
    return made
