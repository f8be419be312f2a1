"""Previews what a restore would do: its engine over a simulated cluster, with nothing written anywhere.

Built-in actions run as in a restore; what they would create is simulated too. Actions of plugins do not run,
as nothing keeps them from writing: each is a warning of the preview.
"""

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import msgspec

from pinnace.api.selection.filter_policies import NO_FILTER_POLICIES, FilterPolicies
from pinnace.api.values.error_texts import cause_of
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.archive.errors import ArchiveError
from pinnace.archive.eventlog import EventLog
from pinnace.archive.reader import ArchiveIndex
from pinnace.catalogue.records import BackupRecords
from pinnace.csi.restore import csi_restore_actions
from pinnace.csi.snapshots import FEATURE, SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PERSISTENT_VOLUME_CLAIMS
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.plugins.builtin.restore.actions import restore_actions
from pinnace.plugins.protocols import RestoreItemAction
from pinnace.plugins.registry import ActionRegistry
from pinnace.restore.cluster import ClusterAccess
from pinnace.restore.collaborators import RestoreCollaborators
from pinnace.restore.engine import RestoreEngine
from pinnace.restore.errors import RestoreFailed
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.outcomes import ItemOutcomes
from pinnace.restore.preview.cluster import SimulatedCluster
from pinnace.restore.preview.kept import KeptObjects
from pinnace.restore.preview.notes import RestoreNotes
from pinnace.restore.request import RestoreRequest, RestoreSettings
from pinnace.restore.results import Results
from pinnace.restore.selection.api_versions import FEATURE as ALL_VERSIONS
from pinnace.runs.activity import Activity


class BackupContents(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that was read from where it is stored.

    Attributes:
        tarball: the file.
    """

    backup: Backup
    tarball: Path
    records: BackupRecords = msgspec.field(default_factory=BackupRecords)


class PreviewSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a preview.

    Attributes:
        namespace: the server's, where settings of actions are.
        by_server: whether a server would restore, whose node agents restore the data of volumes.
        ask_server: whether the API server is asked about each object that would be created.
        plugin_actions: the names of the plugins' actions, which do not run.
        caveats: warnings that the results begin with.
        folder: an existing directory with room for the decompressed backup.
        activity: told how far the preview is.
    """

    log: EventLog
    folder: Path
    namespace: str
    features: Collection[str] = ()
    by_server: bool = True
    ask_server: bool = False
    modifiers: ResourceModifiers | None = None
    policies: FilterPolicies = NO_FILTER_POLICIES
    plugin_actions: Sequence[str] = ()
    activity: Activity = msgspec.field(default_factory=Activity)
    caveats: Sequence[str] = ()


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """The effects that a restore would have.

    Attributes:
        outcomes: what would become of each object.
        results: the warnings and errors that it would end with.
        namespaces, definitions: the names of the namespaces and definitions that it would create.
        notes: the volumes and hooks.
        asked, accepted: how many writes were sent as the API server's own dry run, and how many of them it
            accepted; 0 unless it is asked.
        not_asked: how many objects the API server could not be asked about, as their namespace or kind does
            not exist yet.
    """

    outcomes: ItemOutcomes
    results: Results
    namespaces: Sequence[str] = ()
    definitions: Sequence[str] = ()
    notes: RestoreNotes = msgspec.field(default_factory=RestoreNotes)
    asked: int = 0
    accepted: int = 0
    not_asked: int = 0


async def preview_restore(
    client: KubeClient, restore: Restore, contents: BackupContents, settings: PreviewSettings
) -> Preview:
    """Find out what a restore would do.

    Args:
        restore: valid and completed.

    Raises:
        RestoreFailed: it could not begin, or a temporary file could not be written.
        KubeError: the cluster cannot be asked.
    """
    with KeptObjects(settings.folder) as kept:
        cluster = SimulatedCluster(client, kept, ask_server=settings.ask_server)
        try:
            return await _preview(cluster, restore, contents, settings)
        except ExceptionGroup as failures:
            # A temporary file that cannot be written fails all items in work.
            cause = cause_of(failures)
            if not isinstance(cause, RestoreFailed):
                raise
            raise cause from None


async def _preview(
    cluster: SimulatedCluster, restore: Restore, contents: BackupContents, settings: PreviewSettings
) -> Preview:
    all_versions = ALL_VERSIONS in settings.features
    discovery = await cluster.discover(all_versions=all_versions)
    try:
        archive = await ArchiveIndex.open(
            contents.tarball, settings.folder, with_versions=all_versions, with_other_versions=True
        )
    except ArchiveError as error:
        # A restore does not fail as a whole either: it ends with this error.
        unread = Results()
        unread.errors.add_velero(Notice(Code.ARCHIVE_UNREADABLE, f"error reading backup contents: {error}"))
        return Preview(outcomes=ItemOutcomes(), results=unread)
    is_new = partial(cluster.creates, PERSISTENT_VOLUME_CLAIMS.group_resource)
    notes, outcomes = RestoreNotes(restore=restore, is_new=is_new), ItemOutcomes()
    engine = RestoreEngine(
        ClusterAccess(
            client=cluster,
            discovery=discovery,
            load_discovery=partial(cluster.discover, all_versions=all_versions),
            is_simulated=True,
        ),
        actions=_actions(cast(KubeClient, cluster), discovery, contents, settings),
        log=settings.log,
        progress=None,
        # Objects that are being deleted or not yet established are taken as they are: nothing waits for them.
        options=RestoreSettings(
            features=settings.features, terminating_timeout_seconds=0.0, resource_timeout_seconds=0.0
        ),
        collaborators=RestoreCollaborators(
            volume_restorer=notes,
            pod_volume_restorer=notes if settings.by_server else None,
            moved_data=notes if settings.by_server else None,
            exec_hooks=notes,
            existing_data=notes.note_existing,
        ),
    )
    request = RestoreRequest(
        restore=restore,
        backup=contents.backup,
        records=contents.records,
        modifiers=settings.modifiers,
        policies=settings.policies,
        activity=settings.activity,
        caveats=[
            *settings.caveats,
            *(
                f"the action {name} of a plugin was not run, as it can write: what it changes is not shown"
                for name in settings.plugin_actions
            ),
        ],
    )
    with archive:
        results = await engine.run(request, archive, outcomes)
    return Preview(
        outcomes=outcomes,
        results=results,
        namespaces=cluster.created(NAMESPACES.group_resource),
        definitions=cluster.created(CUSTOM_RESOURCE_DEFINITIONS.group_resource),
        notes=notes,
        asked=cluster.asked,
        accepted=cluster.accepted,
        not_asked=cluster.not_asked,
    )


def _actions(
    client: KubeClient, discovery: Discovery, contents: BackupContents, settings: PreviewSettings
) -> Sequence[RestoreItemAction]:
    pod_volumes = contents.records.pod_volumes
    builtin = restore_actions(client, discovery, settings.namespace, pod_volumes=pod_volumes)
    csi: Sequence[RestoreItemAction] = ()
    if FEATURE in settings.features and SnapshotKinds.served(discovery) is not None:
        csi = csi_restore_actions(client, discovery)
    return ActionRegistry(builtin_restore_actions=[*builtin, *csi]).restore_actions
