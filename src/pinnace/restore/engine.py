"""The restore engine: creates the objects of an archive in a cluster, in order. (docs/spec: RST 5-9, 23)

Kinds are restored one after the other, as later kinds depend on earlier ones. Within a kind many items are
created at once; the client limits the requests in flight. Memory does not grow with the archive: an item is
read from the spool just before it is restored, and dropped once it is created.
"""

import asyncio
from collections.abc import Callable, Container, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from pinnace.aio.timing import poll
from pinnace.api import labels
from pinnace.api.chosen_objects import decode_chosen
from pinnace.api.nonadmin.exclusions import GUARDED_KINDS
from pinnace.api.restore_outcomes import Outcome
from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.velero.restore import ExistingResourcePolicy
from pinnace.archive.errors import MissingItem
from pinnace.archive.eventlog import EventLog
from pinnace.archive.reader import ArchiveIndex
from pinnace.catalogue.pod_volumes import SavedPodVolumes
from pinnace.csi.snapshots import FEATURE as CSI_FEATURE
from pinnace.csi.snapshots import SNAPSHOTS as CSI_SNAPSHOTS
from pinnace.csi.snapshots import SnapshotKinds
from pinnace.hooks.errors import InvalidHooks
from pinnace.hooks.restore_selection import ExecHookFinder
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of
from pinnace.plugins.protocols import RestoreItemAction
from pinnace.restore.actions import RestoreActions
from pinnace.restore.definitions import Definitions
from pinnace.restore.errors import ItemError, SetupError
from pinnace.restore.followups import FollowUps, PodCollaborators
from pinnace.restore.item.additional import AdditionalItems
from pinnace.restore.item.applying import Applier, ApplyRules
from pinnace.restore.item.claims import Claims
from pinnace.restore.item.ephemeral import EphemeralClaims
from pinnace.restore.item.life import ItemParts, ItemRestorer, ItemRules, KnownKinds, kind_of
from pinnace.restore.item.modifying import Modifying
from pinnace.restore.item.namespaces import NamespaceKeeper
from pinnace.restore.item.old_names import OldNames
from pinnace.restore.item.quotas import Quotas
from pinnace.restore.item.statuses import StatusFilter
from pinnace.restore.item.storage_classes import StorageClasses
from pinnace.restore.item.writing import ClusterWriter
from pinnace.restore.modifiers.idle import BackedUp
from pinnace.restore.outcomes import ItemOutcomes
from pinnace.restore.ports import (
    TargetCluster,
)
from pinnace.restore.progress import PROGRESS_FAILURE, PassCounts
from pinnace.restore.request import ClusterAccess, Helpers, RestoreRequest, RestoreSettings
from pinnace.restore.results import Results, log_results
from pinnace.restore.selection.chosen import choose, meant_instead
from pinnace.restore.selection.collect import (
    ItemSelector,
    RestoreFilter,
    SelectedNamespace,
    SelectedResource,
)
from pinnace.restore.selection.left_out import (
    ArchivedKinds,
    canonical_names,
    empty_selection,
    filter_problems,
    not_served,
    withheld,
)
from pinnace.restore.selection.order import CRDS, last_kinds, main_pass_order
from pinnace.restore.selection.reading import ItemKey, ItemReader, ItemRef, decode
from pinnace.restore.selection.versions import chosen_directories
from pinnace.restore.volumes.moved_data import MovedData
from pinnace.restore.volumes.patches import VolumePatches
from pinnace.restore.volumes.preparing import SavedVolumes, VolumePreparer
from pinnace.restore.volumes.records import RestoredVolumes
from pinnace.restore.volumes.saved_data import Abilities, VolumeDataKeeper
from pinnace.runs.progress import ProgressReporter, ProgressSink

DEFINITIONS: Final = CUSTOM_RESOURCE_DEFINITIONS.group_resource
_ALL_KINDS: Final = "everything but definitions"
"""The name of all other kinds in the activity until they are selected."""
_DISCOVERY_LAG_SECONDS: Final = 10.0
"""A server can call a definition established a moment before its discovery shows the kind."""


class _Run(msgspec.Struct, kw_only=True):
    """The state of one restore."""

    request: RestoreRequest
    archive: ArchiveIndex
    reader: ItemReader
    items: ItemRestorer
    modifying: Modifying
    old_names: OldNames
    quotas: Quotas
    follow_ups: FollowUps
    claims: Claims
    volume_patches: VolumePatches
    outcomes: ItemOutcomes
    reporter: ProgressReporter
    progress: PassCounts = msgspec.field(default_factory=PassCounts)
    results: Results = msgspec.field(default_factory=Results)
    handled: set[str] = msgspec.field(default_factory=set)
    selected: int = 0
    not_served: list[SelectedResource] = msgspec.field(default_factory=list)
    """Kinds with selected items that the cluster does not serve; tried again after the others."""
    held_back: list[SelectedResource] = msgspec.field(default_factory=list)
    """Kinds that come last, also after those that are tried again: webhooks would refuse their objects."""


class RestoreEngine:
    """Restores archives into one cluster.

    Args:
        actions: in the order they are to run.
    """

    def __init__(
        self,
        cluster: ClusterAccess,
        *,
        actions: Sequence[RestoreItemAction],
        log: EventLog,
        progress: ProgressSink | None,
        options: RestoreSettings | None = None,
        helpers: Helpers | None = None,
    ) -> None:
        self._client = cluster.client
        self._discovery = cluster.discovery
        self._load_discovery = cluster.load_discovery
        self._actions = actions
        self._log = log
        self._progress_sink = progress
        self._options = options or RestoreSettings()
        self._helpers = helpers or Helpers()
        self._timer = cluster.timer
        self._target = TargetCluster(
            client=cluster.client,
            log=log,
            timer=cluster.timer,
            terminating_timeout_seconds=self._options.terminating_timeout_seconds,
        )
        self._writer = ClusterWriter(self._target)
        self._is_simulated = cluster.is_simulated

    async def run(
        self, request: RestoreRequest, archive: ArchiveIndex, outcomes: ItemOutcomes | None = None
    ) -> Results:
        """Restore the selected items, wait for all follow-ups, and return the warnings and errors.

        Args:
            outcomes: filled with the outcome of each object.

        Failures are not raised but returned. Cancellation leaves the objects that were created; the same
        restore can be run again.
        """
        try:
            begun = await self._set_up(request, archive)
        except SetupError as error:
            results = Results()
            results.errors.add_velero(error.notice)
            log_results(self._log, results)
            return results
        async with asyncio.TaskGroup() as background:
            run = self._new_run(request, archive, begun, background, outcomes or ItemOutcomes())
            caveats = Results()
            for caveat in request.caveats:
                caveats.warnings.add_velero(Notice(Code.SOURCE_DOUBTFUL, caveat))
            self._report(run, caveats)
            request.activity.plan([_ALL_KINDS])
            async with run.reporter:
                await self._restore_definitions(run)
                await self._restore_everything(run)
                await self._restore_late_kinds(run)
                await self._restore_last_kinds(run)
                await self._report_withheld(run)
                self._report_selection(run)
                self._report_idle_rules(run)
                self._report_old_names(run)
            await run.reporter.finish(len(run.claims))
            request.activity.collected = len(run.claims)
        self._report(run, run.follow_ups.pod_results())
        self._report(run, await run.quotas.exceeded())
        patched, looked = Results(), await run.volume_patches.look()
        for namespace, problem in looked.problems:
            patched.errors.add(namespace, Notice(Code.VOLUME_NOT_PATCHED, problem))
        self._report(run, patched)
        lost = run.follow_ups.claims_without_data()  # their pods may keep them unbound for ever
        unbound = [each.wanted for each in looked.unbound]
        run.outcomes.unpatched += [each for each in unbound if (each.namespace, each.name) not in lost]
        return run.results

    async def _set_up(self, request: RestoreRequest, archive: ArchiveIndex) -> "_Begun":
        spec = request.restore.spec
        filters = RestoreFilter.from_spec(spec, canonical_names(self._discovery, archive.resources))
        actions = await RestoreActions.load(self._actions, self._discovery.canonical)
        try:
            hook_finder = ExecHookFinder(spec.hooks)
        except InvalidHooks as error:
            raise SetupError(Notice(Code.HOOK_INVALID, str(error))) from error
        directories = await chosen_directories(
            self._client,
            self._discovery,
            archive,
            features=self._options.features,
            format_version=request.backup.status.format_version,
            namespace=request.restore.metadata.namespace,
        )
        reader = ItemReader(archive, directories)
        kinds = KnownKinds(
            discovery=self._discovery,
            filters=replace(filters, objects=_chosen(request, archive, reader, self._discovery)),
            actions=actions,
            statuses=_statuses(request, self._discovery.canonical),
        )
        return _Begun(kinds=kinds, reader=reader, hook_finder=hook_finder)

    def _new_run(
        self,
        request: RestoreRequest,
        archive: ArchiveIndex,
        begun: "_Begun",
        background: asyncio.TaskGroup,
        outcomes: ItemOutcomes,
    ) -> _Run:
        claims, kinds, reader = Claims(), begun.kinds, begun.reader
        pod_volumes = request.records.pod_volumes
        served = SnapshotKinds.served(self._discovery) is not None
        csi = (CSI_FEATURE in self._options.features and served) or kinds.actions.handles(CSI_SNAPSHOTS)
        volume_data = self._new_volume_data(request, archive, csi=csi)
        is_administrators = request.trusted and request.rights is None
        volume_patches = VolumePatches(
            self._client,
            request.records.infos if is_administrators and not self._is_simulated else (),
        )
        follow_ups = FollowUps(
            definitions=Definitions(
                self._client, self._timer, self._options.resource_timeout_seconds, request.activity
            ),
            tasks=background,
            log=self._log,
            volume_patches=volume_patches,
            pods=PodCollaborators(
                volumes=pod_volumes,
                volume_restorer=self._helpers.pod_volume_restorer,
                hook_finder=begun.hook_finder,
                exec_hooks=self._helpers.exec_hooks,
                activity=request.activity,
            ),
        )

        def namespace_created(name: str) -> None:
            key = ItemKey(NAMESPACES.group_resource, "", name)
            claims.add(key)
            outcomes.record("v1/Namespace", key, Outcome.CREATED)

        modifying = Modifying(request.modifiers, self._log)
        mapping = request.restore.spec.namespace_mapping
        is_trial = labels.VERIFICATION in request.restore.metadata.labels
        old_names = OldNames({} if is_trial else mapping, self._log)
        quotas = Quotas(self._target, is_simulated=self._is_simulated)
        apply_rules = ApplyRules(
            labels=request.labels,
            policy=ExistingResourcePolicy(request.restore.spec.existing_resource_policy or "none"),
            only_namespaced=request.rights is not None,
            namespaces=mapping,
        )
        volumes = self._new_volumes(request, pod_volumes, volume_data)
        records = RestoredVolumes(
            made=volumes.made,
            pod_volumes=pod_volumes if self._helpers.pod_volume_restorer is not None else None,
            infos=request.records.infos,
            found=outcomes.volumes,
        )
        parts = ItemParts(
            reader=reader,
            claims=claims,
            outcomes=outcomes,
            applier=Applier(self._target, self._writer, apply_rules),
            namespaces=NamespaceKeeper(
                self._target,
                writer=self._writer,
                archive=archive,
                modifying=modifying,
                may_create=is_administrators,
                on_created=namespace_created,
            ),
            modifying=modifying,
            volumes=volumes,
            volume_records=records,
            volume_data=volume_data,
            ephemeral_claims=EphemeralClaims(client=self._client, writer=self._writer, labels=request.labels),
            follow_ups=follow_ups,
            moved_data=MovedData(
                volumes=volume_data.moved,
                starter=self._helpers.moved_data,
                location=request.backup.spec.storage_location,
                started=request.started,
                records=records,
            ),
            started=request.started,
            additional=AdditionalItems(
                target=self._target,
                restore=request.restore,
                timeout_seconds=self._options.resource_timeout_seconds,
            ),
            old_names=old_names,
            quotas=quotas,
            storage_classes=StorageClasses(self._target),
        )
        rules = ItemRules(
            restore=request.restore,
            labels=request.labels,
            rights=request.rights,
        )
        items = ItemRestorer(self._target, rules=rules, kinds=kinds, parts=parts)
        return _Run(
            request=request,
            archive=archive,
            reader=reader,
            items=items,
            modifying=modifying,
            old_names=old_names,
            quotas=quotas,
            follow_ups=follow_ups,
            claims=claims,
            volume_patches=volume_patches,
            outcomes=outcomes,
            reporter=ProgressReporter(
                self._progress_sink,
                request.activity,
                log=self._log,
                failure=PROGRESS_FAILURE,
                seconds=self._timer.monotonic,
            ),
        )

    def _new_volume_data(
        self, request: RestoreRequest, archive: ArchiveIndex, *, csi: bool
    ) -> VolumeDataKeeper:
        can = Abilities(
            pod_volumes=self._helpers.pod_volume_restorer is not None,
            csi=csi,
            csi_is_on=CSI_FEATURE in self._options.features,
            moved_data=self._helpers.moved_data is not None,
        )
        return VolumeDataKeeper.of(request.records, archive, request.restore, can)

    def _new_volumes(
        self, request: RestoreRequest, pod_volumes: SavedPodVolumes, volume_data: VolumeDataKeeper
    ) -> VolumePreparer:
        return VolumePreparer(
            self._target,
            restore=request.restore,
            backup=request.backup,
            saved=SavedVolumes(
                snapshots=request.records.native,
                pod_volumes=pod_volumes,
                claims_with_data=volume_data.claims_with_new_volumes,
            ),
            restorer=self._helpers.volume_restorer,
        )

    async def _restore_definitions(self, run: _Run) -> None:
        """The first pass: definitions of custom resources, followed by a new discovery.

        The filters of a restore of one namespace do not select definitions: those that its objects need are
        taken along, as volumes are with their claims. (docs/adr/087)
        """
        needed = await self._needed_definitions(run)
        is_any_selected = await self._restore_pass(run, [CRDS])
        filters = run.items.kinds.filters
        missing = [name for name in needed if _definition_key(name) not in run.claims]
        if missing and filters.admits_cluster_scoped and filters.resources.matches(DEFINITIONS):
            self._log.info("Restoring definitions that objects need", definitions=", ".join(missing))
            taken = SelectedResource(DEFINITIONS, (SelectedNamespace("", "", missing),))
            await self._restore_selected(run, [taken])
            is_any_selected = True
        if is_any_selected:
            await self._refresh_discovery(run)

    async def _needed_definitions(self, run: _Run) -> list[str]:
        """The definitions in the backup whose kinds have selected items and are not served."""
        if run.request.rights is not None or not run.request.trusted:
            return []
        discovery = run.items.kinds.discovery
        kinds = [name for name in run.archive.names(DEFINITIONS, "") if discovery.preferred(name) is None]
        if not kinds:
            return []
        selected = await self._collector(run, handled=set()).collect(kinds)
        return [resource.group_resource for resource in selected]

    def _collector(self, run: _Run, handled: set[str]) -> ItemSelector:
        return ItemSelector(
            archive=run.archive,
            reader=run.reader,
            discovery=run.items.kinds.discovery,
            filters=run.items.kinds.filters,
            handled=handled,
            log=self._log,
        )

    async def _restore_everything(self, run: _Run) -> None:
        """The main pass; definitions were handled in the first, and kinds that come last are held back."""
        archived, options = run.archive.resources, self._options
        names = canonical_names(run.items.kinds.discovery, archived)
        order = main_pass_order(options.priorities, archived, options.last, names)
        last = last_kinds(options.priorities, options.last, names)
        await self._restore_pass(run, order, last)

    async def _restore_last_kinds(self, run: _Run) -> None:
        held_back, run.held_back = run.held_back, []
        await self._restore_selected(run, held_back)

    async def _restore_late_kinds(self, run: _Run) -> None:
        """Restore kinds that were not served in the main pass, if their definitions are ready by now.

        If a kind is still not served, each of its items is an error.
        """
        definitions, waiting = run.follow_ups.definitions, run.not_served
        failures = Results()
        for problem in await definitions.last_look([one.group_resource for one in waiting]):
            failures.errors.add("", Notice(Code.DEFINITION_NOT_READY, problem))
        self._report(run, failures)
        again = [one.group_resource for one in waiting if one.group_resource in definitions.usable]
        if again:
            await self._refresh_discovery(run)
            run.not_served = [one for one in waiting if one.group_resource not in again]
            run.handled.difference_update(again)
            await self._restore_pass(run, again)
        for resource in run.not_served:
            self._report(run, not_served(resource, run.items.kinds.discovery, _remedy(run, resource)))
            self._note(run, resource, Outcome.FAILED, "the cluster does not serve its kind")

    def _note(self, run: _Run, resource: SelectedResource, outcome: Outcome, reason: str) -> None:
        """Note the outcome of all selected items of a kind."""
        kind = ""
        for ref in resource.items():
            kind = kind or _kind_in_backup(run.reader, ref)
            run.outcomes.record(kind, ref.key, outcome, reason)

    def _report_selection(self, run: _Run) -> None:
        """Report names in the filters and of plugins that do not exist, and an empty selection."""
        spec = run.request.restore.spec
        kinds = run.items.kinds
        results = filter_problems(spec, run.archive, kinds.discovery)
        archived = ArchivedKinds(run.archive.resources)
        results.warnings.add_velero(*kinds.actions.without_items(kinds.discovery, is_known=archived.has))
        if not run.selected:
            results.warnings.add_velero(empty_selection(spec, run.archive))
        for oddity in run.archive.warnings:
            results.warnings.add_velero(
                Notice(Code.ARCHIVE_PART_IGNORED, f"part of the backup was ignored: {oddity}")
            )
        self._report(run, results)

    def _report_idle_rules(self, run: _Run) -> None:
        """Warn about each resource modifier that changed nothing; those of a trial are not the user's."""
        restore = run.request.restore
        if not run.selected or labels.VERIFICATION in restore.metadata.labels:
            return
        archive, results = run.archive, Results()

        def namespaces(kind: str) -> list[str]:
            of_namespaces = kind == NAMESPACES.group_resource
            return archive.names(kind, "") if of_namespaces else archive.namespaces(kind)

        backup = BackedUp(
            kinds=archive.resources,
            namespaces=namespaces,
            canonical=canonical_names(run.items.kinds.discovery, archive.resources),
            mapping=restore.spec.namespace_mapping,
        )
        results.warnings.add_velero(*run.modifying.idle_rules(backup))
        self._report(run, results)

    def _report_old_names(self, run: _Run) -> None:
        results = Results()
        results.warnings.add_velero(*run.old_names.warnings())
        self._report(run, results)

    async def _report_withheld(self, run: _Run) -> None:
        """Report the items that self-service, not the author, excluded from a tenant's restore."""
        rights, kinds = run.request.rights, run.items.kinds
        if rights is None:
            return
        archived = run.archive.resources
        names = canonical_names(kinds.discovery, archived)
        withheld_kinds = [
            kind for kind in map(names, GUARDED_KINDS) if not kinds.filters.resources.matches(kind)
        ]
        included = IncludesExcludes.resolved(run.request.restore.spec.included_resources, (), names)
        collector = ItemSelector(
            archive=run.archive,
            reader=run.reader,
            discovery=kinds.discovery,
            filters=replace(kinds.filters, resources=included),
            handled=set(),
            log=self._log,
        )
        for resource in await collector.collect(withheld_kinds):
            reason = rights.refusal(resource.group_resource, is_namespaced=resource.is_namespaced)
            if reason is not None:
                run.selected += resource.count
                self._report(run, withheld(resource, reason))
                self._note(run, resource, Outcome.REFUSED, reason)

    async def _restore_pass(
        self, run: _Run, names: Sequence[str], last: Container[str] = frozenset()
    ) -> bool:
        """Select and restore these resources, one after the other; return whether anything was selected.

        Args:
            last: kinds that are selected, and held back.
        """
        selected: list[SelectedResource] = []
        for resource in await self._collector(run, run.handled).collect(names):
            run.selected += resource.count
            reason = run.items.refusal(resource.group_resource, is_namespaced=resource.is_namespaced)
            if needless := run.items.needless(resource.group_resource):
                self._note(run, resource, Outcome.SKIPPED, needless)
            elif reason is not None:
                self._report(run, withheld(resource, reason))
                self._note(run, resource, Outcome.REFUSED, reason)
            elif resource.is_served:
                held_back = resource.group_resource in last
                (run.held_back if held_back else selected).append(resource)
            else:
                run.not_served.append(resource)
        if list(names) != [CRDS]:
            run.request.activity.counted(_ALL_KINDS)
        await self._restore_selected(run, selected)
        return bool(selected)

    async def _restore_selected(self, run: _Run, selected: Sequence[SelectedResource]) -> None:
        run.progress.begin_pass(sum(resource.count for resource in (*selected, *run.held_back)))
        activity = run.request.activity
        for resource in selected:
            activity.begin(resource.group_resource, resource.count)
            try:
                await self._restore_resource(run, resource)
            finally:
                activity.end(resource.group_resource)

    async def _restore_resource(self, run: _Run, resource: SelectedResource) -> None:
        """Restore all selected items of one kind, many at once; results are reported in their order."""
        jobs = enumerate(resource.items())
        reports: list[tuple[int, Results]] = []

        async def work() -> None:
            for position, ref in jobs:
                results = Results()
                if await run.items.restore(ref, results):
                    self._count(run, ref)
                run.request.activity.processed(resource.group_resource)
                if not results.empty:
                    log_results(self._log, results, resource=ref.group_resource, name=ref.name)
                    reports.append((position, results))

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(self._options.workers, resource.count)):
                workers.create_task(work())
        run.results.merge_all(results for _, results in sorted(reports, key=lambda report: report[0]))
        await run.follow_ups.definitions_settled()

    def _count(self, run: _Run, ref: ItemRef) -> None:
        run.progress.item_done(len(run.claims))
        restored, total = run.progress.restored, run.progress.total
        run.reporter.update(restored, total)
        self._log.info(
            f"Restored {restored} items out of an estimated total of {total} "
            "(estimate will change throughout the restore)",
            progress="",
            resource=ref.group_resource,
            namespace=ref.target_namespace,
            name=ref.name,
        )

    def _report(self, run: _Run, results: Results) -> None:
        log_results(self._log, results)
        run.results.merge(results)

    async def _refresh_discovery(self, run: _Run) -> None:
        """Discover the kinds of the restored definitions, and wait for a server that shows them late."""
        found, usable = run.items.kinds.discovery, run.follow_ups.definitions.usable

        async def shown() -> bool:
            nonlocal found
            found = await self._load_discovery()
            return all(found.preferred(name) is not None for name in usable)

        try:
            complete = await poll(shown, timer=self._timer, timeout_seconds=_DISCOVERY_LAG_SECONDS)
        except KubeError as error:
            results = Results()
            results.warnings.add(
                "",
                notice_of(error, Code.DISCOVERY_FAILED, f"refresh discovery after restoring CRDs: {error}"),
            )
            self._report(run, results)
            return
        if not complete:
            missing = [name for name in usable if found.preferred(name) is None]
            self._log.warning(
                Notice(Code.DISCOVERY_FAILED, "Restored definitions are not in discovery"),
                definitions=", ".join(missing),
            )
        kinds = run.items.kinds
        filters = RestoreFilter.from_spec(
            run.request.restore.spec, canonical_names(found, run.archive.resources)
        )
        run.items.kinds = KnownKinds(
            discovery=found,
            filters=replace(filters, objects=kinds.filters.objects),
            actions=kinds.actions.with_discovery(found.canonical),
            statuses=_statuses(run.request, found.canonical),
        )


class _Begun(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a restore that are made before its run."""

    kinds: KnownKinds
    reader: ItemReader
    hook_finder: ExecHookFinder


def _statuses(request: RestoreRequest, canonical: Callable[[str], str]) -> StatusFilter:
    spec = request.restore.spec
    return StatusFilter.from_spec(spec, canonical, allowed=request.rights is None)


def _chosen(
    request: RestoreRequest, archive: ArchiveIndex, reader: ItemReader, discovery: Discovery
) -> frozenset[tuple[str, str, str]] | None:
    """The single items that a restore is limited to. Raises SetupError if the backup lacks one of them."""
    value = request.restore.metadata.annotations.get(labels.CHOSEN_OBJECTS)
    if value is None:
        return None
    try:
        wanted = decode_chosen(value)
    except ValueError as error:
        raise SetupError(
            Notice(Code.FILTER_INVALID, f"annotation {labels.CHOSEN_OBJECTS}: {error}")
        ) from error
    canonical = canonical_names(discovery, archive.resources)
    found, missing = choose(wanted, archive, reader, canonical)
    if missing:
        # A tenant is not told what else the backup has.
        is_told = len(missing) == 1 and request.rights is None
        near = meant_instead(missing[0], archive, canonical) if is_told else ""
        advice = near or "; names and namespaces are those in the backup, see `backup ls`"
        names = ", ".join(map(str, missing))
        raise SetupError(
            Notice(Code.NOTHING_SELECTED, f"nothing was restored: the backup does not have {names}{advice}")
        )
    return found


def _definition_key(name: str) -> ItemKey:
    return ItemKey(DEFINITIONS, "", name)


def _remedy(run: _Run, resource: SelectedResource) -> str:
    """The command that restores the definition of a kind, if this restore leaves it out; else empty."""
    name, request = resource.group_resource, run.request
    is_administrators = request.trusted and request.rights is None
    if not is_administrators or _definition_key(name) in run.claims:
        return ""
    if not run.archive.has(DEFINITIONS, "", name):
        return ""
    return (
        "; its definition is in the backup, and this restore leaves it out: pinnace restore create"
        f" --from-backup {request.restore.spec.backup_name} --object customresourcedefinitions/{name}"
    )


def _kind_in_backup(reader: ItemReader, ref: ItemRef) -> str:
    """`apps/v1/Deployment`; the resource's name for an item that cannot be read."""
    try:
        return kind_of(decode(ref, reader.read(ref.group_resource, ref.original_namespace, ref.name)))
    except (MissingItem, ItemError):
        return ref.group_resource
