"""The built-in actions of backups. (docs/spec: BKP 8.3)"""

from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.plugins.builtin.backup.crd_remap_version import CRDRemapVersionAction
from pinnace.plugins.builtin.backup.pod import PodAction
from pinnace.plugins.builtin.backup.pv import PersistentVolumeAction
from pinnace.plugins.builtin.backup.service_account import ServiceAccountAction
from pinnace.plugins.protocols import BackupItemAction


def backup_actions(client: KubeClient, discovery: Discovery) -> list[BackupItemAction]:
    """New instances for one backup, sorted by name: an action may remember what it read in its backup."""
    actions: list[BackupItemAction] = [
        CRDRemapVersionAction(client, discovery),
        PodAction(),
        PersistentVolumeAction(),
        ServiceAccountAction(client, discovery),
    ]
    return sorted(actions, key=lambda action: action.name)
