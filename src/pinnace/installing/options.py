"""The wishes for an installation, as plain values. (docs/spec: CLI 11.1)"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pinnace.api.pod_resources import PodResources

KUBELET_ROOT: Final = "/var/lib/kubelet"
NON_ADMIN_FEATURE: Final = "NonAdmin"


SERVER_RESOURCES: Final = PodResources(
    cpu_request="500m", memory_request="128Mi", cpu_limit="1000m", memory_limit="512Mi"
)
NODE_AGENT_RESOURCES: Final = PodResources(
    cpu_request="500m", memory_request="512Mi", cpu_limit="1000m", memory_limit="1Gi"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """What to install, and how; the flags of `pinnace install` say the same, and messages name them.

    Durations are texts such as "72h"; an empty one leaves it to the server, and so does the number 0.

    Attributes:
        provider: of the locations: "aws", "gcp", "azure", "filesystem" or one that a plugin brings.
        bucket, prefix: of the backup location.
        backup_location, snapshot_location: whether there is one. A folder has no snapshot location.
        backup_location_config, snapshot_location_config: such as {"region": "eu-central-1"}.
        ca_cert: a CA bundle (PEM) for the backup location.
        secret: the content of a file of credentials; without one `no_secret` confirms that there is none.
        image: of the server; empty: no server is deployed.
        plugins: images that bring plugins, in this order.
        features: feature flags of the server, with commas between them.
        minimal_rights: give the server only the rights that it uses, not all.
        service_account: an existing account for the pods; empty: one is created.
        node_agent: deploy the node agent on every node.
        uploader: "kopia" or "restic"; empty: kopia, and with `apply` the one of the installed server.
        repository_password: of the repositories of volume data; None: a new server makes a random one.
        maintenance_frequency: how often repositories are maintained.
        *_config_map: ConfigMaps with settings, which must exist.
        non_admin: install what self-service needs.
        restore_only: deprecated; let the server run only what restores need.
        apply: bring what exists in line, by server-side apply; without it existing objects stay as they are.
        wait: until the server and the node agent are ready.
    """

    provider: str = ""
    bucket: str = ""
    prefix: str = ""
    backup_location: bool = True
    backup_location_config: Mapping[str, str] = field(default_factory=dict)
    snapshot_location: bool = True
    snapshot_location_config: Mapping[str, str] = field(default_factory=dict)
    ca_cert: bytes = b""
    secret: bytes | None = field(default=None, repr=False)
    no_secret: bool = False
    image: str = ""
    plugins: Sequence[str] = ()
    features: str = ""
    minimal_rights: bool = False
    service_account: str = ""
    service_account_annotations: Mapping[str, str] = field(default_factory=dict)
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    server_resources: PodResources = SERVER_RESOURCES
    server_priority_class: str = ""
    node_agent: bool = False
    node_agent_resources: PodResources = NODE_AGENT_RESOURCES
    node_agent_priority_class: str = ""
    node_agent_config_map: str = ""
    privileged_node_agent: bool = False
    kubelet_root: str = KUBELET_ROOT
    uploader: str = ""
    repository_password: bytes | None = field(default=None, repr=False)
    default_volumes_to_fs_backup: bool = False
    default_snapshot_move_data: bool = False
    maintenance_frequency: str = ""
    garbage_collection_frequency: str = ""
    pod_volume_operation_timeout: str = ""
    concurrent_backups: int = 0
    schedule_skip_immediately: bool = False
    repository_config_map: str = ""
    maintenance_config_map: str = ""
    default_modifiers: str = ""
    non_admin: bool = False
    restore_only: bool = False
    apply: bool = False
    wait: bool = False

    @property
    def server_is_non_admin(self) -> bool:
        """Whether the server runs self-service itself, so that there is no other process for it."""
        return NON_ADMIN_FEATURE in self.features.split(",")

    @property
    def with_non_admin(self) -> bool:
        """Whether tenants can back up their own namespaces, by the server or by a process of its own."""
        return self.non_admin or self.server_is_non_admin

    @property
    def keeps_uploader(self) -> bool:
        """Whether the uploader of an installed server stays."""
        return self.apply and not self.uploader

    @property
    def config_maps(self) -> dict[str, str]:
        """The ConfigMaps that are named, by the flag that names them."""
        named = {
            "--node-agent-configmap": self.node_agent_config_map,
            "--backup-repository-configmap": self.repository_config_map,
            "--repo-maintenance-job-configmap": self.maintenance_config_map,
            "--default-resource-modifier-configmap": self.default_modifiers,
        }
        return {flag: name for flag, name in named.items() if name}
