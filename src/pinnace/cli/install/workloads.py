"""What `install` has run: server, node agent, self-service; pure. (docs/spec: CLI 11.2, SRV 16, NAC 2)

Beyond the compatible install, the root file systems are read-only, and server and self-service run as nobody
in particular without capabilities. Programs that need a temporary directory find /tmp on the scratch volume.
The node agent reads and writes other pods' files and so stays root, with the capabilities which that takes.
"""

from collections.abc import Mapping
from typing import Any, Final

from pinnace.api.objects import JSONObject
from pinnace.cli.install.options import InstallOptions
from pinnace.cli.plugin.images import init_container_name
from pinnace.nonadmin import manifests

CREDENTIAL_VARIABLES: Final = (
    "GOOGLE_APPLICATION_CREDENTIALS",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AZURE_CREDENTIALS_FILE",
    "ALIBABA_CLOUD_CREDENTIALS_FILE",
)
NOBODY: Final = 65532
"""The user of images that name none but root; a number, so that the kubelet can tell it is not root."""

POD_VOLUMES: Final = "/var/lib/kubelet/pods"
GRACE_SECONDS: Final = 45
"""The server ends the work in hand within 30 seconds, and then marks what it had to drop."""

OF_FILES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD", "SETFCAP")
"""What restic needs as root to read the files of all users and to give them back with owner and mode."""

_SCRATCH_MOUNTS = (
    {"name": "scratch", "mountPath": "/scratch"},
    {"name": "scratch", "mountPath": "/tmp", "subPath": "tmp"},  # noqa: S108 - of a container
)
_AS_NOBODY = {
    "runAsNonRoot": True,
    "runAsUser": NOBODY,
    "runAsGroup": NOBODY,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_NO_PRIVILEGES = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_NON_ADMIN_RESOURCES = {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}


def deployment(options: InstallOptions) -> JSONObject:
    """The server."""
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "8085",
        "prometheus.io/path": "/metrics",
        **options.pod_annotations,
    }
    spec: JSONObject = {
        "restartPolicy": "Always",
        "serviceAccountName": "velero",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {**_AS_NOBODY, "fsGroup": NOBODY},
        "containers": [_server(options)],
        "volumes": [{"name": "plugins", "emptyDir": {}}, *_volumes(options)],
    }
    if options.plugins:
        spec["initContainers"] = [_plugin(image, options) for image in options.plugins]
    labels = {"component": "velero", "deploy": "velero"}
    return _workload(
        "Deployment", "velero", options, selector={"deploy": "velero"}, labels=labels,
        annotations=annotations, spec=spec, strategy={},
    )  # fmt: skip


def daemon_set(options: InstallOptions) -> JSONObject:
    """The node agent."""
    spec = {
        "restartPolicy": "Always",
        "serviceAccountName": "velero",
        "securityContext": {"runAsUser": 0},
        "containers": [_node_agent(options)],
        "volumes": [{"name": "host-pods", "hostPath": {"path": POD_VOLUMES}}, *_volumes(options)],
    }
    labels = {"component": "velero", "name": "restic"}
    return _workload(
        "DaemonSet", "restic", options, selector={"name": "restic"}, labels=labels,
        annotations=options.pod_annotations, spec=spec, updateStrategy={},
    )  # fmt: skip


def non_admin_deployment(options: InstallOptions) -> JSONObject:
    """Self-service in a process of its own, with an account of its own. (docs/spec: NAC 2)"""
    mark = {"control-plane": manifests.DEPLOYMENT}
    arguments = ["nonadmin", "server", "--leader-elect"]
    container = {
        **_container("manager", options, arguments, _NON_ADMIN_RESOURCES),
        **_probes(health=8081, metrics=8080),
        "env": [_from_pod("WATCH_NAMESPACE", "metadata.namespace")],
        "securityContext": _NO_PRIVILEGES,
    }
    spec = {
        "restartPolicy": "Always",
        "serviceAccountName": manifests.NAME,
        "securityContext": _AS_NOBODY,
        "containers": [container],
    }
    return _workload(
        "Deployment", manifests.DEPLOYMENT, options, selector=mark, labels={"component": "velero", **mark},
        annotations=options.pod_annotations, spec=spec, strategy={},
    )  # fmt: skip


def _workload(
    kind: str,
    name: str,
    options: InstallOptions,
    *,
    selector: Mapping[str, str],
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    spec: JSONObject,
    **members: Any,
) -> JSONObject:
    metadata: JSONObject = {"labels": dict(labels), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = dict(annotations)
    template = {"metadata": metadata, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": options.namespace},
        "spec": {"selector": {"matchLabels": dict(selector)}, "template": template, **members},
    }


def _server(options: InstallOptions) -> JSONObject:
    arguments = ["server", *_features(options)]
    if options.default_volumes_to_restic:
        arguments.append("--default-volumes-to-restic=true")
    if options.restore_only:
        arguments.append("--restore-only")
    if options.restic_prune_frequency:
        arguments.append(f"--default-restic-prune-frequency={options.restic_prune_frequency}")
    return {
        **_container("velero", options, arguments, options.resources),
        **_probes(metrics=8085),
        "env": [
            {"name": "VELERO_SCRATCH_DIR", "value": "/scratch"},
            _from_pod("VELERO_NAMESPACE", "metadata.namespace"),
            {"name": "LD_LIBRARY_PATH", "value": "/plugins"},
            *_credential_variables(options),
        ],
        "volumeMounts": [{"name": "plugins", "mountPath": "/plugins"}, *_mounts(options)],
        "securityContext": _NO_PRIVILEGES,
    }


def _node_agent(options: InstallOptions) -> JSONObject:
    return {
        **_container("restic", options, ["restic", "server", *_features(options)], options.restic_resources),
        **_probes(metrics=8085),
        "env": [
            _from_pod("NODE_NAME", "spec.nodeName"),
            _from_pod("VELERO_NAMESPACE", "metadata.namespace"),
            {"name": "VELERO_SCRATCH_DIR", "value": "/scratch"},
            *_credential_variables(options),
        ],
        "volumeMounts": [
            {"name": "host-pods", "mountPath": "/host_pods", "mountPropagation": "HostToContainer"},
            *_mounts(options),
        ],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], "add": list(OF_FILES)},
            "readOnlyRootFilesystem": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _container(
    name: str, options: InstallOptions, arguments: list[str], resources: Mapping[str, Mapping[str, str]]
) -> JSONObject:
    return {
        "name": name,
        "image": options.image,
        "imagePullPolicy": pull_policy(options.image),
        "command": ["pinnace"],
        "args": arguments,
        "resources": {kind: dict(values) for kind, values in resources.items() if values},
    }


def _probes(**ports: int) -> JSONObject:
    """Ports by their names; the first is the one that is probed."""
    first = next(iter(ports))
    often = {"periodSeconds": 10, "timeoutSeconds": 5}
    return {
        "ports": [{"name": name, "containerPort": number} for name, number in ports.items()],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": first}, **often},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": first}, **often},
    }


def _plugin(image: str, options: InstallOptions) -> JSONObject:
    """Copies its executables to where the server looks for them."""
    return {
        "name": init_container_name(image),
        "image": image,
        "imagePullPolicy": pull_policy(options.image),
        "volumeMounts": [{"name": "plugins", "mountPath": "/target"}],
        "resources": {},
    }


def _features(options: InstallOptions) -> list[str]:
    # An empty --features= would be noise. (docs/spec: CLI 11.2, README 'Decided')
    return [f"--features={options.features}"] if options.features else []


def _volumes(options: InstallOptions) -> list[JSONObject]:
    volumes: list[JSONObject] = [{"name": "scratch", "emptyDir": {}}]
    if options.secret:
        volumes.append({"name": "cloud-credentials", "secret": {"secretName": "cloud-credentials"}})
    return volumes


def _mounts(options: InstallOptions) -> list[JSONObject]:
    mounts: list[JSONObject] = [dict(mount) for mount in _SCRATCH_MOUNTS]
    if options.secret:
        mounts.append({"name": "cloud-credentials", "mountPath": "/credentials"})
    return mounts


def _credential_variables(options: InstallOptions) -> list[JSONObject]:
    if not options.secret:
        return []
    return [{"name": name, "value": "/credentials/cloud"} for name in CREDENTIAL_VARIABLES]


def _from_pod(name: str, field: str) -> JSONObject:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def pull_policy(image: str) -> str:
    """IfNotPresent for a tag other than latest, as the compatible install decides it."""
    parts = image.split(":")
    return "IfNotPresent" if len(parts) == 2 and parts[1] != "latest" else "Always"
