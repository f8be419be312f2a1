"""`restore describe -o json`, with the same structure as for backups. Pure. (docs/spec: BEY 8.3)"""

from typing import Final

from pinnace.api.objects import JSONObject, mapping, text
from pinnace.cli.output import cells
from pinnace.cli.output import described as parts
from pinnace.cli.restore.description import EVERYTHING, DescribedRestore, RestoreDescription, described

_LATER: Final = ("restoreStatus", "resourceModifier", "resourcePolicy", "uploaderConfig", "namespaceMapping")


def restore_as_json(restore: JSONObject, found: DescribedRestore) -> JSONObject:
    """The description of a restore."""
    made = described(restore, found)
    return {
        "metadata": parts.metadata(made.head.metadata),
        "phase": made.head.phase,
        "spec": _spec(made),
        "status": _status(made),
        **parts.results(made.head, found.results if isinstance(found.results, dict) else None),
        **({"errorGettingResults": found.results} if isinstance(found.results, str) else {}),
        **parts.reasons(made.head),
        **({"waitsFor": found.waits_for} if found.waits_for else {}),
    }


def _spec(restore: RestoreDescription) -> JSONObject:
    filters, spec = restore.filters, restore.spec
    made: JSONObject = {
        "backup": restore.backup,
        "namespaces": parts.included_excluded(filters.namespaces, everything=EVERYTHING),
        "resources": {
            **parts.included_excluded(filters.resources),
            "clusterScoped": filters.cluster_scoped,
        },
        "labelSelector": filters.selector,
        "restorePVs": restore.restore_volumes,
        "preserveServiceNodePorts": restore.preserve_node_ports,
        "existingResourcePolicy": text(spec, "existingResourcePolicy") or "none",
    }
    if filters.selectors:
        made["orLabelSelectors"] = filters.selectors
    for name in _LATER:
        if found := mapping(spec, name):
            made[name] = found
    if spec.get("skipDefaultResourceModifier"):
        made["skipDefaultResourceModifier"] = True
    if timeout := text(spec, "itemOperationTimeout"):
        made["itemOperationTimeout"] = timeout
    return made


def _status(restore: RestoreDescription) -> JSONObject:
    facts, volumes = restore.found, restore.found.pod_volume_restores
    made: JSONObject = {
        "started": restore.head.started,
        "completed": restore.head.completed,
        "podVolumeRestores": {
            phase: sum(1 for volume in volumes if cells.phase(volume) == phase)
            for phase in sorted({cells.phase(volume) for volume in volumes})
        },
    }
    if said := parts.pod_volume_messages(volumes):
        made["podVolumeRestoreMessages"] = said
    made |= parts.progress(restore.head.progress, "Restored", "Restored") | parts.hooks(restore.head)
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
