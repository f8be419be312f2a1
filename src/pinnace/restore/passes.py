"""The passes of a restore: which kinds are restored when, and what is reported at the end. (RST 5-9, 23)

First definitions, as others need their kinds; then everything in its order; then the kinds that were not
served before; last those that webhooks would refuse the objects of.
"""

import asyncio
from collections.abc import Container, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from pinnace.aio.timing import poll
from pinnace.api.kinds import CUSTOM_RESOURCE_DEFINITIONS
from pinnace.api.nonadmin.exclusions import GUARDED_KINDS
from pinnace.api.nonadmin.restore_limits import Limit
from pinnace.api.restore_outcomes import Outcome
from pinnace.api.selection.names import IncludesExcludes
from pinnace.archive.errors import MissingItem
from pinnace.kube.errors import KubeError
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of
from pinnace.restore.errors import ItemError
from pinnace.restore.item.context import RestoreRun
from pinnace.restore.item.known_kinds import kind_of
from pinnace.restore.item.life import restore_item
from pinnace.restore.progress import PROGRESS_FAILURE, PassCounts
from pinnace.restore.reporting import idle_rules, selection_problems
from pinnace.restore.results import Results, log_results
from pinnace.restore.selection.collect import (
    ItemSelector,
    RestoreFilter,
    SelectedNamespace,
    SelectedResource,
)
from pinnace.restore.selection.left_out import canonical_names, not_served, withheld
from pinnace.restore.selection.order import CRDS, last_kinds, main_pass_order
from pinnace.restore.selection.reading import ItemKey, ItemRef, decode
from pinnace.runs.progress import ProgressReporter, ProgressSink

DEFINITIONS: Final = CUSTOM_RESOURCE_DEFINITIONS.group_resource
_ALL_KINDS: Final = "everything but definitions"
"""The name of all other kinds in the activity until they are selected."""
_DISCOVERY_LAG_SECONDS: Final = 10.0
"""A server can call a definition established a moment before its discovery shows the kind."""


class Passes:
    """The passes of one restore, and what they report.

    Attributes:
        results: the warnings and errors so far.
    """

    def __init__(self, run: RestoreRun, progress: ProgressSink | None) -> None:
        self.results = Results()
        self._run = run
        self._log = run.log
        self._activity = run.request.activity
        self._reporter = ProgressReporter(
            progress,
            run.request.activity,
            log=run.log,
            failure=PROGRESS_FAILURE,
            clock=run.cluster.clock,
        )
        self._counts = PassCounts()
        self._handled: set[str] = set()
        self._selected = 0
        self._not_served: list[SelectedResource] = []
        """Kinds with selected items that the cluster does not serve; tried again after the others."""
        self._held_back: list[SelectedResource] = []
        """Kinds that come last, also after those that are tried again, as their webhooks refuse objects."""

    async def restore(self) -> None:
        """Restore everything; follow-ups may still run then."""
        run = self._run
        run.volumes.warn_of_unsaved()
        self._warn(Notice(Code.SOURCE_DOUBTFUL, caveat) for caveat in run.request.caveats)
        self._activity.plan([_ALL_KINDS])
        async with self._reporter:
            await self._restore_definitions()
            await self._restore_everything()
            await self._restore_late_kinds()
            held_back, self._held_back = self._held_back, []
            await self._restore_selected(held_back)
            await self._report_withheld()
            self._report(selection_problems(run, is_empty=not self._selected))
            self._warn(idle_rules(run) if self._selected else ())
            self._warn(run.old_names.warnings())
        await self._reporter.finish(len(run.claims))
        self._activity.collected = len(run.claims)

    async def finish(self) -> None:
        """Report what can be known only when all follow-ups have ended."""
        run = self._run
        self._report(run.pods.results())
        self._report(run.existing_claims.left())
        self._report(await run.quotas.exceeded())
        patched, looked = Results(), await run.volume_patches.look()
        for namespace, problem in looked.problems:
            patched.errors.add(namespace, Notice(Code.VOLUME_NOT_PATCHED, problem))
        self._report(patched)
        lost = run.pods.claims_without_data()  # their pods may keep them unbound for ever
        unbound = [each.wanted for each in looked.unbound]
        run.outcomes.unpatched += [each for each in unbound if (each.namespace, each.name) not in lost]

    async def _restore_definitions(self) -> None:
        """The first pass: definitions of custom resources, followed by a new discovery.

        The filters of a restore of one namespace do not select definitions: those that its objects need are
        taken along, as volumes are with their claims. (docs/adr/087)
        """
        needed = await self._needed_definitions()
        is_any_selected = await self._restore_pass([CRDS])
        filters = self._run.kinds.filters
        missing = [name for name in needed if _definition_key(name) not in self._run.claims]
        if missing and filters.admits_cluster_scoped and filters.resources.matches(DEFINITIONS):
            self._log.info("Restoring definitions that objects need", definitions=", ".join(missing))
            taken = SelectedResource(DEFINITIONS, (SelectedNamespace("", "", missing),))
            await self._restore_selected([taken])
            is_any_selected = True
        if is_any_selected:
            await self._refresh_discovery()

    async def _needed_definitions(self) -> list[str]:
        """The definitions in the backup whose kinds have selected items and are not served."""
        if Limit.NAMESPACE in self._run.request.kept_limits:
            return []
        names, discovery = self._run.archive.names(DEFINITIONS, ""), self._run.kinds.discovery
        kinds = [name for name in names if discovery.preferred(name) is None]
        if not kinds:
            return []
        selected = await self._selector(set()).collect(kinds)
        return [resource.group_resource for resource in selected]

    def _selector(self, handled: set[str], filters: RestoreFilter | None = None) -> ItemSelector:
        run = self._run
        return ItemSelector(
            archive=run.archive,
            reader=run.reader,
            discovery=run.kinds.discovery,
            filters=filters or run.kinds.filters,
            handled=handled,
            log=run.log,
        )

    async def _restore_everything(self) -> None:
        """The main pass; definitions were handled in the first, and kinds that come last are held back."""
        run, settings = self._run, self._run.settings
        archived = run.archive.resources
        names = canonical_names(run.kinds.discovery, archived)
        order = main_pass_order(settings.priorities, archived, settings.last, names)
        await self._restore_pass(order, last_kinds(settings.priorities, settings.last, names))

    async def _restore_late_kinds(self) -> None:
        """Restore kinds that were not served in the main pass, if their definitions are ready by now.

        If a kind is still not served, each of its items is an error.
        """
        definitions, waiting = self._run.definitions, self._not_served
        failures = Results()
        for problem in await definitions.last_look([one.group_resource for one in waiting]):
            failures.errors.add("", Notice(Code.DEFINITION_NOT_READY, problem))
        self._report(failures)
        again = [one.group_resource for one in waiting if one.group_resource in definitions.usable]
        if again:
            await self._refresh_discovery()
            self._not_served = [one for one in waiting if one.group_resource not in again]
            self._handled.difference_update(again)
            await self._restore_pass(again)
        for resource in self._not_served:
            self._report(not_served(resource, self._run.kinds.discovery, self._remedy(resource)))
            self._note(resource, Outcome.FAILED, "the cluster does not serve its kind")

    def _remedy(self, resource: SelectedResource) -> str:
        """The command that restores the definition of a kind, if this restore leaves it out; else empty."""
        name, run = resource.group_resource, self._run
        is_left_out = Limit.ANSWERS not in run.request.kept_limits and _definition_key(name) not in run.claims
        if not is_left_out or not run.archive.has(DEFINITIONS, "", name):
            return ""
        return (
            "; its definition is in the backup, and this restore leaves it out: pinnace restore create"
            f" --from-backup {run.restore.spec.backup_name} --object customresourcedefinitions/{name}"
        )

    async def _report_withheld(self) -> None:
        """Report the items that self-service, not the author, excluded from a tenant's restore."""
        run = self._run
        if run.request.limits is None:
            return
        names, filters = canonical_names(run.kinds.discovery, run.archive.resources), run.kinds.filters
        excluded = [kind for kind in map(names, GUARDED_KINDS) if not filters.resources.matches(kind)]
        included = IncludesExcludes.resolved(run.restore.spec.included_resources, (), names)
        selector = self._selector(set(), replace(filters, resources=included))
        for resource in await selector.collect(excluded):
            reason = run.request.limits.refusal(resource.group_resource, is_namespaced=resource.is_namespaced)
            if reason is not None:
                self._selected += resource.count
                self._report(withheld(resource, reason))
                self._note(resource, Outcome.REFUSED, reason)

    async def _restore_pass(self, names: Sequence[str], last: Container[str] = frozenset()) -> bool:
        """Select and restore these resources, one after the other; return whether anything was selected.

        Args:
            last: kinds that are selected, and held back.
        """
        selected: list[SelectedResource] = []
        for resource in await self._selector(self._handled).collect(names):
            self._selected += resource.count
            name = resource.group_resource
            left = self._run.admission.of_kind(name, is_namespaced=resource.is_namespaced)
            if left is not None:
                if left.outcome is Outcome.REFUSED:
                    self._report(withheld(resource, left.reason))
                self._note(resource, left.outcome, left.reason)
            elif resource.is_served:
                (self._held_back if name in last else selected).append(resource)
            else:
                self._not_served.append(resource)
        if list(names) != [CRDS]:
            self._activity.counted(_ALL_KINDS)
        await self._restore_selected(selected)
        return bool(selected)

    async def _restore_selected(self, selected: Sequence[SelectedResource]) -> None:
        self._counts.begin_pass(sum(resource.count for resource in (*selected, *self._held_back)))
        for resource in selected:
            self._activity.begin(resource.group_resource, resource.count)
            try:
                await self._restore_resource(resource)
            finally:
                self._activity.end(resource.group_resource)

    async def _restore_resource(self, resource: SelectedResource) -> None:
        """Restore all selected items of one kind, many at once; results are reported in their order."""
        jobs = enumerate(resource.items())
        reports: list[tuple[int, Results]] = []

        async def work() -> None:
            for position, ref in jobs:
                results = Results()
                if await restore_item(self._run, ref, results):
                    self._count(ref)
                self._activity.processed(resource.group_resource)
                if not results.empty:
                    log_results(self._log, results, resource=ref.group_resource, name=ref.name)
                    reports.append((position, results))
                # A dry run seldom waits for anything: display and Ctrl-C would wait for its end.
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as workers:
            for _ in range(min(self._run.settings.workers, resource.count)):
                workers.create_task(work())
        self.results.merge_all(results for _, results in sorted(reports, key=lambda report: report[0]))
        await self._run.definitions_settled()

    def _count(self, ref: ItemRef) -> None:
        self._counts.item_done(len(self._run.claims))
        restored, total = self._counts.restored, self._counts.total
        self._reporter.update(restored, total)
        self._log.info(
            f"Restored {restored} items out of an estimated total of {total} "
            "(estimate will change throughout the restore)",
            progress="",
            **ref.fields,
        )

    def _note(self, resource: SelectedResource, outcome: Outcome, reason: str) -> None:
        """Note the outcome of all selected items of a kind."""
        kind = ""
        for ref in resource.items():
            kind = kind or self._kind_in_backup(ref)
            self._run.outcomes.record(kind, ref.key, outcome, reason)

    def _kind_in_backup(self, ref: ItemRef) -> str:
        """`apps/v1/Deployment`; the resource's name for an item that cannot be read."""
        try:
            raw = self._run.reader.read(ref.group_resource, ref.original_namespace, ref.name)
            return kind_of(decode(ref, raw))
        except (MissingItem, ItemError):
            return ref.group_resource

    def _report(self, results: Results) -> None:
        log_results(self._log, results)
        self.results.merge(results)

    def _warn(self, notices: Iterable[Notice]) -> None:
        results = Results()
        results.warnings.add_velero(*notices)
        self._report(results)

    async def _refresh_discovery(self) -> None:
        """Discover the kinds of the restored definitions, and wait for a server that shows them late."""
        run = self._run
        found, usable = run.kinds.discovery, run.definitions.usable

        async def shown() -> bool:
            nonlocal found
            found = await run.cluster.load_discovery()
            return all(found.preferred(name) is not None for name in usable)

        try:
            complete = await poll(shown, clock=run.cluster.clock, timeout_seconds=_DISCOVERY_LAG_SECONDS)
        except KubeError as error:
            results, problem = Results(), f"refresh discovery after restoring CRDs: {error}"
            results.warnings.add("", notice_of(error, Code.DISCOVERY_FAILED, problem))
            self._report(results)
            return
        if not complete:
            missing = [name for name in usable if found.preferred(name) is None]
            self._log.warning(
                Notice(Code.DISCOVERY_FAILED, "Restored definitions are not in discovery"),
                definitions=", ".join(missing),
            )
        run.kinds.renew(found)


def _definition_key(name: str) -> ItemKey:
    return ItemKey(DEFINITIONS, "", name)
