"""Volume snapshots of backups, restores and deletions, native and CSI. (BKP 10-11, RST 12, CTL 6)"""

from collections.abc import Collection, Container
from pathlib import Path
from typing import Final

from pinnace.api.velero.backup import Backup
from pinnace.api.velero.storage_location import SecretKeySelector
from pinnace.csi.backup import SnapshotClaim, csi_backup_actions
from pinnace.csi.movement.uploads import FollowUploads, MoveClaim
from pinnace.csi.objects import TakenSnapshots
from pinnace.csi.restore import csi_restore_actions
from pinnace.csi.snapshots import FEATURE, CSIError, SnapshotKinds, synced_content
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import AlreadyExists, BadRequest, Invalid
from pinnace.plugins.asynchronous import AnyBackupItemAction
from pinnace.plugins.kinds import PluginId
from pinnace.plugins.protocols import RestoreItemAction
from pinnace.plugins.registry import ActionRegistry
from pinnace.runs.context import RunContext
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.credentials_store import CredentialsStore, save_credential
from pinnace.volumes.disks import with_disks
from pinnace.volumes.native.fenced import fenced
from pinnace.volumes.native.snapshotters import Snapshotters
from pinnace.volumes.node_agents import NodeAgents
from pinnace.volumes.policies import VolumePolicies
from pinnace.volumes.secrets import read_secret

AGENTS_FRESH_SECONDS: Final = 10.0
"""How long a backup believes that a node agent is ready, or that none is: it asks for each claim."""


def snapshotters_of(context: RunContext) -> Snapshotters:
    """The providers of native snapshots for one run."""
    client, namespace = context.client, context.namespace
    files = CredentialsStore(context.workdir / "credentials", namespace)

    async def save(selector: SecretKeySelector) -> Path:
        path = await save_credential(
            selector, files, lambda name: read_secret(client, name, namespace), namespace=namespace
        )
        assert path is not None, "a selector with a name"
        return path

    # Providers of the clouds come before those of plugins.
    find = fenced(with_disks(context.plugins.volume_snapshotter), client.fence)
    return Snapshotters(client, namespace, find, credentials=save)


def taken_snapshots(context: RunContext, backup: Backup) -> TakenSnapshots | None:
    """The record of the CSI snapshots of a backup; None where the feature is off, or has no kinds."""
    kinds = SnapshotKinds.served(context.discovery)
    if FEATURE not in context.features or kinds is None:
        return None
    return TakenSnapshots(context.client, kinds, backup)


def csi_backup_actions_of(
    context: RunContext, taken: TakenSnapshots | None, *, saves_files: bool, policies: VolumePolicies
) -> list[AnyBackupItemAction]:
    """The built-in actions with the feature on, except those that a plugin brings itself."""
    if FEATURE not in context.features:
        return []
    brought = {action.name for action in context.plugins.backup_actions}
    actions = csi_backup_actions(
        context.client, context.discovery, taken, saves_files=saves_files, policies=policies
    )
    found: list[AnyBackupItemAction] = []
    for action in actions:
        if isinstance(action, SnapshotClaim) and taken is not None:
            following = FollowUploads(context.client, context.namespace)
            agents = NodeAgents(context.client, context.namespace, fresh_seconds=AGENTS_FRESH_SECONDS)
            found.append(MoveClaim(context.client, action, taken, following, agents))
        else:
            found.append(action)
    return [action for action in found if action.name not in brought]


def csi_restore_actions_of(
    context: RunContext, *, recorded: Container[str] | None
) -> list[RestoreItemAction]:
    """As `csi_backup_actions_of`, for restores; `recorded` as in `csi_restore_actions`.

    Without the kinds there are none: the restore names each claim whose data is in a snapshot.
    """
    if FEATURE not in context.features or SnapshotKinds.served(context.discovery) is None:
        return []
    brought = {action.name for action in context.plugins.restore_actions}
    actions = csi_restore_actions(context.client, context.discovery, recorded=recorded)
    return [action for action in actions if action.name not in brought]


def csi_plugins(client: KubeClient, discovery: Discovery, features: Collection[str]) -> list[PluginId]:
    """The built-in actions for CSI snapshots, for lists of plugins; none with the feature off."""
    if FEATURE not in features or (kinds := SnapshotKinds.served(discovery)) is None:
        return []
    taken = TakenSnapshots(client, kinds, Backup())
    backups = csi_backup_actions(client, discovery, taken, saves_files=False, policies=VolumePolicies(client))
    restores = csi_restore_actions(client, discovery)
    return ActionRegistry(builtin_backup_actions=backups, builtin_restore_actions=restores).ids


async def create_contents(client: KubeClient, store: BackupStore, backup: str) -> list[str]:
    """Make the CSI snapshots of a backup, which a location holds, known to this cluster. (docs/spec: CTL 7)

    Returns:
        Why some are left out for good: they are not what they should be, or the API server refused them.

    Raises:
        StorageError, KubeError, CSIError: they cannot be read or created now.
    """
    stored = await store.read_csi_volume_snapshot_contents(backup)
    if not stored:
        return []
    kinds, problems = SnapshotKinds.needed(await Discovery.load(client)), []
    for content in stored:
        try:
            await client.create(kinds.contents, synced_content(kinds, content, backup))
        except AlreadyExists:
            continue
        except (CSIError, Invalid, BadRequest) as error:
            problems.append(str(error))
    return problems
