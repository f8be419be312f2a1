"""The configuration files of a node's programs: containerd, CNI and the kubelet. Pure: text from values."""

import json
from dataclasses import dataclass
from pathlib import Path

import yaml

from hack.cluster.nodes.images import PAUSE
from hack.cluster.nodes.init import KUBELET

# Paths as the node's own processes see them (init.py): /var/lib and /run are the node's.
KUBELET_ROOT = "/var/lib/kubelet"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
ETC = "/var/lib/pinnace"
"""The folder of these files, of certificates and of the kubeconfig."""

CNI_DIRECTORIES = ("/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni")  # Debian, upstream, Fedora
CNI_PLUGINS = ("bridge", "host-local", "loopback")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """The values that differ between nodes."""

    name: str
    address: str
    pod_range: str
    cgroup: str
    cni_directory: Path

    def files(self) -> dict[str, str]:
        """Return the content of each file by its name in ETC."""
        return {
            "containerd.toml": self.containerd(),
            "kubelet.yaml": self.kubelet(),
            "cni/pods.conflist": self.cni(),
        }

    def kubelet_argv(self) -> list[str]:
        """Return the kubelet and its flags."""
        return [
            str(KUBELET),
            f"--config={ETC}/kubelet.yaml",
            f"--kubeconfig={ETC}/kubeconfig",
            f"--root-dir={KUBELET_ROOT}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
        ]

    def containerd(self) -> str:
        """Return containerd's configuration; the form of version 2 is read by 1.x and 2.x."""
        return f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
# /opt/containerd would be made on the machine; the others need devices that do not exist here.
disabled_plugins = [
    "io.containerd.internal.v1.opt",
    "io.containerd.snapshotter.v1.aufs",
    "io.containerd.snapshotter.v1.btrfs",
    "io.containerd.snapshotter.v1.devmapper",
    "io.containerd.snapshotter.v1.zfs",
]

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
# Without CAP_SYS_RESOURCE the score cannot be lowered, and runc would fail.
restrict_oom_score_adj = true
# Profiles would be loaded into the machine's kernel and stay there.
disable_apparmor = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{self.cni_directory}"
conf_dir = "{ETC}/cni"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
"""

    def cni(self) -> str:
        """Return the pods' network: a bridge in the node, addresses from the node's range, nothing else."""
        bridge = {
            "type": "bridge",
            "bridge": "pods",
            "isGateway": True,
            "isDefaultGateway": True,
            "ipMasq": False,  # the machine and the other nodes have routes to pods
            "ipam": {"type": "host-local", "ranges": [[{"subnet": self.pod_range}]]},
        }
        return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}, indent=2)

    def kubelet(self) -> str:
        """Return the kubelet's configuration; who may call it is as on a common node."""
        document = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "authentication": {"x509": {"clientCAFile": f"{ETC}/ca.crt"}},
            "tlsCertFile": f"{ETC}/kubelet-server.crt",
            "tlsPrivateKeyFile": f"{ETC}/kubelet-server.key",
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": [],
            # A full or busy machine must not end the pods of a test.
            "evictionHard": {},
            "imageGCHighThresholdPercent": 100,
            "oomScoreAdj": 0,
            # There is no name service; the machine's own would not answer.
            "resolvConf": "",
            "makeIPTablesUtilChains": False,
            "volumePluginDir": f"{KUBELET_ROOT}/volume-plugins",
            # Changed ConfigMaps and Secrets reach a pod's volume in seconds.
            "syncFrequency": "5s",
            "configMapAndSecretChangeDetectionStrategy": "Watch",
        }
        return yaml.safe_dump(document, sort_keys=False)
