"""Which Backup a run of a Schedule makes, and whether it is there already. Pure. (docs/spec: CTL 4.3)"""

from datetime import datetime, tzinfo

from pinnace.api import API_VERSION, labels, phases
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.retention.rules import with_covering_ttl
from pinnace.api.schedules.due import LONG_AGO
from pinnace.api.values.times import CLOCK_DIFFERENCE, known_time, parse_time
from pinnace.api.velero.schedule import Schedule, backup_annotations


def is_unfinished(backup: JSONObject) -> bool:
    """Whether a Backup has not read the cluster yet."""
    return ((backup.get("status") or {}).get("phase") or "") in phases.COLLECTING


def is_made_for(schedule: Schedule, backup: JSONObject, due: datetime, now: datetime, zone: tzinfo) -> bool:
    """Whether a Backup with the Schedule's label is that of the run that became due then.

    One made by hand from the Schedule since then, by `schedule run` or with the name it gets by default,
    counts as that run. Not so those of a former Schedule of the same name, or found in a location and
    therefore created lately.
    """
    requested_of, _, requested = text(backup, "metadata", "annotations", labels.RUN_REQUESTED).partition(" ")
    if requested_of and requested_of == schedule.metadata.uid:
        moment = known_time(requested)
        return moment is not None and due <= moment <= now + CLOCK_DIFFERENCE
    created = schedule.metadata.creation_timestamp or LONG_AGO
    metadata = backup["metadata"]
    earliest = max(due, created - CLOCK_DIFFERENCE)
    # Names of one length sort as the times in them do, except in an hour that a clock set back repeats.
    first, last = (backup_name(schedule.metadata.name, moment, zone) for moment in (earliest, now))
    return (
        len(metadata["name"]) == len(first)
        and first <= metadata["name"] <= last
        and parse_time(metadata["creationTimestamp"]) >= created
    )


def backup_name(schedule: str, moment: datetime, zone: tzinfo | None) -> str:
    """`<schedule>-<YYYYMMDDhhmmss>` by the time in a zone, None for the local one. (docs/spec: CTL 4.3)"""
    return f"{schedule}-{moment.astimezone(zone):%Y%m%d%H%M%S}"


def backup_of(obj: JSONObject, moment: datetime, zone: tzinfo | None) -> JSONObject:
    """The Backup of a run, from the Schedule as it was read, so that no unknown field is lost. (CTL 4.3)"""
    metadata, spec = obj["metadata"], mapping(obj, "spec")
    name = metadata["name"]
    # What the template has takes the place of what the Schedule has. (docs/spec: BEY 7.1)
    given = (spec.get("template") or {}).get("metadata") or {}
    own = given.get("labels") or metadata.get("labels") or {}
    own_labels = {**own, labels.SCHEDULE_NAME: labels.label_value(name)}
    made = {
        "name": backup_name(name, moment, zone),
        "namespace": metadata["namespace"],
        "labels": own_labels,
    }
    if annotations := backup_annotations(obj):
        made["annotations"] = annotations
    if spec.get("useOwnerReferencesInBackup"):
        owner = {"apiVersion": API_VERSION, "kind": "Schedule", "name": name, "uid": metadata["uid"]}
        made["ownerReferences"] = [{**owner, "controller": True}]
    template = with_covering_ttl(obj, spec.get("template") or {})
    return {"apiVersion": API_VERSION, "kind": "Backup", "metadata": made, "spec": template}
