"""One restore: what was asked for, and the table of the parts that work on its items."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from pinnace.api import labels
from pinnace.api.nonadmin.restore_limits import Limit
from pinnace.api.restore_outcomes import Outcome
from pinnace.api.velero.restore import ExistingResourcePolicy, Restore
from pinnace.archive.eventlog import EventLog
from pinnace.archive.reader import ArchiveIndex
from pinnace.csi.snapshots import FEATURE as CSI_FEATURE
from pinnace.csi.snapshots import SNAPSHOTS, SnapshotKinds
from pinnace.hooks.restore_selection import ExecHookFinder
from pinnace.kube.resources import NAMESPACES
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.cluster import ClusterAccess, TargetCluster
from pinnace.restore.collaborators import RestoreCollaborators
from pinnace.restore.definitions import Definitions
from pinnace.restore.followups import PodFollowUps
from pinnace.restore.item.additional import AdditionalItems
from pinnace.restore.item.admission import Admission
from pinnace.restore.item.applying import Applier, ApplyRules
from pinnace.restore.item.claims import Claims
from pinnace.restore.item.ephemeral import EphemeralClaims
from pinnace.restore.item.known_kinds import KnownKinds
from pinnace.restore.item.modifying import Modifying
from pinnace.restore.item.namespaces import NamespaceKeeper
from pinnace.restore.item.old_names import OldNames
from pinnace.restore.item.other_versions import OtherVersions
from pinnace.restore.item.pods_of_jobs import JOBS, PodsOfJobs
from pinnace.restore.item.quotas import Quotas
from pinnace.restore.item.storage_classes import StorageClasses
from pinnace.restore.item.writing import ClusterWriter
from pinnace.restore.outcomes import ItemOutcomes
from pinnace.restore.request import RestoreRequest, RestoreSettings
from pinnace.restore.selection.reading import ItemKey, ItemReader
from pinnace.restore.volumes.in_place import ExistingClaims
from pinnace.restore.volumes.moved_data import MovedData
from pinnace.restore.volumes.patches import VolumePatches
from pinnace.restore.volumes.preparing import SavedVolumes, VolumePreparer
from pinnace.restore.volumes.records import RestoredVolumes
from pinnace.restore.volumes.saved_data import Abilities, VolumeDataKeeper

_NAMESPACE_KIND: Final = "v1/Namespace"


@dataclass(eq=False, kw_only=True)
class RestoreRun:
    """One run of the engine. Made once, passed to each step.

    Each part below is made when it is first needed, from the request and the parts that it names.

    Attributes:
        tasks: outlives the restore of every item; leaving it waits for all follow-ups.
    """

    request: RestoreRequest
    archive: ArchiveIndex
    cluster: ClusterAccess
    settings: RestoreSettings
    collaborators: RestoreCollaborators
    kinds: KnownKinds
    reader: ItemReader
    hook_finder: ExecHookFinder
    outcomes: ItemOutcomes
    log: EventLog
    tasks: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)
    claims: Claims = field(default_factory=Claims)

    @cached_property
    def restore(self) -> Restore:
        """The Restore."""
        return self.request.restore

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """The labels of every object of this restore."""
        return self.request.labels

    @cached_property
    def is_trial(self) -> bool:
        """Whether a verification restores the backup beside its original."""
        return labels.VERIFICATION in self.restore.metadata.labels

    @cached_property
    def target(self) -> TargetCluster:
        """The cluster, with the limits of this restore."""
        return TargetCluster(
            client=self.cluster.client,
            log=self.log,
            clock=self.cluster.clock,
            terminating_timeout_seconds=self.settings.terminating_timeout_seconds,
            activity=self.request.activity,
            journal=self.request.journal,
        )

    @cached_property
    def writer(self) -> ClusterWriter:
        """Changes the cluster."""
        return ClusterWriter(self.target)

    @cached_property
    def admission(self) -> Admission:
        """Leaves out kinds and items."""
        has_moved_data = bool(self.volume_data.moved)
        return Admission(kinds=self.kinds, limits=self.request.limits, has_moved_data=has_moved_data)

    @cached_property
    def namespaces(self) -> NamespaceKeeper:
        """Creates the target namespaces."""
        return NamespaceKeeper(
            self.target,
            writer=self.writer,
            archive=self.archive,
            modifying=self.modifying,
            may_create=Limit.NAMESPACE not in self.request.kept_limits,
            on_created=self._namespace_created,
        )

    def _namespace_created(self, name: str) -> None:
        key = ItemKey(NAMESPACES.group_resource, "", name)
        self.claims.add(key)
        self.outcomes.record(_NAMESPACE_KIND, key, Outcome.CREATED)

    @cached_property
    def additional(self) -> AdditionalItems:
        """Waits for the items that actions name."""
        seconds = self.settings.resource_timeout_seconds
        return AdditionalItems(target=self.target, restore=self.restore, timeout_seconds=seconds)

    @cached_property
    def modifying(self) -> Modifying:
        """Applies the resource modifiers."""
        return Modifying(self.request.modifiers, self.log)

    @cached_property
    def versions(self) -> OtherVersions:
        """Finds the other versions of refused objects."""
        return OtherVersions(self.cluster.client, self.reader)

    @cached_property
    def applier(self) -> Applier:
        """Creates prepared items, or acts on those that exist."""
        spec = self.restore.spec
        rules = ApplyRules(
            labels=self.labels,
            policy=ExistingResourcePolicy(spec.existing_resource_policy or "none"),
            only_namespaced=Limit.NAMESPACE in self.request.kept_limits,
            namespaces=spec.namespace_mapping,
        )
        return Applier(self.target, self.writer, rules)

    @cached_property
    def old_names(self) -> OldNames:
        """Finds old names of mapped namespaces; those of a trial are meant."""
        return OldNames({} if self.is_trial else self.restore.spec.namespace_mapping, self.log)

    @cached_property
    def quotas(self) -> Quotas:
        """Finds exceeded quotas."""
        return Quotas(self.target, is_simulated=self.cluster.is_simulated)

    @cached_property
    def storage_classes(self) -> StorageClasses:
        """Finds claims without their StorageClass."""
        return StorageClasses(self.target)

    @cached_property
    def definitions(self) -> Definitions:
        """Waits for definitions."""
        seconds, activity = self.settings.resource_timeout_seconds, self.request.activity
        return Definitions(self.cluster.client, self.cluster.clock, seconds, activity)

    async def definitions_settled(self) -> None:
        """Wait until the definitions created so far are ready; late ones are checked again at the end."""
        message = "Custom resource definition is not ready to use, continuing with other kinds"
        for late in await self.definitions.settled():
            self.log.warning(Notice(Code.DEFINITION_NOT_READY, message), definition=late)

    @cached_property
    def pods(self) -> PodFollowUps:
        """Fills the volumes of pods and runs their hooks."""
        return PodFollowUps(
            tasks=self.tasks,
            log=self.log,
            volumes=self.request.records.pod_volumes,
            hook_finder=self.hook_finder,
            collaborators=self.collaborators,
            activity=self.request.activity,
        )

    @cached_property
    def pods_of_jobs(self) -> PodsOfJobs:
        """Finds the Jobs of pods."""
        return PodsOfJobs(self.reader, self._may_restore_jobs)

    def _may_restore_jobs(self) -> bool:
        is_served = self.kinds.discovery.preferred(JOBS) is not None
        return is_served and self.admission.of_kind(JOBS, is_namespaced=True) is None

    @cached_property
    def ephemeral_claims(self) -> EphemeralClaims:
        """Gives claims to their pods."""
        return EphemeralClaims(client=self.cluster.client, writer=self.writer, labels=self.labels)

    @cached_property
    def volume_data(self) -> VolumeDataKeeper:
        """Keeps claims and pods from starting without their data."""
        is_served = SnapshotKinds.served(self.cluster.discovery) is not None
        csi_is_on = CSI_FEATURE in self.settings.features
        can = Abilities(
            pod_volumes=self.collaborators.pod_volume_restorer is not None,
            csi=(csi_is_on and is_served) or self.kinds.actions.handles(SNAPSHOTS),
            csi_is_on=csi_is_on,
            moved_data=self.collaborators.moved_data is not None,
        )
        return VolumeDataKeeper.of(self.request.records, self.archive, self.restore, can)

    @cached_property
    def existing_claims(self) -> ExistingClaims:
        """Decides which claims that exist get data."""
        return ExistingClaims(
            client=self.cluster.client,
            restore=self.restore,
            moved=self.moved_data,
            labels=self.labels,
            pod_volumes=self.request.records.pod_volumes,
            elsewhere=self.volume_data.why_not_in_place(),
            noted=self.collaborators.existing_data,
        )

    @cached_property
    def volumes(self) -> VolumePreparer:
        """Prepares volumes."""
        return VolumePreparer(
            self.target,
            restore=self.restore,
            backup=self.request.backup,
            saved=SavedVolumes(
                snapshots=self.request.records.native,
                pod_volumes=self.request.records.pod_volumes,
                claims_with_data=self.volume_data.claims_with_new_volumes,
            ),
            restorer=self.collaborators.volume_restorer,
        )

    @cached_property
    def moved_data(self) -> MovedData:
        """Starts the restore of moved data."""
        return MovedData(
            volumes=self.volume_data.moved,
            starter=self.collaborators.moved_data,
            location=self.request.backup.spec.storage_location,
            started=self.request.started,
            records=self.volume_records,
        )

    @cached_property
    def volume_records(self) -> RestoredVolumes:
        """Records the volumes that are filled."""
        can_fill_pods = self.collaborators.pod_volume_restorer is not None
        return RestoredVolumes(
            made=self.volumes.made,
            pod_volumes=self.request.records.pod_volumes if can_fill_pods else None,
            infos=self.request.records.infos,
            found=self.outcomes.volumes,
        )

    @cached_property
    def volume_patches(self) -> VolumePatches:
        """Gives settings to new volumes, which are cluster-scoped: for no tenant, and in no dry run."""
        is_wanted = Limit.VOLUMES not in self.request.kept_limits and not self.cluster.is_simulated
        return VolumePatches(self.cluster.client, self.request.records.infos if is_wanted else ())
