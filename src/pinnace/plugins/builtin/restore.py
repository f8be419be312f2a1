"""All built-in restore actions, in order of execution. (docs/spec: RST 15, 16)"""

from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import STORAGE_CLASSES
from pinnace.plugins.builtin.restore_accounts import ForgetAccountTokens, RenewTokenSecret
from pinnace.plugins.builtin.restore_config import ClusterReader
from pinnace.plugins.builtin.restore_crds import PreserveUnknownFields, SkipManagedAPIService
from pinnace.plugins.builtin.restore_init_hooks import AddInitContainers
from pinnace.plugins.builtin.restore_jobs import FreeJob
from pinnace.plugins.builtin.restore_pod_volumes import WaitForPodVolumes
from pinnace.plugins.builtin.restore_pods import AddClaimsOfPod, FreePod
from pinnace.plugins.builtin.restore_rbac import MapClusterRoleBinding, MapRoleBinding
from pinnace.plugins.builtin.restore_services import FreeService
from pinnace.plugins.builtin.restore_storage import AddVolumeOfClaim, ChangeSelectedNode, ChangeStorageClass
from pinnace.plugins.protocols import RestoreItemAction


def restore_actions(
    client: ClusterReader, discovery: Discovery, namespace: str, *, pod_volumes: bool = False
) -> list[RestoreItemAction]:
    """The actions, sorted by name.

    Args:
        client: of the cluster that is restored into.
        discovery: what that cluster serves.
        namespace: the server's, where the ConfigMaps of the actions are.
        pod_volumes: whether somebody fills the volumes of pods, for which these then wait.
    """
    storage_classes = discovery.preferred(STORAGE_CLASSES.group_resource) or STORAGE_CLASSES
    actions: list[RestoreItemAction] = [
        AddClaimsOfPod(),
        AddInitContainers(),
        AddVolumeOfClaim(),
        ChangeSelectedNode(client, namespace),
        ChangeStorageClass(client, namespace, storage_classes),
        ForgetAccountTokens(),
        FreeJob(),
        FreePod(),
        FreeService(),
        MapClusterRoleBinding(),
        MapRoleBinding(),
        PreserveUnknownFields(),
        RenewTokenSecret(),
        SkipManagedAPIService(),
        WaitForPodVolumes(client, namespace, filled=pod_volumes),
    ]
    return sorted(actions, key=lambda action: action.name)
