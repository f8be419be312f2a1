"""Previews what a backup would hold: its engine with nothing written, no hook run and no snapshot taken.

Built-in actions, which only read, run as in a backup. Actions of plugins and those for CSI snapshots do not,
as they can write: each is a warning of the preview.
"""

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from pinnace.api.resource_policies import ResourcePolicies
from pinnace.api.velero.backup import Backup
from pinnace.archive.runlog import RunLog
from pinnace.backup.collaborators import BackupCollaborators
from pinnace.backup.engine import BackupEngine
from pinnace.backup.preview import BackupNotes, Counted, CountingWriter
from pinnace.csi.snapshots import FEATURE
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.plugins.builtin.backup.actions import backup_actions
from pinnace.plugins.registry import ActionRegistry
from pinnace.runs.activity import Activity
from pinnace.runs.progress import ProgressSink
from pinnace.volumes.policies import VolumePolicies


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupPreview:
    """The content and the effects that a backup would have.

    Attributes:
        counts: the items by group-resource and namespace.
        log: the lines of the log of warnings and errors, in logfmt.
        errors, warnings: how many the backup would end with.
        left_out: what filter policies leave out, a sentence for each policy.
    """

    counts: Mapping[tuple[str, str], Counted]
    notes: BackupNotes
    log: str
    errors: int
    warnings: int
    left_out: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupPreviewSettings:
    """The settings of a preview.

    Attributes:
        saves_pod_volumes: whether the backup could save pod volumes; without a server none can.
        plugin_actions: the names of the plugins' actions, which do not run.
        activity, progress: told how far the preview is.
    """

    features: Collection[str] = ()
    saves_pod_volumes: bool = False
    plugin_actions: Sequence[str] = ()
    policies: ResourcePolicies | None = None
    activity: Activity = field(default_factory=Activity)
    progress: ProgressSink | None = None


async def preview_backup(
    client: KubeClient, discovery: Discovery, backup: Backup, settings: BackupPreviewSettings
) -> BackupPreview:
    """Find out what a backup would hold.

    Args:
        backup: prepared and valid.

    Raises:
        FatalBackupError: it would fail as a whole.
        KubeError: the cluster cannot be asked.
    """
    lines, notes, writer = io.StringIO(), BackupNotes(), CountingWriter()
    log = RunLog(None, fields={}, level="warning", echo=lines)
    for name in settings.plugin_actions:
        log.warning(
            Notice(
                Code.ACTION_UNUSABLE,
                f"The action {name} of a plugin was not run: what it changes is not shown",
            )
        )
    if FEATURE in settings.features:
        log.warning(
            Notice(
                Code.SNAPSHOT_NOT_TAKEN,
                "CSI snapshots are not taken, so volumes that they would save are not shown",
            )
        )
    engine = BackupEngine(
        client,
        discovery,
        actions=ActionRegistry(builtin_backup_actions=backup_actions(client, discovery)).backup_actions,
        collaborators=BackupCollaborators(
            hooks=notes,
            pod_volumes=notes if settings.saves_pod_volumes else None,
            snapshots=notes if backup.spec.volume_snapshot_locations else None,
            policies=VolumePolicies(client, settings.policies),
        ),
        activity=settings.activity,
    )
    result = await engine.run(backup, writer, log, progress=settings.progress)
    return BackupPreview(
        counts=writer.counts,
        notes=notes,
        log=lines.getvalue(),
        errors=log.errors,
        warnings=log.warnings,
        left_out=result.left_out,
    )
