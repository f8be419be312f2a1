"""Removes differences between two versions of an object that no restore would change. Pure. (RST 17)

A cluster sets fields of objects by itself: addresses and ports of Services, the node of a pod, the volume of
a claim. A restore removes such fields from the objects that it creates, or the cluster would overwrite them;
they do not mean that an object was changed. A warning for each would hide the important ones.
"""

from collections.abc import Callable, Iterable
from typing import Final

from pinnace.api import kinds, labels
from pinnace.api.objects import JSONObject, copied
from pinnace.restore.metadata import BINDING_ANNOTATIONS

_BY_CONTROLLERS: Final = frozenset(
    {
        *BINDING_ANNOTATIONS,
        labels.PV_PROVISIONED_BY,
        labels.SELECTED_NODE,
        "autoscaling.alpha.kubernetes.io/conditions",
        "autoscaling.alpha.kubernetes.io/current-metrics",
        "deployment.kubernetes.io/revision",
        "volume.beta.kubernetes.io/storage-provisioner",
        "volume.kubernetes.io/storage-provisioner",
    }
)
"""Annotations that controllers of the cluster write."""

_OF_BACKUPS: Final = frozenset({labels.BACKUP_NAME, labels.DATA_UPLOAD_NAME, labels.VOLUME_SNAPSHOT_NAME})
"""Annotations of stored claims, written by the backup that took a snapshot of the volume. (SRV 18.2)"""

_JOB_LABELS: Final = (
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "job-name",
    "batch.kubernetes.io/job-name",
)
_DEFAULT_TOLERATIONS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_HELPER_CONTAINERS: Final = ("restic-wait", "restore-wait", "velero-restore-init-")
_WRITTEN_BY_HOLDERS: Final = ("acquireTime", "holderIdentity", "leaseTransitions", "renewTime")


def normal_forms(
    group_resource: str, in_cluster: JSONObject, desired: JSONObject
) -> tuple[JSONObject, JSONObject]:
    """Both versions without the fields that the cluster sets; all else is shared with the originals.

    Args:
        in_cluster: the existing object, with the metadata that a restore keeps.
        desired: the object as a restore would create it. Where it leaves a field out, the value that the
            cluster chose is no difference.
    """
    rule = _RULES.get(group_resource)
    copy = _with_own_metadata if rule is None else copied
    pair = copy(in_cluster), copy(desired)
    for item in pair:
        _drop_notes(item)
        _drop_empty(item.get("metadata"), ("labels", "annotations"))
    if rule is not None:
        rule(*pair)
    return pair


def _with_own_metadata(item: JSONObject) -> JSONObject:
    """A copy that owns its metadata; the caller may change nothing else."""
    metadata = item.get("metadata")
    return {**item, "metadata": copied(metadata)} if isinstance(metadata, dict) else dict(item)


def _service(found: JSONObject, desired: JSONObject) -> None:
    spec, wanted = _mapping(found, "spec"), _mapping(desired, "spec")
    for each in (spec, wanted):
        if each.get("clusterIP") != "None":
            each.pop("clusterIP", None)
            each.pop("clusterIPs", None)
    ports = {_port_key(port): port for port in _objects(wanted, "ports")}
    for port in _objects(spec, "ports"):
        if "nodePort" not in ports.get(_port_key(port), port):
            port.pop("nodePort", None)
    if "healthCheckNodePort" not in wanted:
        spec.pop("healthCheckNodePort", None)
    for each in (spec, wanted):
        if _objects(each, "ports"):
            each["ports"] = sorted(each["ports"], key=_port_key)


def _port_key(port: object) -> tuple[str, str, str]:
    if not isinstance(port, dict):
        return ("", "", repr(port))
    return (str(port.get("name") or ""), str(port.get("protocol") or "TCP"), str(port.get("port")))


def _pod(*pair: JSONObject) -> None:
    for pod in pair:
        spec = _mapping(pod, "spec")
        for field in ("nodeName", "priority", "preemptionPolicy", "overhead", "ephemeralContainers"):
            spec.pop(field, None)
        token = f"{spec.get('serviceAccountName') or ''}-token-"
        _drop_named(spec, "volumes", token, "kube-api-access-")
        _drop_named(spec, "initContainers", *_HELPER_CONTAINERS)
        _drop(spec, "tolerations", _is_default_toleration)
        for field in ("containers", "initContainers"):
            for container in _objects(spec, field):
                _drop_named(container, "volumeMounts", token, "kube-api-access-")


def _is_default_toleration(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("key") in _DEFAULT_TOLERATIONS
        and entry.get("tolerationSeconds") == 300
    )


def _job(*pair: JSONObject) -> None:
    for job in pair:
        spec = _mapping(job, "spec")
        if spec.get("manualSelector") is not True:
            spec.pop("selector", None)
        for holder in (_mapping(job, "metadata"), _mapping(spec, "template", "metadata")):
            for name in _JOB_LABELS:
                _mapping(holder, "labels").pop(name, None)
            _drop_empty(holder, ("labels",))
        _drop_empty(_mapping(spec, "template"), ("metadata",))


def _claim(found: JSONObject, desired: JSONObject) -> None:
    if "volumeName" not in _mapping(desired, "spec"):
        _mapping(found, "spec").pop("volumeName", None)
    # A restore of moved data gives the new claim a selector, for the time until its volume is filled.
    if labels.DYNAMIC_PV_RESTORE in _mapping(found, "spec", "selector", "matchLabels"):
        _mapping(found, "spec").pop("selector")
        _mapping(desired, "spec").pop("selector", None)


def _volume(found: JSONObject, desired: JSONObject) -> None:
    if not _mapping(desired, "spec").get("claimRef"):
        for each in (found, desired):
            _mapping(each, "spec").pop("claimRef", None)
    for each in (found, desired):
        for field in ("uid", "resourceVersion", "apiVersion", "kind"):
            _mapping(each, "spec", "claimRef").pop(field, None)


def _account(*pair: JSONObject) -> None:
    for account in pair:
        prefix = f"{_mapping(account, 'metadata').get('name')}-token-"
        _drop_named(account, "secrets", prefix)


def _cluster_role(*pair: JSONObject) -> None:
    """The rules of an aggregated role are those of other roles, and a controller writes them."""
    _, desired = pair
    if desired.get("aggregationRule"):
        for role in pair:
            role.pop("rules", None)


def _lease(found: JSONObject, desired: JSONObject) -> None:
    """A lease that is renewed is its holder's: a restored holder would take it from the one that works."""
    if _mapping(found, "spec").get("renewTime"):
        for each in (found, desired):
            for field in _WRITTEN_BY_HOLDERS:
                _mapping(each, "spec").pop(field, None)


_RULES: Final[dict[str, Callable[[JSONObject, JSONObject], None]]] = {
    kinds.CLUSTER_ROLES.group_resource: _cluster_role,
    kinds.JOBS.group_resource: _job,
    kinds.LEASES.group_resource: _lease,
    kinds.PERSISTENT_VOLUME_CLAIMS.group_resource: _claim,
    kinds.PERSISTENT_VOLUMES.group_resource: _volume,
    kinds.PODS.group_resource: _pod,
    kinds.SERVICE_ACCOUNTS.group_resource: _account,
    kinds.SERVICES.group_resource: _service,
}


def _drop_notes(item: JSONObject) -> None:
    annotations = _mapping(item, "metadata", "annotations")
    for name in (_BY_CONTROLLERS | _OF_BACKUPS) & annotations.keys():
        del annotations[name]
    _mapping(item, "metadata", "labels").pop(labels.VOLUME_SNAPSHOT_NAME, None)


def _drop_empty(holder: object, fields: Iterable[str]) -> None:
    """Remove empty maps of labels or annotations, which mean the same as none."""
    if isinstance(holder, dict):
        for field in fields:
            if field in holder and not holder[field]:
                del holder[field]


def _drop_named(holder: JSONObject, field: str, *prefixes: str) -> None:
    """Remove the entries of a list whose name begins with one of the prefixes."""

    def is_named_so(entry: object) -> bool:
        name = entry.get("name") if isinstance(entry, dict) else None
        return isinstance(name, str) and name.startswith(prefixes)

    _drop(holder, field, is_named_so)


def _drop(holder: JSONObject, field: str, unwanted: Callable[[object], bool]) -> None:
    entries = holder.get(field)
    if not isinstance(entries, list):
        return
    kept = [entry for entry in entries if not unwanted(entry)]
    if kept:
        holder[field] = kept
    else:
        del holder[field]


def _mapping(item: object, *path: str) -> JSONObject:
    """The object at a path, to change in place; an empty one where there is none."""
    for key in path:
        item = item.get(key) if isinstance(item, dict) else None
    return item if isinstance(item, dict) else {}


def _objects(item: JSONObject, field: str) -> list[JSONObject]:
    """The members of a list if all are objects; else none, so that malformed lists are compared unchanged."""
    entries = item.get(field)
    if isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries):
        return entries
    return []
