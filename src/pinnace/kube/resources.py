"""Resources of an API server and the paths of their objects; every resource that Pinnace uses, named once."""

from typing import Final
from urllib.parse import quote

import msgspec

from pinnace.api import ALPHA_VERSION, GROUP, VERSION
from pinnace.kube.errors import InvalidName

KUBERNETES_GROUPS: Final = frozenset(
    f"{name}.k8s.io"
    for name in (
        *("admissionregistration", "apiextensions", "apiregistration", "authentication", "authorization"),
        *("certificates", "coordination", "discovery", "events", "flowcontrol.apiserver"),
        *("internal.apiserver", "networking", "node", "rbac.authorization", "resource", "scheduling"),
        *("storage", "storagemigration"),
    )
)
"""The groups with a dot that the API server itself serves."""

_ALL_VERBS = frozenset({"create", "delete", "get", "list", "patch", "update", "watch"})


class APIResource(msgspec.Struct, frozen=True, kw_only=True):
    """One resource in one version, as discovery describes it.

    `name` is the plural; `group` is empty for the core group.
    """

    group: str
    version: str
    name: str
    kind: str
    namespaced: bool
    verbs: frozenset[str] = _ALL_VERBS
    short_names: tuple[str, ...] = ()
    singular_name: str = ""

    @property
    def api_version(self) -> str:
        """`v1`, or `apps/v1` for a named group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def is_of_kubernetes(self) -> bool:
        """Whether the API server itself serves it, and not a definition or a server of its own."""
        return "." not in self.group or self.group in KUBERNETES_GROUPS

    @property
    def group_resource(self) -> str:
        """`pods`, or `deployments.apps` for a named group."""
        return f"{self.name}.{self.group}" if self.group else self.name

    def path(
        self, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The request path of the collection, of one object, or of an object's sub-resource.

        Without a namespace (None or ""), a namespaced resource's path spans all namespaces. The
        namespace of a cluster-scoped resource is ignored.

        Raises:
            InvalidName: if a segment is one that a server would resolve to another path.
        """
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace and self.namespaced:
            path += f"/namespaces/{_segment(namespace)}"
        path += f"/{self.name}"
        if name is not None:
            path += f"/{_segment(name)}"
        if subresource:
            path += "/" + "/".join(_segment(part) for part in subresource.split("/"))
        return path


def _segment(text: str) -> str:
    # Names come from archives too. API servers decode a quoted slash before they parse the path, so
    # with quoting alone a name could address another object, or a whole collection.
    if text in ("", ".", "..") or "/" in text or "%" in text:
        raise InvalidName(f"{text!r} cannot be the name of an object")
    return quote(text, safe="")


def _core(name: str, kind: str, *short_names: str, namespaced: bool = True) -> APIResource:
    return _known("", "v1", name, kind, *short_names, namespaced=namespaced)


def _known(
    group: str, version: str, name: str, kind: str, *short_names: str, namespaced: bool = True
) -> APIResource:
    return APIResource(
        group=group,
        version=version,
        name=name,
        kind=kind,
        namespaced=namespaced,
        short_names=short_names,
        singular_name=kind.lower(),
    )


NAMESPACES = _core("namespaces", "Namespace", "ns", namespaced=False)
NODES = _core("nodes", "Node", "no", namespaced=False)
PERSISTENT_VOLUMES = _core("persistentvolumes", "PersistentVolume", "pv", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = _core("persistentvolumeclaims", "PersistentVolumeClaim", "pvc")
PODS = _core("pods", "Pod", "po")
CONFIGMAPS = _core("configmaps", "ConfigMap", "cm")
SECRETS = _core("secrets", "Secret")
SERVICES = _core("services", "Service", "svc")
SERVICE_ACCOUNTS = _core("serviceaccounts", "ServiceAccount", "sa")
EVENTS = _core("events", "Event", "ev")
DEPLOYMENTS = _known("apps", "v1", "deployments", "Deployment", "deploy")
DAEMON_SETS = _known("apps", "v1", "daemonsets", "DaemonSet", "ds")
REPLICA_SETS = _known("apps", "v1", "replicasets", "ReplicaSet", "rs")
STATEFUL_SETS = _known("apps", "v1", "statefulsets", "StatefulSet", "sts")
REPLICATION_CONTROLLERS = _core("replicationcontrollers", "ReplicationController", "rc")
NETWORK_POLICIES = _known("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", "netpol")
JOBS = _known("batch", "v1", "jobs", "Job")
LEASES = _known("coordination.k8s.io", "v1", "leases", "Lease")
STORAGE_CLASSES = _known("storage.k8s.io", "v1", "storageclasses", "StorageClass", "sc", namespaced=False)
VOLUME_ATTACHMENTS = _known("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
CLUSTER_ROLES = _known("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = _known(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
SERVICE_CIDRS = _known("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", namespaced=False)
ENDPOINT_SLICES = _known("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
VOLUME_SNAPSHOT_CONTENTS = _known(
    "snapshot.storage.k8s.io", "v1", "volumesnapshotcontents", "VolumeSnapshotContent", namespaced=False
)
CUSTOM_RESOURCE_DEFINITIONS = _known(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    "crd",
    "crds",
    namespaced=False,
)

_VELERO = {
    "backups": "Backup",
    "restores": "Restore",
    "schedules": "Schedule",
    "backupstoragelocations": "BackupStorageLocation",
    "volumesnapshotlocations": "VolumeSnapshotLocation",
    "podvolumebackups": "PodVolumeBackup",
    "podvolumerestores": "PodVolumeRestore",
    "backuprepositories": "BackupRepository",
    "resticrepositories": "ResticRepository",
    "deletebackuprequests": "DeleteBackupRequest",
    "downloadrequests": "DownloadRequest",
    "serverstatusrequests": "ServerStatusRequest",
}


_VELERO_ALPHA = {"datauploads": "DataUpload", "datadownloads": "DataDownload"}


def velero(plural: str) -> APIResource:
    """The resource of one of the kinds of `velero.io` by its plural. (docs/spec: API 1, BEY 6.7)

    Raises:
        KeyError: if there is no such kind.
    """
    if plural in _VELERO_ALPHA:
        return _known(GROUP, ALPHA_VERSION, plural, _VELERO_ALPHA[plural])
    return _known(GROUP, VERSION, plural, _VELERO[plural])


BACKUPS = velero("backups")
RESTORES = velero("restores")
SCHEDULES = velero("schedules")
BACKUP_STORAGE_LOCATIONS = velero("backupstoragelocations")
VOLUME_SNAPSHOT_LOCATIONS = velero("volumesnapshotlocations")
POD_VOLUME_BACKUPS = velero("podvolumebackups")
POD_VOLUME_RESTORES = velero("podvolumerestores")
BACKUP_REPOSITORIES = velero("backuprepositories")
RESTIC_REPOSITORIES = velero("resticrepositories")
DELETE_BACKUP_REQUESTS = velero("deletebackuprequests")
DOWNLOAD_REQUESTS = velero("downloadrequests")
SERVER_STATUS_REQUESTS = velero("serverstatusrequests")
DATA_UPLOADS = velero("datauploads")
DATA_DOWNLOADS = velero("datadownloads")
