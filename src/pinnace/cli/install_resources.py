"""The resources that `install` makes, in their order; pure. (docs/spec: CLI 11.2)"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pinnace.api.crds import crd_manifests
from pinnace.storage.open import FILESYSTEM_PROVIDER

JSONObject = dict[str, Any]

COMPONENT = {"component": "velero"}
CREDENTIAL_VARIABLES = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AZURE_CREDENTIALS_FILE",
    "ALIBABA_CLOUD_CREDENTIALS_FILE",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """What to install. Empty `provider` means no location, empty `image` no server."""

    namespace: str
    provider: str = ""
    bucket: str = ""
    prefix: str = ""
    ca_cert: bytes = b""
    backup_location_config: Mapping[str, str] = field(default_factory=dict)
    backup_location: bool = True
    snapshot_location_config: Mapping[str, str] = field(default_factory=dict)
    snapshot_location: bool = True
    secret: bytes = b""
    image: str = ""
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    service_account_annotations: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    features: str = ""

    @property
    def on_filesystem(self) -> bool:
        """Whether the location is a folder: it needs no credentials and takes no volume snapshots."""
        return self.provider == FILESYSTEM_PROVIDER


def crds() -> list[JSONObject]:
    """The eleven definitions with the label that uninstall looks for."""
    return [_labelled(crd) for crd in crd_manifests()]


def resources(options: InstallOptions) -> list[JSONObject]:
    """Everything but the definitions, in the order of creation."""
    made = [_namespace(options), _cluster_role_binding(options), _service_account(options)]
    if options.secret:
        made.append(_secret(options))
    if options.backup_location:
        made.append(_backup_location(options))
    if options.snapshot_location and not options.on_filesystem:
        made.append(_snapshot_location(options))
    if options.image:
        made.append(_deployment(options))
    return [_labelled(obj) for obj in made]


def _labelled(obj: JSONObject) -> JSONObject:
    meta = dict(obj["metadata"])
    meta["labels"] = {**meta.get("labels", {}), **COMPONENT}
    meta.setdefault("creationTimestamp", None)
    return {**{k: v for k, v in obj.items() if k != "status"}, "metadata": meta}


def _namespace(options: InstallOptions) -> JSONObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": options.namespace}, "spec": {}}


def _cluster_role_binding(options: InstallOptions) -> JSONObject:
    name = "velero" if options.namespace == "velero" else f"velero-{options.namespace}"
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "velero", "namespace": options.namespace}],
    }


def _service_account(options: InstallOptions) -> JSONObject:
    meta: JSONObject = {"name": "velero", "namespace": options.namespace}
    if options.service_account_annotations:
        meta["annotations"] = dict(options.service_account_annotations)
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}


def _secret(options: InstallOptions) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "cloud-credentials", "namespace": options.namespace},
        "type": "Opaque",
        "data": {"cloud": base64.b64encode(options.secret).decode()},
    }


def _backup_location(options: InstallOptions) -> JSONObject:
    storage: JSONObject = {"bucket": options.bucket}
    if options.prefix:
        storage["prefix"] = options.prefix
    if options.ca_cert:
        storage["caCert"] = base64.b64encode(options.ca_cert).decode()
    spec: JSONObject = {"provider": options.provider, "objectStorage": storage, "default": True}
    if options.backup_location_config:
        spec["config"] = dict(options.backup_location_config)
    return _velero("BackupStorageLocation", options.namespace, spec)


def _snapshot_location(options: InstallOptions) -> JSONObject:
    spec: JSONObject = {"provider": options.provider}
    if options.snapshot_location_config:
        spec["config"] = dict(options.snapshot_location_config)
    return _velero("VolumeSnapshotLocation", options.namespace, spec)


def _velero(kind: str, namespace: str, spec: JSONObject) -> JSONObject:
    return {
        "apiVersion": "velero.io/v1",
        "kind": kind,
        "metadata": {"name": "default", "namespace": namespace},
        "spec": spec,
    }


def _deployment(options: InstallOptions) -> JSONObject:
    labels = {**COMPONENT, "deploy": "velero"}
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "8085",
        "prometheus.io/path": "/metrics",
        **options.pod_annotations,
    }
    volumes: list[JSONObject] = [{"name": "plugins", "emptyDir": {}}, {"name": "scratch", "emptyDir": {}}]
    if options.secret:
        volumes.append({"name": "cloud-credentials", "secret": {"secretName": "cloud-credentials"}})
    pod = {
        "metadata": {"labels": labels, "annotations": annotations, "creationTimestamp": None},
        "spec": {
            "restartPolicy": "Always",
            "serviceAccountName": "velero",
            "containers": [_container(options)],
            "volumes": volumes,
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "velero", "namespace": options.namespace},
        "spec": {"selector": {"matchLabels": {"deploy": "velero"}}, "strategy": {}, "template": pod},
    }


def _container(options: InstallOptions) -> JSONObject:
    env: list[JSONObject] = [
        {"name": "VELERO_SCRATCH_DIR", "value": "/scratch"},
        {"name": "VELERO_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        {"name": "LD_LIBRARY_PATH", "value": "/plugins"},
    ]
    mounts: list[JSONObject] = [
        {"name": "plugins", "mountPath": "/plugins"},
        {"name": "scratch", "mountPath": "/scratch"},
    ]
    if options.secret:
        env.extend({"name": name, "value": "/credentials/cloud"} for name in CREDENTIAL_VARIABLES)
        mounts.append({"name": "cloud-credentials", "mountPath": "/credentials"})
    return {
        "name": "velero",
        "image": options.image,
        "imagePullPolicy": pull_policy(options.image),
        "command": ["pinnace"],
        # An empty --features= would be noise. (docs/spec: CLI 11.2, README 'Decided')
        "args": ["server", *([f"--features={options.features}"] if options.features else [])],
        "ports": [{"name": "metrics", "containerPort": 8085}],
        "env": env,
        "volumeMounts": mounts,
        "resources": {kind: dict(values) for kind, values in options.resources.items() if values},
    }


def pull_policy(image: str) -> str:
    """IfNotPresent for a tag other than latest, as the compatible install decides it."""
    parts = image.split(":")
    return "IfNotPresent" if len(parts) == 2 and parts[1] != "latest" else "Always"
