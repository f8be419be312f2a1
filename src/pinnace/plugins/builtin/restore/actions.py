"""All built-in restore actions, in order of execution. (docs/spec: RST 15, 16)"""

from pinnace.kube.discovery import Discovery
from pinnace.kube.reading import ObjectSource
from pinnace.kube.resources import STORAGE_CLASSES
from pinnace.plugins.builtin.restore.accounts import ForgetAccountTokens, RenewTokenSecret
from pinnace.plugins.builtin.restore.crds import PreserveUnknownFields, SkipManagedAPIService
from pinnace.plugins.builtin.restore.images import ChangeImageName
from pinnace.plugins.builtin.restore.init_hooks import AddInitContainers
from pinnace.plugins.builtin.restore.jobs import FreeJob
from pinnace.plugins.builtin.restore.pod_volumes import PodSnapshots, WaitForPodVolumes
from pinnace.plugins.builtin.restore.pods import AddClaimsOfPod, FreePod
from pinnace.plugins.builtin.restore.rbac import MapClusterRoleBinding, MapRoleBinding
from pinnace.plugins.builtin.restore.services import FreeService
from pinnace.plugins.builtin.restore.storage import AddVolumeOfClaim, ChangeSelectedNode, ChangeStorageClass
from pinnace.plugins.builtin.restore.webhooks import DeclareNoSideEffects
from pinnace.plugins.protocols import RestoreItemAction


def restore_actions(
    client: ObjectSource,
    discovery: Discovery,
    namespace: str,
    *,
    pod_volumes: PodSnapshots | None = None,
) -> list[RestoreItemAction]:
    """The actions, sorted by name.

    Args:
        client: of the cluster that is restored into.
        discovery: what that cluster serves.
        namespace: the server's, where the ConfigMaps of the actions are.
        pod_volumes: those of the restore's backup; pods wait for their data. None where no node agents fill
            volumes.
    """
    storage_classes = discovery.preferred(STORAGE_CLASSES.group_resource) or STORAGE_CLASSES
    actions: list[RestoreItemAction] = [
        AddClaimsOfPod(),
        AddInitContainers(),
        AddVolumeOfClaim(),
        ChangeImageName(client, namespace),
        ChangeSelectedNode(client, namespace),
        ChangeStorageClass(client, namespace, storage_classes),
        DeclareNoSideEffects(),
        ForgetAccountTokens(),
        FreeJob(),
        FreePod(),
        FreeService(),
        MapClusterRoleBinding(),
        MapRoleBinding(),
        PreserveUnknownFields(),
        RenewTokenSecret(),
        SkipManagedAPIService(),
        WaitForPodVolumes(client, namespace, pod_volumes),
    ]
    return sorted(actions, key=lambda action: action.name)
