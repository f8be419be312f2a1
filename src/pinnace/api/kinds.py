"""The one table of kinds: their names in the API, their scope, and the words of their commands. Pure.

A kind that the code names is here once. `kube.resources` addresses the objects of these kinds, and
`api.definitions` has the schemas of those that Pinnace defines. (docs/spec: API 1, BEY 2, NAC 4)
"""

from typing import Final, NamedTuple

from pinnace.api import ALPHA_VERSION, GROUP, TENANT_GROUP, TENANT_VERSION, VERSION

SNAPSHOT_GROUP: Final = "snapshot.storage.k8s.io"
GROUP_SNAPSHOT_GROUP: Final = "groupsnapshot.storage.k8s.io"
_NETWORKING: Final = "networking.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"


class Kind(NamedTuple):
    """One kind of a group, in the version that Pinnace uses.

    Attributes:
        short_names: those of kubectl.
        noun: the words of its commands; "" for a kind without commands.
    """

    kind: str
    plural: str
    short_names: tuple[str, ...] = ()
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    noun: str = ""

    @property
    def singular(self) -> str:
        """The kind in lower case."""
        return self.kind.lower()

    @property
    def group_resource(self) -> str:
        """`pods`, or `deployments.apps` for a named group; also the name of a definition."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def group_resources(*kinds: Kind) -> tuple[str, ...]:
    """The names of kinds in lists and selectors."""
    return tuple(kind.group_resource for kind in kinds)


# --- Kinds of Kubernetes ----------------------------------------------------------------------------------

NAMESPACES: Final = Kind("Namespace", "namespaces", ("ns",), namespaced=False)
NODES: Final = Kind("Node", "nodes", ("no",), namespaced=False)
PERSISTENT_VOLUMES: Final = Kind("PersistentVolume", "persistentvolumes", ("pv",), namespaced=False)
PERSISTENT_VOLUME_CLAIMS: Final = Kind("PersistentVolumeClaim", "persistentvolumeclaims", ("pvc",))
PODS: Final = Kind("Pod", "pods", ("po",))
CONFIGMAPS: Final = Kind("ConfigMap", "configmaps", ("cm",))
SECRETS: Final = Kind("Secret", "secrets")
SERVICES: Final = Kind("Service", "services", ("svc",))
SERVICE_ACCOUNTS: Final = Kind("ServiceAccount", "serviceaccounts", ("sa",))
ENDPOINTS: Final = Kind("Endpoints", "endpoints", ("ep",))
EVENTS: Final = Kind("Event", "events", ("ev",))
LIMIT_RANGES: Final = Kind("LimitRange", "limitranges", ("limits",))
RESOURCE_QUOTAS: Final = Kind("ResourceQuota", "resourcequotas", ("quota",))
REPLICATION_CONTROLLERS: Final = Kind("ReplicationController", "replicationcontrollers", ("rc",))
CONTROLLER_REVISIONS: Final = Kind("ControllerRevision", "controllerrevisions", group="apps")
DAEMON_SETS: Final = Kind("DaemonSet", "daemonsets", ("ds",), "apps")
DEPLOYMENTS: Final = Kind("Deployment", "deployments", ("deploy",), "apps")
REPLICA_SETS: Final = Kind("ReplicaSet", "replicasets", ("rs",), "apps")
STATEFUL_SETS: Final = Kind("StatefulSet", "statefulsets", ("sts",), "apps")
HORIZONTAL_POD_AUTOSCALERS: Final = Kind(
    "HorizontalPodAutoscaler", "horizontalpodautoscalers", ("hpa",), "autoscaling", "v2"
)
CRON_JOBS: Final = Kind("CronJob", "cronjobs", ("cj",), "batch")
JOBS: Final = Kind("Job", "jobs", group="batch")
LEASES: Final = Kind("Lease", "leases", group="coordination.k8s.io")
ENDPOINT_SLICES: Final = Kind("EndpointSlice", "endpointslices", group="discovery.k8s.io")
INGRESSES: Final = Kind("Ingress", "ingresses", ("ing",), _NETWORKING)
IP_ADDRESSES: Final = Kind("IPAddress", "ipaddresses", ("ip",), _NETWORKING, namespaced=False)
NETWORK_POLICIES: Final = Kind("NetworkPolicy", "networkpolicies", ("netpol",), _NETWORKING)
SERVICE_CIDRS: Final = Kind("ServiceCIDR", "servicecidrs", group=_NETWORKING, namespaced=False)
POD_DISRUPTION_BUDGETS: Final = Kind("PodDisruptionBudget", "poddisruptionbudgets", ("pdb",), "policy")
CLUSTER_ROLES: Final = Kind("ClusterRole", "clusterroles", group=_RBAC, namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = Kind(
    "ClusterRoleBinding", "clusterrolebindings", group=_RBAC, namespaced=False
)
ROLES: Final = Kind("Role", "roles", group=_RBAC)
ROLE_BINDINGS: Final = Kind("RoleBinding", "rolebindings", group=_RBAC)
PRIORITY_CLASSES: Final = Kind(
    "PriorityClass", "priorityclasses", ("pc",), "scheduling.k8s.io", namespaced=False
)
STORAGE_CLASSES: Final = Kind("StorageClass", "storageclasses", ("sc",), "storage.k8s.io", namespaced=False)
VOLUME_ATTACHMENTS: Final = Kind(
    "VolumeAttachment", "volumeattachments", group="storage.k8s.io", namespaced=False
)
VOLUME_SNAPSHOTS: Final = Kind("VolumeSnapshot", "volumesnapshots", ("vs",), SNAPSHOT_GROUP)
VOLUME_SNAPSHOT_CLASSES: Final = Kind(
    "VolumeSnapshotClass", "volumesnapshotclasses", ("vsclass",), SNAPSHOT_GROUP, namespaced=False
)
VOLUME_SNAPSHOT_CONTENTS: Final = Kind(
    "VolumeSnapshotContent", "volumesnapshotcontents", ("vsc",), SNAPSHOT_GROUP, namespaced=False
)
VOLUME_GROUP_SNAPSHOTS: Final = Kind(
    "VolumeGroupSnapshot", "volumegroupsnapshots", group=GROUP_SNAPSHOT_GROUP
)
VOLUME_GROUP_SNAPSHOT_CONTENTS: Final = Kind(
    "VolumeGroupSnapshotContent",
    "volumegroupsnapshotcontents",
    group=GROUP_SNAPSHOT_GROUP,
    namespaced=False,
)
CUSTOM_RESOURCE_DEFINITIONS: Final = Kind(
    "CustomResourceDefinition",
    "customresourcedefinitions",
    ("crd", "crds"),
    "apiextensions.k8s.io",
    namespaced=False,
)

# --- Kinds of velero.io: those of Velero 1.18, with the short names of the branch for 1.19 ----------------

BACKUP_REPOSITORIES: Final = Kind(
    "BackupRepository", "backuprepositories", ("repo",), GROUP, VERSION, noun="repo"
)
BACKUPS: Final = Kind("Backup", "backups", ("bak",), GROUP, VERSION, noun="backup")
BACKUP_STORAGE_LOCATIONS: Final = Kind(
    "BackupStorageLocation", "backupstoragelocations", ("bsl",), GROUP, VERSION, noun="backup-location"
)
DATA_DOWNLOADS: Final = Kind("DataDownload", "datadownloads", ("dd",), GROUP, ALPHA_VERSION)
DATA_UPLOADS: Final = Kind("DataUpload", "datauploads", ("du",), GROUP, ALPHA_VERSION)
DELETE_BACKUP_REQUESTS: Final = Kind("DeleteBackupRequest", "deletebackuprequests", ("dbr",), GROUP, VERSION)
DOWNLOAD_REQUESTS: Final = Kind("DownloadRequest", "downloadrequests", ("dreq",), GROUP, VERSION)
POD_VOLUME_BACKUPS: Final = Kind("PodVolumeBackup", "podvolumebackups", ("pvb",), GROUP, VERSION)
POD_VOLUME_RESTORES: Final = Kind("PodVolumeRestore", "podvolumerestores", ("pvr",), GROUP, VERSION)
RESTIC_REPOSITORIES: Final = Kind("ResticRepository", "resticrepositories", (), GROUP, VERSION)
"""BackupRepository replaces it since Velero 1.10."""
RESTORES: Final = Kind("Restore", "restores", ("rst",), GROUP, VERSION, noun="restore")
SCHEDULES: Final = Kind("Schedule", "schedules", ("sched",), GROUP, VERSION, noun="schedule")
SERVER_STATUS_REQUESTS: Final = Kind("ServerStatusRequest", "serverstatusrequests", ("ssr",), GROUP, VERSION)
VOLUME_SNAPSHOT_LOCATIONS: Final = Kind(
    "VolumeSnapshotLocation", "volumesnapshotlocations", ("vsl",), GROUP, VERSION, noun="snapshot-location"
)

VELERO: Final[tuple[Kind, ...]] = (
    BACKUP_REPOSITORIES,
    BACKUPS,
    BACKUP_STORAGE_LOCATIONS,
    DATA_DOWNLOADS,
    DATA_UPLOADS,
    DELETE_BACKUP_REQUESTS,
    DOWNLOAD_REQUESTS,
    POD_VOLUME_BACKUPS,
    POD_VOLUME_RESTORES,
    RESTIC_REPOSITORIES,
    RESTORES,
    SCHEDULES,
    SERVER_STATUS_REQUESTS,
    VOLUME_SNAPSHOT_LOCATIONS,
)
"""In the alphabetical order of the plurals, as `install` creates their CRDs (docs/spec: CLI 11.2)."""

# --- Kinds of self-service --------------------------------------------------------------------------------

NON_ADMIN_BACKUPS: Final = Kind(
    "NonAdminBackup", "nonadminbackups", ("nab",), TENANT_GROUP, TENANT_VERSION, noun="nonadmin backup"
)
NON_ADMIN_LOCATION_REQUESTS: Final = Kind(
    "NonAdminBackupStorageLocationRequest",
    "nonadminbackupstoragelocationrequests",
    ("nabslrequest",),
    TENANT_GROUP,
    TENANT_VERSION,
)
NON_ADMIN_LOCATIONS: Final = Kind(
    "NonAdminBackupStorageLocation",
    "nonadminbackupstoragelocations",
    ("nabsl",),
    TENANT_GROUP,
    TENANT_VERSION,
    noun="nonadmin storage-location",
)
NON_ADMIN_DOWNLOADS: Final = Kind(
    "NonAdminDownloadRequest", "nonadmindownloadrequests", ("nadr",), TENANT_GROUP, TENANT_VERSION
)
NON_ADMIN_RESTORES: Final = Kind(
    "NonAdminRestore", "nonadminrestores", ("nar",), TENANT_GROUP, TENANT_VERSION, noun="nonadmin restore"
)

KINDS: Final = tuple(value for value in globals().values() if isinstance(value, Kind))
"""Every kind of this table."""
