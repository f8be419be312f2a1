"""What is wrong now, by the objects of the server's namespace. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo

from msgspec import Struct

from pinnace.api import labels, phases
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject, listed, member, reasons, text
from pinnace.api.phases import BackupPhase
from pinnace.api.retention.passes import RetentionResult
from pinnace.api.values.times import format_time, known_time
from pinnace.api.verification_answer import Soundness
from pinnace.controllers.backup import newest_ended
from pinnace.controllers.schedule_runs import look
from pinnace.messages.problem import NOT_KNOWN, Cause, Problem, RunStage, Signal, Topic

KeyOf = Callable[[JSONObject], str]
_NAME = ("metadata", "name")


class Objects(Struct, frozen=True, kw_only=True):
    """The objects that problems are looked for in."""

    schedules: Sequence[JSONObject] = ()
    backups: Sequence[JSONObject] = ()
    restores: Sequence[JSONObject] = ()
    locations: Sequence[JSONObject] = ()
    deletions: Sequence[JSONObject] = ()

    def versions(self) -> list[str]:
        """The version of each object: equal lists are equal objects."""
        kinds = (self.schedules, self.backups, self.restores, self.locations, self.deletions)
        return [text(each, "metadata", "resourceVersion") for kind in kinds for each in kind]

    def of_tenants(self) -> "dict[str, Objects]":
        """The objects by the tenant that they belong to; the administrator's by the empty name.

        Whatever is in a tenant's location is the tenant's: it can have any label, also that of a Schedule.
        """
        owners = {text(each, *_NAME): _origin(each, Origin.LOCATION) for each in self.locations}

        def owner_of_backup(backup: JSONObject) -> str:
            return _origin(backup, Origin.BACKUP) or owners.get(text(backup, "spec", "storageLocation"), "")

        of_backups = {text(each, *_NAME): owner_of_backup(each) for each in self.backups}
        backups = _grouped(self.backups, lambda each: of_backups[text(each, *_NAME)])
        restores = _grouped(
            self.restores,
            lambda each: (
                _origin(each, Origin.RESTORE) or of_backups.get(text(each, "spec", "backupName"), "")
            ),
        )
        locations = _grouped(self.locations, lambda each: _origin(each, Origin.LOCATION))
        deletions = _grouped(
            self.deletions, lambda each: of_backups.get(text(each, "spec", "backupName"), "")
        )
        return {
            tenant: Objects(
                schedules=self.schedules if not tenant else (),
                backups=backups.get(tenant, ()),
                restores=restores.get(tenant, ()),
                locations=locations.get(tenant, ()),
                deletions=deletions.get(tenant, ()),
            )
            for tenant in {"", *backups, *restores, *locations}
        }


def troubles(objects: Objects, now: datetime, zone: tzinfo, *, tenant: str = "") -> dict[str, Problem]:
    """What is wrong, by the key of the problem.

    Args:
        tenant: whose objects they are. Its messages have the names of its own requests and no reasons, which
            can name objects of others.
    """
    found = [
        *_of_schedules(objects, now, zone),
        *_of_single_runs(objects, tenant),
        *_of_locations(objects, tenant),
        *_of_deletions(objects, tenant),
    ]
    return {problem.key: problem for problem in found}


def run_stages(objects: Objects) -> list[RunStage]:
    """How far the newest run of each Schedule is."""
    names = _schedule_names(objects)
    newest: dict[str, tuple[datetime, JSONObject]] = {}
    for backup in objects.backups:
        schedule = names.get(_schedule_label(backup), "")
        began = known_time(text(backup, "status", "startTimestamp")) or known_time(
            text(backup, "status", "completionTimestamp")
        )
        if schedule and began is not None and (schedule not in newest or newest[schedule][0] <= began):
            newest[schedule] = began, backup
    return [
        RunStage(
            topic=_topic("Schedule", backup, name=schedule, schedule=schedule),
            run=text(backup, *_NAME),
            signal=_signal(text(backup, "status", "phase")),
            since=_ended(backup, began).timestamp(),
        )
        for schedule, (began, backup) in newest.items()
    ]


def _signal(phase: str) -> Signal:
    if phase not in phases.FINAL:
        return Signal.START
    return Signal.OK if phase == BackupPhase.COMPLETED else Signal.FAIL


def _of_schedules(objects: Objects, now: datetime, zone: tzinfo) -> Iterator[Problem]:
    names = _schedule_names(objects)
    for label, backup in newest_ended(list(objects.backups)).items():
        if (name := names.get(label)) and (cause := _cause(text(backup, "status", "phase"))):
            yield Problem(
                topic=_topic("Schedule", backup, name=name, schedule=name),
                cause=cause,
                occasion=text(backup, *_NAME),
                since=_ended(backup, now).timestamp(),
                text=_why(backup),
            )
    of_label = _grouped(objects.backups, _schedule_label)
    for schedule in objects.schedules:
        name = text(schedule, *_NAME)
        topic = _topic("Schedule", schedule, schedule=name)
        runs = look(schedule, of_label.get(labels.label_value(name), ()), now, zone)
        if (missed := runs.missed) is not None:
            why = "; ".join(reasons(schedule))
            said = f"The run that was due at {format_time(missed)} has not begun. {why}"
            yield Problem(topic=topic, cause=Cause.MISSED_RUN, since=missed.timestamp(), text=said)
        when, _, rest = text(schedule, "metadata", "annotations", labels.RETENTION_STATUS).partition(" ")
        result, _, said = rest.partition(" ")
        if result in (RetentionResult.WAITING, RetentionResult.INVALID) and (moment := known_time(when)):
            since = moment.timestamp()
            yield Problem(topic=topic, cause=Cause.DELETION_HELD, since=since, text=said)
        note = text(schedule, "metadata", "annotations", labels.LAST_VERIFICATION)
        when, _, rest = note.partition(" ")
        result, _, backup_name = rest.partition(" ")
        if result == Soundness.UNSOUND and (moment := known_time(when)):
            yield Problem(
                topic=topic,
                cause=Cause.VERIFICATION_FAILED,
                occasion=backup_name,
                since=moment.timestamp(),
                text=f"Backup {backup_name} cannot be relied upon. Its annotations say why.",
            )


def _of_single_runs(objects: Objects, tenant: str) -> Iterator[Problem]:
    names = _schedule_names(objects)
    single = [each for each in objects.backups if _schedule_label(each) not in names]
    for kind, origin, runs in (
        ("Backup", Origin.BACKUP, single),
        ("Restore", Origin.RESTORE, objects.restores),
    ):
        for run in runs:
            cause, moment = _cause(text(run, "status", "phase")), _end(run)
            if cause is None or moment is None:
                continue
            yield Problem(
                topic=_tenant_topic(kind, run, origin, tenant),
                cause=cause,
                since=moment.timestamp(),
                text="" if tenant else _why(run),
                passes=False,
            )
    for backup in single:
        note = text(backup, "metadata", "annotations", labels.VERIFIED)
        when, _, result = note.partition(" ")
        if result == Soundness.UNSOUND and (moment := known_time(when)):
            yield Problem(
                topic=_tenant_topic("Backup", backup, Origin.BACKUP, tenant),
                cause=Cause.VERIFICATION_FAILED,
                since=moment.timestamp(),
                text="The backup cannot be relied upon. Its annotations say why.",
            )


def _of_locations(objects: Objects, tenant: str) -> Iterator[Problem]:
    for location in objects.locations:
        if text(location, "status", "phase") == "Unavailable":
            yield Problem(
                topic=_tenant_topic("BackupStorageLocation", location, Origin.LOCATION, tenant),
                cause=Cause.LOCATION_UNAVAILABLE,
                since=NOT_KNOWN,
                text="" if tenant else text(location, "status", "message"),
            )


def _of_deletions(objects: Objects, tenant: str) -> Iterator[Problem]:
    locations = {text(each, *_NAME): each for each in objects.locations}
    held: dict[str, list[str]] = {}
    for backup in objects.backups:
        if reason := text(backup, "metadata", "labels", labels.GC_FAILURE):
            held.setdefault(text(backup, "spec", "storageLocation"), []).append(reason)
    for name, why in held.items():
        location = locations.get(name) or {"metadata": {"name": name}}
        yield Problem(
            topic=_tenant_topic("BackupStorageLocation", location, Origin.LOCATION, tenant),
            cause=Cause.DELETION_HELD,
            since=NOT_KNOWN,
            text=f"{len(why)} expired backups are not deleted: {', '.join(sorted(set(why)))}",
        )
    backups = {text(each, *_NAME): each for each in objects.backups}
    for request in objects.deletions:
        errors = listed(request, "status", "errors")
        found = backups.get(text(request, "spec", "backupName"))
        moment = known_time(text(request, "metadata", "creationTimestamp"))
        if errors and found is not None and moment is not None:
            yield Problem(
                topic=_tenant_topic("Backup", found, Origin.BACKUP, tenant),
                cause=Cause.DELETION_HELD,
                occasion=text(request, *_NAME),
                since=moment.timestamp(),
                text="" if tenant else "; ".join(str(each) for each in errors),
            )


def _cause(phase: str) -> Cause | None:
    if phase in phases.FINISHED_IN_PART:
        return Cause.PARTIAL_FAILURE
    return Cause.FAILURE if phase in phases.FAILURES else None


def _why(run: JSONObject) -> str:
    """The reason in the status, and how many errors there were; what they say is in the log alone."""
    said = [text(run, "status", "phase"), *reasons(run)]
    if count := member(run, "status", "errors"):
        said.append(f"{count} errors")
    return "; ".join(filter(None, said))


def _end(run: JSONObject) -> datetime | None:
    """When a run ended; one that was refused has only its creation."""
    return known_time(text(run, "status", "completionTimestamp")) or known_time(
        text(run, "metadata", "creationTimestamp")
    )


def _ended(run: JSONObject, otherwise: datetime) -> datetime:
    return known_time(text(run, "status", "completionTimestamp")) or otherwise


def _topic(kind: str, obj: JSONObject, *, name: str = "", schedule: str = "") -> Topic:
    namespace = text(obj, "metadata", "namespace")
    return Topic(kind=kind, namespace=namespace, name=name or text(obj, *_NAME), schedule=schedule)


def _tenant_topic(kind: str, obj: JSONObject, origin: Origin, tenant: str) -> Topic:
    """The object; for a tenant its request, or, of what came out of its location, the kind alone."""
    if not tenant:
        return _topic(kind, obj)
    asked = text(obj, "metadata", "annotations", origin.name_annotation)
    return Topic(kind=f"NonAdmin{kind}", namespace=tenant, name=asked or text(obj, *_NAME))


def _origin(obj: JSONObject, origin: Origin) -> str:
    return text(obj, "metadata", "annotations", origin.namespace_annotation)


def _schedule_label(backup: JSONObject) -> str:
    return text(backup, "metadata", "labels", labels.SCHEDULE_NAME)


def _schedule_names(objects: Objects) -> Mapping[str, str]:
    """The names of the Schedules that exist, by their label."""
    names = (text(each, *_NAME) for each in objects.schedules)
    return {labels.label_value(name): name for name in names}


def _grouped(objects: Iterable[JSONObject], key: KeyOf) -> dict[str, list[JSONObject]]:
    found: dict[str, list[JSONObject]] = {}
    for each in objects:
        found.setdefault(key(each), []).append(each)
    return found
