"""The workloads of `install`: server, node agent, self-service. Pure. (docs/spec: CLI 11.2, SRV 16, NAC 2)

Beyond the compatible install, the root file systems are read-only, and server and self-service run as an
unprivileged user without capabilities. Programs that need a temporary directory find /tmp on the scratch
volume. The node agent reads and writes other pods' files: it runs as root, with the capabilities for that.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from pinnace.api.objects import JSONObject
from pinnace.api.pod_resources import PodResources
from pinnace.api.velero.pod_volume import KOPIA
from pinnace.installing.access import ACCOUNT
from pinnace.installing.options import InstallOptions
from pinnace.installing.plugin_images import UNPRIVILEGED as UNPRIVILEGED_PLUGIN
from pinnace.installing.plugin_images import init_container_name
from pinnace.nonadmin import manifests
from pinnace.storage.providers import CREDENTIAL_VARIABLES
from pinnace.volumes.node_agents import NODE_AGENT, ROLE

UNPRIVILEGED: Final = 65532
"""The user of server and self-service; a number, so that the kubelet can tell that it is not root."""

GRACE_SECONDS: Final = 45
"""The grace period of the server's pod: it ends its runs in 30 seconds, and then records those it gave up."""

OF_FILES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "MKNOD", "SETFCAP")
"""The capabilities that restic needs as root to read the files of all users and to restore their owners."""

_SCRATCH_MOUNTS = (
    {"name": "scratch", "mountPath": "/scratch"},
    {"name": "scratch", "mountPath": "/tmp", "subPath": "tmp"},  # noqa: S108 - of a container
)
_UNPRIVILEGED_POD = {
    "runAsNonRoot": True,
    "runAsUser": UNPRIVILEGED,
    "runAsGroup": UNPRIVILEGED,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_NO_PRIVILEGES = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_FILES_OF_ALL = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"], "add": list(OF_FILES)},
    "readOnlyRootFilesystem": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_PRIVILEGED = {"privileged": True, "readOnlyRootFilesystem": True}
_ON_LINUX: Final[JSONObject] = {
    "os": {"name": "linux"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}
                        ]
                    }
                ]
            }
        }
    },
}
"""The image has no program for Windows; a node without the label is taken for one that runs Linux."""
_NON_ADMIN_RESOURCES = PodResources(cpu_request="100m", memory_request="128Mi", memory_limit="512Mi")


def deployment(options: InstallOptions, namespace: str) -> JSONObject:
    """The server."""
    annotations = {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "8085",
        "prometheus.io/path": "/metrics",
        **options.pod_annotations,
    }
    spec: JSONObject = {
        **_ON_LINUX,
        "restartPolicy": "Always",
        "serviceAccountName": options.service_account or ACCOUNT,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": {**_UNPRIVILEGED_POD, "fsGroup": UNPRIVILEGED},
        "containers": [_server(options)],
        "volumes": [{"name": "plugins", "emptyDir": {}}, *_volumes(options)],
    }
    if options.plugins:
        spec["initContainers"] = [_plugin(image, options) for image in options.plugins]
    if options.server_priority_class:
        spec["priorityClassName"] = options.server_priority_class
    labels = {**options.pod_labels, "component": "velero", "deploy": "velero"}
    pods = _Pods(selector={"deploy": "velero"}, labels=labels, annotations=annotations, spec=spec)
    return _workload("Deployment", "velero", namespace, pods, strategy={})


def daemon_set(options: InstallOptions, namespace: str) -> JSONObject:
    """The node agent."""
    spec: JSONObject = {
        **_ON_LINUX,
        "restartPolicy": "Always",
        "serviceAccountName": options.service_account or ACCOUNT,
        "securityContext": {"runAsUser": 0},
        "containers": [_node_agent(options)],
        "volumes": [
            {"name": "host-pods", "hostPath": {"path": str(PurePosixPath(options.kubelet_root) / "pods")}},
            *_host_plugins(options, {"hostPath": {"path": _plugins(options)}}),
            *_volumes(options),
        ],
    }
    if options.node_agent_priority_class:
        spec["priorityClassName"] = options.node_agent_priority_class
    selector = {"name": NODE_AGENT}
    labels = {**options.pod_labels, "component": "velero", **ROLE, **selector}
    pods = _Pods(selector=selector, labels=labels, annotations=options.pod_annotations, spec=spec)
    return _workload("DaemonSet", NODE_AGENT, namespace, pods, updateStrategy={})


def non_admin_deployment(options: InstallOptions, namespace: str) -> JSONObject:
    """Self-service in a process of its own, with an account of its own. (docs/spec: NAC 2)"""
    labels = {"control-plane": manifests.DEPLOYMENT}
    arguments = ["nonadmin", "server", "--leader-elect"]
    container = {
        **_container("manager", options, arguments, _NON_ADMIN_RESOURCES),
        **_probes(health=8081, metrics=8080),
        "env": [_from_pod("WATCH_NAMESPACE", "metadata.namespace")],
        "securityContext": _NO_PRIVILEGES,
    }
    spec = {
        **_ON_LINUX,
        "restartPolicy": "Always",
        "serviceAccountName": manifests.NAME,
        "securityContext": _UNPRIVILEGED_POD,
        "containers": [container],
    }
    pods = _Pods(
        selector=labels,
        labels={"component": "velero", **labels},
        annotations=options.pod_annotations,
        spec=spec,
    )
    return _workload("Deployment", manifests.DEPLOYMENT, namespace, pods, strategy={})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pods:
    """The pods of a workload."""

    selector: Mapping[str, str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: JSONObject


def _workload(kind: str, name: str, namespace: str, pods: _Pods, **members: Any) -> JSONObject:
    metadata: JSONObject = {"labels": dict(pods.labels), "creationTimestamp": None}
    if pods.annotations:
        metadata["annotations"] = dict(pods.annotations)
    template = {"metadata": metadata, "spec": pods.spec}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": dict(pods.selector)}, "template": template, **members},
    }


UPLOADER_FLAG: Final = "--uploader-type="


def _server(options: InstallOptions) -> JSONObject:
    arguments = ["server", *_features(options)]
    if options.default_volumes_to_fs_backup:
        arguments.append("--default-volumes-to-fs-backup=true")
    if options.node_agent:
        arguments.append(f"{UPLOADER_FLAG}{options.uploader or KOPIA}")
    if options.restore_only:
        arguments.append("--restore-only")
    if options.maintenance_frequency:
        arguments.append(f"--default-repo-maintain-frequency={options.maintenance_frequency}")
    arguments += _server_arguments(options)
    return {
        **_container("velero", options, arguments, options.server_resources),
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


def _server_arguments(options: InstallOptions) -> list[str]:
    """The flags to pass on to the server; those that were not given are left out."""
    given = {
        "--garbage-collection-frequency": options.garbage_collection_frequency,
        "--fs-backup-timeout": options.pod_volume_operation_timeout,
        "--concurrent-backups": options.concurrent_backups,
        "--backup-repository-configmap": options.repository_config_map,
        "--repo-maintenance-job-configmap": options.maintenance_config_map,
        "--default-resource-modifier-configmap": options.default_modifiers,
    }
    switches = {
        "--schedule-skip-immediately": options.schedule_skip_immediately,
        "--default-snapshot-move-data": options.default_snapshot_move_data,
    }
    arguments = [f"{name}={value}" for name, value in given.items() if value]
    return [*arguments, *(name for name, is_given in switches.items() if is_given)]


def _node_agent(options: InstallOptions) -> JSONObject:
    arguments = [NODE_AGENT, "server", *_features(options)]
    if options.node_agent_config_map:
        arguments.append(f"--node-agent-configmap={options.node_agent_config_map}")
    return {
        **_container(NODE_AGENT, options, arguments, options.node_agent_resources),
        **_probes(metrics=8085),
        "env": [
            _from_pod("NODE_NAME", "spec.nodeName"),
            _from_pod("VELERO_NAMESPACE", "metadata.namespace"),
            {"name": "VELERO_SCRATCH_DIR", "value": "/scratch"},
            *_credential_variables(options),
        ],
        "volumeMounts": [
            {"name": "host-pods", "mountPath": "/host_pods", "mountPropagation": "HostToContainer"},
            *_host_plugins(options, {"mountPath": _plugins(options), "mountPropagation": "HostToContainer"}),
            *_mounts(options),
        ],
        "securityContext": _PRIVILEGED if options.privileged_node_agent else _FILES_OF_ALL,
    }


def _plugins(options: InstallOptions) -> str:
    return str(PurePosixPath(options.kubelet_root) / "plugins")


def _host_plugins(options: InstallOptions, members: JSONObject) -> list[JSONObject]:
    """The kubelet's directory of plugins, where devices are; only a privileged agent may open them."""
    return [{"name": "host-plugins", **members}] if options.privileged_node_agent else []


def _container(
    name: str, options: InstallOptions, arguments: list[str], resources: PodResources
) -> JSONObject:
    return {
        "name": name,
        "image": options.image,
        "imagePullPolicy": pull_policy(options.image),
        "command": ["pinnace"],
        "args": arguments,
        "resources": resources.requirements(),
    }


def _probes(**ports: int) -> JSONObject:
    """Ports and probes of a container; the first port is probed.

    A restart fails the backups and restores that run, so it takes a minute without an answer. A start may
    take five minutes: on a busy node, or while a plugin is slow. A server that lost its lease ends by itself.

    A process is ready some seconds after it has started. With the default period of ten seconds an
    installation and each rollout would wait for the rest of the first period. Only readiness that is lost for
    half a minute counts, as by the defaults.
    """
    first = next(iter(ports))
    alive = {"httpGet": {"path": "/healthz", "port": first}, "timeoutSeconds": 5}
    ready = {"httpGet": {"path": "/readyz", "port": first}, "timeoutSeconds": 5}
    return {
        "ports": [{"name": name, "containerPort": number} for name, number in ports.items()],
        "startupProbe": {**alive, "periodSeconds": 2, "failureThreshold": 150},
        "livenessProbe": {**alive, "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {**ready, "periodSeconds": 2, "failureThreshold": 15},
    }


def _plugin(image: str, options: InstallOptions) -> JSONObject:
    """The init container of a plugin, which copies its executables to where the server looks for them."""
    image = image.strip()  # of "a, b"
    return {
        "name": init_container_name(image),
        "image": image,
        "imagePullPolicy": pull_policy(options.image),
        "volumeMounts": [{"name": "plugins", "mountPath": "/target"}],
        "resources": {},
        "securityContext": UNPRIVILEGED_PLUGIN,
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
    """IfNotPresent for a tag other than latest, as in the compatible install; otherwise Always."""
    parts = image.split(":")
    return "IfNotPresent" if len(parts) == 2 and parts[1] != "latest" else "Always"
