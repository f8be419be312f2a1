"""The changes that a restore makes on purpose, with the reasons; README.md has the same list for people.

Anything else that differs after a restore is a defect.
"""

import json
from typing import Any

from examples.compare import FieldRule, Key, Object, ObjectRule, Path, Rules, World

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SERVICE_ACCOUNT_TOKEN = "kubernetes.io/service-account-token"  # noqa: S105 - a type of secret, not a secret
JOB_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
BINDING_ANNOTATIONS = (
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "pv.kubernetes.io/provisioned-by",
)
METADATA: Path = ("metadata",)
ANNOTATIONS: Path = ("metadata", "annotations")


def _has_cluster_address(service: Object, _path: Path) -> bool:
    return bool(service["spec"].get("clusterIP") != "None")  # headless services stay headless


def _the_cluster_chose_the_node_port(service: Object, path: Path) -> bool:
    """Whether kubectl's annotation does not name the port at this path as one with a node port."""
    applied = json.loads(service["metadata"].get("annotations", {}).get(LAST_APPLIED, "{}"))
    ports: list[dict[str, Any]] = applied.get("spec", {}).get("ports", [])
    chosen = {port.get("name", "") for port in ports if port.get("nodePort")}
    port = service["spec"]["ports"][path[2]]
    return port.get("name", "") not in chosen


def _is_account_token(item: Object, _path: Path = ()) -> bool:
    return item["kind"] == "Secret" and item.get("type") == SERVICE_ACCOUNT_TOKEN


def _is_pod_of_restored_job(item: Object, after: World) -> bool:
    """A pod of a Job of the restored world. Other controllers take over the pods they find."""
    namespace = item["metadata"].get("namespace", "")
    return item["kind"] == "Pod" and any(
        owner["kind"] == "Job" and Key("batch", "Job", namespace, owner["name"]) in after
        for owner in item["metadata"].get("ownerReferences", [])
        if owner.get("controller")
    )


FIELDS = (
    FieldRule(
        name="identity",
        reason="the API server gives each new object its own uid, version, generation and time",
        paths=[
            (*METADATA, field)
            for field in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
        ],
        everywhere=True,
    ),
    FieldRule(
        name="restore labels",
        reason="every restored object says which backup and which restore it came from",
        paths=[
            (*METADATA, "labels", "velero.io/backup-name"),
            (*METADATA, "labels", "velero.io/restore-name"),
        ],
        everywhere=True,
    ),
    FieldRule(
        name="status",
        reason="observations are not restored; controllers observe again",
        paths=[("status",)],
        everywhere=True,
    ),
    FieldRule(
        name="ownership",
        reason="owners are named by uid, and the new ones have new uids; controllers adopt what matches them",
        paths=[(*METADATA, "ownerReferences"), (*METADATA, "generateName")],
    ),
    FieldRule(
        name="finalizers",
        reason="a finalizer whose controller is not there would make the object undeletable",
        paths=[(*METADATA, "finalizers")],
    ),
    FieldRule(
        name="cluster address",
        reason="the address may belong to another service by now",
        kinds=frozenset({"Service"}),
        paths=[("spec", "clusterIP"), ("spec", "clusterIPs")],
        applies=_has_cluster_address,
    ),
    FieldRule(
        name="node port",
        reason="ports that the cluster had picked are picked anew; ports that a user applied stay",
        kinds=frozenset({"Service"}),
        paths=[("spec", "ports", "*", "nodePort")],
        applies=_the_cluster_chose_the_node_port,
    ),
    FieldRule(
        name="job uid",
        reason="a Job selects its pods by its own uid",
        kinds=frozenset({"Job.batch"}),
        paths=[
            (*prefix, label)
            for prefix in (
                ("spec", "selector", "matchLabels"),
                ("spec", "template", "metadata", "labels"),
            )
            for label in JOB_UID_LABELS
        ],
    ),
    FieldRule(
        name="volume binding",
        reason="claim and volume are bound again, by name",
        kinds=frozenset({"PersistentVolume", "PersistentVolumeClaim"}),
        paths=[
            ("spec", "claimRef", "uid"),
            ("spec", "claimRef", "resourceVersion"),
            *((*ANNOTATIONS, annotation) for annotation in BINDING_ANNOTATIONS),
        ],
    ),
    FieldRule(
        name="account token",
        reason="the token is valid for the old account only, so the control plane writes a new one",
        kinds=frozenset({"Secret"}),
        paths=[("data", "token"), (*ANNOTATIONS, "kubernetes.io/service-account.uid")],
        applies=_is_account_token,
    ),
)

JOB_PODS = ObjectRule(
    name="job pods",
    reason="a Job does not take over the pods of its former self, it makes new ones",
    applies=_is_pod_of_restored_job,
)

MISSING_OBJECTS = (
    JOB_PODS,
    ObjectRule(
        name="account token",
        reason="the control plane deletes a token of an account whose uid is another one",
        applies=lambda item, _world: _is_account_token(item),
    ),
)

DOCUMENTED = Rules(fields=FIELDS, missing=MISSING_OBJECTS, new=(JOB_PODS,))
