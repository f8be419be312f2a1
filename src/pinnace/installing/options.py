"""What `install` has to install, as plain values. (docs/spec: CLI 11.1)"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pinnace.api.values.durations import Duration
from pinnace.api.velero.pod_volume import KOPIA
from pinnace.storage.open import FILESYSTEM_PROVIDER

KUBELET_ROOT: Final = "/var/lib/kubelet"
NON_ADMIN_FEATURE: Final = "NonAdmin"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallOptions:
    """What to install. Empty `provider` means no location, empty `image` no server.

    Attributes:
        used_rights_only: give the server only the rights that it uses, not all.
        plugins: images that bring plugins, in this order.
        uploader: the program that saves pod volumes.
        restic_prune_frequency: a flag of the server; zero leaves it to the server.
        node_agent: deploy the node agent on every node.
        restic_resources: requests and limits of the node agent.
        server_arguments: more flags of the server.
        service_account: an existing account for the pods; empty: one is created.
        node_agent_config_map: a ConfigMap with settings of the node agents; empty for none.
        privileged_node_agent: run the node agent privileged.
        kubelet_root: the directory of the kubelet on each node.
        restic_password: the password of the repositories; empty: the server takes its default.
        non_admin: install what self-service needs.
    """

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
    used_rights_only: bool = False
    image: str = ""
    plugins: Sequence[str] = ()
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    service_account_annotations: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    features: str = ""
    restore_only: bool = False
    default_volumes_to_restic: bool = False
    uploader: str = KOPIA
    restic_prune_frequency: Duration = field(default_factory=Duration)
    server_arguments: Sequence[str] = ()
    service_account: str = ""
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    server_priority_class: str = ""
    node_agent: bool = False
    node_agent_priority_class: str = ""
    node_agent_config_map: str = ""
    privileged_node_agent: bool = False
    kubelet_root: str = KUBELET_ROOT
    restic_resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    restic_password: bytes = field(default=b"", repr=False)
    non_admin: bool = False

    @property
    def server_is_non_admin(self) -> bool:
        """Whether the server runs self-service itself, so that there is no other process for it."""
        return NON_ADMIN_FEATURE in self.features.split(",")

    @property
    def on_filesystem(self) -> bool:
        """Whether the location is a folder: it needs no credentials and takes no volume snapshots."""
        return self.provider == FILESYSTEM_PROVIDER
