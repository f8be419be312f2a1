"""The objects that are made to move the data of a volume: pure. (docs/spec: BEY 6.7)"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from pinnace.api import ALPHA_API_VERSION, API_VERSION, labels
from pinnace.api.meta import LabelSelector
from pinnace.api.objects import JSONObject, listed, mapping, objects, text
from pinnace.api.phases import TransferPhase
from pinnace.api.velero.data_movement import (
    BLOCK_MOVER,
    BUILT_IN_MOVERS,
    DOWNLOAD_MOVERS,
    DataUpload,
    in_place_mover,
    written_mover,
)
from pinnace.api.velero.restore import Restore
from pinnace.kube.resources import DATA_DOWNLOADS, DATA_UPLOADS
from pinnace.volumes.pods.pod_volume_restores import restore_settings

BLOCK: Final = "Block"
"""The `volumeMode` of claims and volumes that pods use as a device."""

VOLUME: Final = "data"
"""The volume of a temporary pod."""

FINALIZER: Final = "velero.io/data-upload-download-finalizer"
"""The finalizer of an object until everything that was made for it is gone."""

TIMEOUT_SECONDS: Final = 1800.0
"""How long a volume may take until a node agent can read or write it; Velero's default."""

_HOLD: Final = ("pinnace", "hold-volume")
_USER: Final = 65534
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_SUFFIX_DIGITS: Final = 8
_POD_LABELS: Final = {
    DATA_UPLOADS.kind: (labels.DATA_UPLOAD, "snapshot-exposer"),
    DATA_DOWNLOADS.kind: (labels.DATA_DOWNLOAD, "generic-restore-exposer"),
}
_PERMANENT: Final = frozenset(
    {"CreateContainerConfigError", "ErrImageNeverPull", "ImagePullBackOff", "InvalidImageName"}
)
"""Reasons of waiting containers that do not pass while their pod is as it is."""
_ENDED_PODS: Final = frozenset({"Failed", "Succeeded", "Unknown"})


class MovedVolume(msgspec.Struct, frozen=True, kw_only=True):
    """The data of a claim in a repository.

    Attributes:
        snapshot: id of the snapshot in the repository.
        source_namespace: the namespace of the claim that was saved; the repository has its name.
        mover: the program that moved the data.
        fs_type: the file system in an image of a device; empty if it is not known.
    """

    snapshot: str
    source_namespace: str
    mover: str = ""
    node_os: str = ""
    size_bytes: int = 0
    fs_type: str = ""

    @classmethod
    def of(cls, upload: DataUpload) -> "MovedVolume":
        """The data that a completed DataUpload describes."""
        spec, status = upload.spec, upload.status
        return cls(
            snapshot=status.snapshot_id,
            source_namespace=spec.source_namespace,
            mover=written_mover(spec.datamover),
            node_os=status.node_os,
            size_bytes=status.progress.total_bytes,
            fs_type=spec.source_fs_type,
        )


def is_built_in(obj: JSONObject) -> bool:
    """Whether a DataUpload or DataDownload is for the built-in mover, and not for another program.

    It also restores the images that Velero's block mover made.
    """
    movers = DOWNLOAD_MOVERS if text(obj, "kind") == DATA_DOWNLOADS.kind else BUILT_IN_MOVERS
    return text(obj, "spec", "datamover") in movers


def is_image(movement: JSONObject) -> bool:
    """Whether the data of a DataDownload is the image of a device."""
    return text(movement, "spec", "datamover") in (BLOCK_MOVER, in_place_mover(BLOCK_MOVER))


def is_in_place(movement: JSONObject) -> bool:
    """Whether a DataDownload is for the volume that its claim has. (docs/spec: AFT 6.1)"""
    return bool(text(movement, "spec", "restoreType") and text(movement, "spec", "targetVolume", "pv"))


def awaited_volume(namespace: str, claim: str, restore_uid: str) -> dict[str, str]:
    """The label of the volume that a restored claim waits for; its selector keeps others from it."""
    digest = sha256(f"{restore_uid}/{namespace}/{claim}".encode()).hexdigest()[:_SUFFIX_DIGITS]
    return {labels.DYNAMIC_PV_RESTORE: labels.label_value(f"{namespace}.{claim}.{digest}")}


def operation_id(restore_uid: str, claim_uid: str) -> str:
    """The id of the operation that restores the data of a claim."""
    return f"dd-{restore_uid}.{claim_uid}"


def new_download(restore: Restore, claim: JSONObject, moved: MovedVolume, location: str) -> JSONObject:
    """The DataDownload that fills the volume of a claim; its name is generated.

    Args:
        claim: one with a volume existed before the restore, and the data is written into that volume.
    """
    owner, target = restore.metadata, claim["metadata"]
    volume = text(claim, "spec", "volumeName")
    timeout = restore.spec.item_operation_timeout
    settings = restore_settings(restore)
    return {
        "apiVersion": ALPHA_API_VERSION,
        "kind": DATA_DOWNLOADS.kind,
        "metadata": {
            "generateName": f"{owner.name}-",
            "namespace": owner.namespace,
            "labels": {
                labels.RESTORE_NAME: labels.label_value(owner.name),
                labels.RESTORE_UID: owner.uid,
                labels.ASYNC_OPERATION_ID: labels.label_value(operation_id(owner.uid, target["uid"])),
            },
            "ownerReferences": [_owner(API_VERSION, "Restore", owner.name, owner.uid)],
        },
        "spec": {
            "targetVolume": {
                "namespace": target["namespace"],
                "pvc": target["name"],
                "pv": volume,
                **({"fsType": moved.fs_type} if moved.fs_type else {}),
            },
            "backupStorageLocation": location,
            "datamover": in_place_mover(moved.mover) if volume else moved.mover,
            "snapshotID": moved.snapshot,
            "sourceNamespace": moved.source_namespace,
            "operationTimeout": str(timeout) if timeout is not None else "10m0s",
            # Velero's later definitions require the field.
            "restoreType": restore.spec.existing_volume_data_policy if volume else "",
            **({"dataMoverConfig": settings} if settings else {}),
            **({"nodeOS": moved.node_os} if moved.node_os else {}),
            **({"snapshotSize": moved.size_bytes} if moved.size_bytes else {}),
        },
        "status": {"progress": {}},
    }


def temporary_claim(
    movement: JSONObject, spec: JSONObject, annotations: Mapping[str, str] | None = None
) -> JSONObject:
    """The claim in the server's namespace that gives access to the data."""
    metadata = _temporary(movement)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def claim_like(target: JSONObject, movement: JSONObject) -> JSONObject:
    """The spec of a new claim that gets a volume like the one that a restored claim asks for.

    It is a device for the image of a device, whatever the claim makes of it.
    """
    spec = target["spec"]
    kept = ("accessModes", "resources", "storageClassName", "volumeMode")
    mode = {"volumeMode": BLOCK} if is_image(movement) else {}
    return {key: spec[key] for key in kept if key in spec} | mode


class PodPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a temporary pod.

    Attributes:
        image: the server's.
        node: the node that it must run on; empty for any.
        nodes: the nodes that it may run on, where `node` does not say; None for all.
        volume_terms: node selector terms; the node must fit one of them as well. Empty if any node does.
        not_on: nodes that it must not run on.
        near: labels of the pods of node agents; one of them must be on the node. Empty where they are not
            known.
        block: attach the volume as a device instead of mounting it.
        read_only: mount the volume read-only.
        super_privileged: run with the SELinux type spc_t, so that the volume is not relabeled.
    """

    image: str
    node: str = ""
    nodes: LabelSelector | None = None
    volume_terms: Sequence[JSONObject] = ()
    not_on: Sequence[str] = ()
    near: Mapping[str, str] = msgspec.field(default_factory=dict)
    priority_class: str = ""
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    block: bool = False
    read_only: bool = False
    super_privileged: bool = False


def temporary_pod(movement: JSONObject, plan: PodPlan) -> JSONObject:
    """A pod that only mounts the volume, so that the agent of its node reaches it."""
    container = holding_container(plan.image)
    if plan.block:
        container["volumeDevices"] = [{"name": VOLUME, "devicePath": "/dev/volume"}]
    else:
        container["volumeMounts"] = [{"name": VOLUME, "mountPath": "/volume", **_read_only(plan)}]
    claim = {"claimName": movement["metadata"]["name"], **_read_only(plan)}
    spec = holding_spec(container, claim)
    if affinity := _affinity(plan):
        spec["affinity"] = affinity
    if plan.priority_class:
        spec["priorityClassName"] = plan.priority_class
    if plan.super_privileged:
        spec["securityContext"] = {"seLinuxOptions": {"type": "spc_t"}}
    metadata = _temporary(movement)
    metadata["labels"] = {**plan.labels, **metadata["labels"], **_pod_labels(movement)}
    if plan.annotations:
        metadata["annotations"] = dict(plan.annotations)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def holding_container(image: str) -> JSONObject:
    """A container that does nothing, with the fewest rights; it mounts nothing yet."""
    return {
        "name": "hold",
        "image": image,
        "command": list(_HOLD),
        "resources": {"requests": {"cpu": "1m", "memory": "16Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def holding_spec(container: JSONObject, claim: JSONObject) -> JSONObject:
    """The spec of a pod that has the volume of a claim, and nobody's rights.

    Args:
        claim: the source of the volume `VOLUME`, a `persistentVolumeClaim`.
    """
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": VOLUME, "persistentVolumeClaim": claim}],
    }


def _pod_labels(movement: JSONObject) -> dict[str, str]:
    """The labels of Velero's pods of data movement."""
    of_kind, group = _POD_LABELS[movement["kind"]]
    return {of_kind: labels.label_value(movement["metadata"]["name"]), labels.EXPOSER_POD_GROUP: group}


def _read_only(plan: PodPlan) -> JSONObject:
    return {"readOnly": True} if plan.read_only else {}


def _affinity(plan: PodPlan) -> JSONObject:
    affinity: JSONObject = {}
    term: JSONObject = {}
    if plan.node:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [plan.node]}]}
    elif plan.nodes is not None:
        term = {
            "matchExpressions": [
                *(
                    {"key": key, "operator": "In", "values": [value]}
                    for key, value in plan.nodes.match_labels.items()
                ),
                *(
                    {"key": each.key, "operator": each.operator, "values": each.values}
                    for each in plan.nodes.match_expressions
                ),
            ]
        }
    if plan.not_on:
        elsewhere = {"key": labels.HOSTNAME, "operator": "NotIn", "values": sorted(plan.not_on)}
        term["matchExpressions"] = [*term.get("matchExpressions", ()), elsewhere]
    terms = [both for each in plan.volume_terms or ({},) if any((both := _joined(term, each)).values())]
    if terms:
        affinity["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": terms}}
    if plan.near:
        agent = {"labelSelector": {"matchLabels": dict(plan.near)}, "topologyKey": labels.HOSTNAME}
        affinity["podAffinity"] = {_REQUIRED: [agent]}
    return affinity


def _joined(term: JSONObject, other: JSONObject) -> JSONObject:
    """The node selector term of the nodes that fit both."""
    keys = [key for key in ("matchExpressions", "matchFields") if term.get(key) or other.get(key)]
    return {key: [*term.get(key, ()), *listed(other, key)] for key in keys}


def _temporary(movement: JSONObject) -> JSONObject:
    """The metadata of a temporary object, with the owner that it is deleted with."""
    metadata: dict[str, Any] = movement["metadata"]
    return {
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        # A backup of the server's namespace does not need it.
        "labels": {labels.EXCLUDE_FROM_BACKUP: labels.EXCLUDE_FROM_BACKUP_VALUE},
        "ownerReferences": [_owner(ALPHA_API_VERSION, movement["kind"], metadata["name"], metadata["uid"])],
    }


def _owner(api_version: str, kind: str, name: str, uid: str) -> JSONObject:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}


def phase(obj: JSONObject) -> str:
    """The phase of a DataUpload or DataDownload; an empty one counts as New."""
    return text(obj, "status", "phase") or TransferPhase.NEW


def why_pod_ended(pod: JSONObject) -> str:
    """Why a temporary pod does not hold its volume any more, or never will; empty if it does or may."""
    phase_of_pod = text(pod, "status", "phase")
    if phase_of_pod in _ENDED_PODS:
        said = text(pod, "status", "message") or text(pod, "status", "reason") or "see its events"
        state = "is in the phase Unknown" if phase_of_pod == "Unknown" else "ended"
        return f"{state}: {said}"
    for status in objects(pod, "status", "containerStatuses"):
        waiting = mapping(status, "state", "waiting")
        if waiting.get("reason") in _PERMANENT:
            said = ": ".join(filter(None, (text(waiting, "reason"), text(waiting, "message"))))
            return f"cannot start: {said}"
    return ""


def has_finalizer(obj: JSONObject) -> bool:
    """Whether temporary objects that were made for it may still exist."""
    return FINALIZER in (mapping(obj, "metadata").get("finalizers") or [])
