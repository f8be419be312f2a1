"""Objects from flags: pure functions from what the user typed. (docs/spec: CLI 4.1, 5.1)"""

import copy
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pinnace.api import labels
from pinnace.api.backup import Backup, BackupSpec
from pinnace.api.codec import encode
from pinnace.api.meta import ObjectMeta, OwnerReference
from pinnace.api.objects import JSONObject
from pinnace.api.restore import Restore, RestoreSpec
from pinnace.cli.errors import InvalidInput


def backup_from_flags(name: str, namespace: str, flags: Mapping[str, Any]) -> Backup:
    """The Backup that `backup create` asks for. Raises InvalidInput."""
    spec = BackupSpec(
        included_namespaces=flags["include_namespaces"] or [],
        excluded_namespaces=flags["exclude_namespaces"] or [],
        included_resources=flags["include_resources"] or [],
        excluded_resources=flags["exclude_resources"] or [],
        label_selector=flags["selector"],
        snapshot_volumes=flags["snapshot_volumes"],
        ttl=flags["ttl"],
        include_cluster_resources=flags["include_cluster_resources"],
        storage_location=flags["storage_location"],
        volume_snapshot_locations=flags["volume_snapshot_locations"],
        default_volumes_to_restic=flags["default_volumes_to_restic"],
        ordered_resources=ordered_resources(flags["ordered_resources"]),
        csi_snapshot_timeout=flags["csi_snapshot_timeout"],
    )
    return Backup(metadata=ObjectMeta(name=name, namespace=namespace, labels=flags["labels"]), spec=spec)


def backup_from_schedule(
    name: str, namespace: str, schedule: JSONObject, extra_labels: Mapping[str, str], now: datetime
) -> JSONObject:
    """The Backup that a Schedule's template makes, as the server would make it: no field of the spec is lost.

    Labels given on the command line win.
    """
    meta, spec = schedule["metadata"], schedule.get("spec") or {}
    owners = []
    if spec.get("useOwnerReferencesInBackup"):
        owners.append(
            OwnerReference(
                api_version="velero.io/v1",
                kind="Schedule",
                name=meta["name"],
                uid=meta["uid"],
                controller=True,
            )
        )
    template = spec.get("template") or {}
    all_labels = {
        # Labels of the template take the place of those of the Schedule. (docs/spec: BEY 7.1)
        **((template.get("metadata") or {}).get("labels") or meta.get("labels") or {}),
        labels.SCHEDULE_NAME: labels.label_value(meta["name"]),
        **extra_labels,
    }
    backup = Backup(
        metadata=ObjectMeta(
            name=name or stamped_name(meta["name"], now),
            namespace=namespace,
            labels=all_labels,
            annotations=dict(meta.get("annotations") or {}),
            owner_references=owners,
        )
    )
    return encode(backup, unsent=True) | {"spec": copy.deepcopy(template)}


def restore_from_flags(name: str, namespace: str, flags: Mapping[str, Any]) -> Restore:
    """The Restore that `restore create` asks for."""
    spec = RestoreSpec(
        backup_name=flags["from_backup"],
        schedule_name=flags["from_schedule"],
        included_namespaces=flags["include_namespaces"] or [],
        excluded_namespaces=flags["exclude_namespaces"] or [],
        included_resources=flags["include_resources"] or [],
        excluded_resources=flags["exclude_resources"] or [],
        namespace_mapping=flags["namespace_mappings"],
        label_selector=flags["selector"],
        restore_pvs=flags["restore_volumes"],
        preserve_node_ports=flags["preserve_nodeports"],
        include_cluster_resources=flags["include_cluster_resources"],
    )
    metadata = ObjectMeta(name=name, namespace=namespace, labels=flags["labels"])
    if flags["without_volume_data"]:
        metadata.annotations = {labels.WITHOUT_VOLUME_DATA: "true"}
    return Restore(metadata=metadata, spec=spec)


def stamped_name(base: str, now: datetime) -> str:
    """`<base>-<YYYYMMDDhhmmss>` in local time."""
    return f"{base}-{now.astimezone():%Y%m%d%H%M%S}"


def ordered_resources(text: str) -> dict[str, str]:
    """Parse `pods=ns1/p1,ns1/p2;persistentvolumes=pv1`. Raises InvalidInput naming the entry."""
    result = {}
    for entry in text.split(";") if text else []:
        parts = entry.split("=")
        if len(parts) != 2:
            raise InvalidInput(f"Invalid OrderedResources '{entry}'.")
        result[parts[0].strip()] = parts[1].strip()
    return result


def newest(backups: list[JSONObject], phases: tuple[str, ...]) -> JSONObject | None:
    """The backup of those phases that started last, if there is any."""
    fitting = [b for b in backups if (b.get("status") or {}).get("phase") in phases]
    return max(fitting, key=lambda b: b["status"].get("startTimestamp") or "", default=None)
