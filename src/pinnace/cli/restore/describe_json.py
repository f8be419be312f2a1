"""`restore describe -o json`, with the same structure as for backups. Pure. (docs/spec: BEY 8.3)"""

from typing import Final

from pinnace.api.objects import JSONObject, listed, mapping, objects, text
from pinnace.cli.output import cells, described
from pinnace.cli.restore.describe import DescribedRestore

_LATER: Final = ("restoreStatus", "resourceModifier", "uploaderConfig", "namespaceMapping")


def restore_as_json(restore: JSONObject, facts: DescribedRestore) -> JSONObject:
    """The description of a restore."""
    spec, status = cells.spec(restore), cells.status(restore)
    kept = facts.results if isinstance(facts.results, dict) else None
    made: JSONObject = {
        "metadata": described.metadata(restore),
        "phase": cells.phase(restore) or "New",
        "spec": _spec(spec),
        "status": _status(restore, status, facts),
        **described.results(status, kept),
    }
    if isinstance(facts.results, str):
        made["errorGettingResults"] = facts.results
    if errors := listed(status, "validationErrors"):
        made["validationErrors"] = errors
    if reason := text(status, "failureReason"):
        made["failureReason"] = reason
    if facts.waits_for:
        made["waitsFor"] = facts.waits_for
    return made


def _spec(spec: JSONObject) -> JSONObject:
    made: JSONObject = {
        "backup": text(spec, "backupName"),
        "namespaces": described.included_excluded(
            spec, "Namespaces", everything="all namespaces found in the backup"
        ),
        "resources": {
            **described.included_excluded(spec, "Resources"),
            "clusterScoped": described.cluster_scoped(spec),
        },
        "labelSelector": cells.selector(spec.get("labelSelector")),
        "restorePVs": cells.tristate(spec.get("restorePVs")),
        "preserveServiceNodePorts": cells.tristate(spec.get("preserveNodePorts")),
        "existingResourcePolicy": text(spec, "existingResourcePolicy") or "none",
    }
    if selectors := objects(spec, "orLabelSelectors"):
        made["orLabelSelectors"] = [cells.selector(one) for one in selectors]
    for name in _LATER:
        if found := mapping(spec, name):
            made[name] = found
    if timeout := text(spec, "itemOperationTimeout"):
        made["itemOperationTimeout"] = timeout
    return made


def _status(restore: JSONObject, status: JSONObject, facts: DescribedRestore) -> JSONObject:
    volumes = facts.pod_volume_restores
    made: JSONObject = {
        **described.times(status),
        "podVolumeRestores": {
            phase: sum(1 for volume in volumes if cells.phase(volume) == phase)
            for phase in sorted({cells.phase(volume) for volume in volumes})
        },
    }
    if said := described.pod_volume_messages(volumes):
        made["podVolumeRestoreMessages"] = said
    if progress := mapping(status, "progress"):
        running = cells.phase(restore) == "InProgress"
        total, done = progress.get("totalItems") or 0, progress.get("itemsRestored") or 0
        made["estimatedTotalItemsToBeRestored" if running else "totalItemsToBeRestored"] = total
        made["itemsRestoredSoFar" if running else "itemsRestored"] = done
        if running and (activity := mapping(status, "activity")):
            made["activity"] = activity
    hooks = mapping(status, "hookStatus")
    made["hooksAttempted"] = hooks.get("hooksAttempted") or 0
    made["hooksFailed"] = hooks.get("hooksFailed") or 0
    if facts.volume_infos:
        made["restoreVolumes"] = list(facts.volume_infos)
    if facts.operations:
        made["restoreItemOperations"] = list(facts.operations)
    if isinstance(facts.objects, str):
        made["errorGettingResourceList"] = facts.objects
    elif facts.objects is not None:
        made["objects"] = dict(facts.objects.counts)
        made["resourceList"] = {
            kind: [f"{title}({said})" if said else title for title, said in sorted(titles.items())]
            for kind, titles in facts.objects.by_kind.items()
        }
    return made
