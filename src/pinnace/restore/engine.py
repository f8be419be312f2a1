"""The restore engine: creates the objects of an archive in a cluster, in order. (docs/spec: RST 5-9, 23)

Kinds are restored one after the other, as later kinds depend on earlier ones. Within a kind many items are
created at once; the client limits the requests in flight. Memory does not grow with the archive: an item is
read from the spool just before it is restored, and dropped once it is created.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from pinnace.api import labels
from pinnace.api.chosen_objects import decode_chosen
from pinnace.api.nonadmin.restore_limits import Limit
from pinnace.archive.eventlog import EventLog
from pinnace.archive.reader import ArchiveIndex
from pinnace.hooks.errors import InvalidHooks
from pinnace.hooks.restore_selection import ExecHookFinder
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.plugins.protocols import RestoreItemAction
from pinnace.restore.actions import RestoreActions
from pinnace.restore.cluster import ClusterAccess
from pinnace.restore.collaborators import RestoreCollaborators
from pinnace.restore.errors import SetupError
from pinnace.restore.item.context import RestoreRun
from pinnace.restore.item.known_kinds import KnownKinds
from pinnace.restore.item.statuses import StatusFilter
from pinnace.restore.outcomes import ItemOutcomes
from pinnace.restore.passes import Passes
from pinnace.restore.request import RestoreRequest, RestoreSettings
from pinnace.restore.results import Results, log_results
from pinnace.restore.selection.chosen import choose, meant_instead
from pinnace.restore.selection.collect import RestoreFilter
from pinnace.restore.selection.left_out import canonical_names
from pinnace.restore.selection.reading import ItemReader
from pinnace.restore.selection.versions import chosen_directories
from pinnace.runs.progress import ProgressSink


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
        collaborators: RestoreCollaborators | None = None,
    ) -> None:
        self._cluster = cluster
        self._actions = actions
        self._log = log
        self._progress = progress
        self._settings = options or RestoreSettings()
        self._collaborators = collaborators or RestoreCollaborators()

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
            run = await self._begin(request, archive, outcomes or ItemOutcomes())
        except SetupError as error:
            results = Results()
            results.errors.add_velero(error.notice)
            log_results(self._log, results)
            return results
        passes = Passes(run, self._progress)
        async with run.tasks:
            await passes.restore()
        await passes.finish()
        return passes.results

    async def _begin(
        self, request: RestoreRequest, archive: ArchiveIndex, outcomes: ItemOutcomes
    ) -> RestoreRun:
        """Resolve what was asked for. Raises SetupError."""
        spec, discovery = request.restore.spec, self._cluster.discovery
        canonical = canonical_names(discovery, archive.resources)
        filters = RestoreFilter.from_spec(spec, canonical, request.policies)
        actions = await RestoreActions.load(self._actions, discovery.canonical)
        try:
            hook_finder = ExecHookFinder(spec.hooks)
        except InvalidHooks as error:
            raise SetupError(Notice(Code.HOOK_INVALID, str(error))) from error
        directories = await chosen_directories(
            self._cluster.client,
            discovery,
            archive,
            features=self._settings.features,
            format_version=request.backup.status.format_version,
            namespace=request.restore.metadata.namespace,
        )
        reader = ItemReader(archive, directories)
        is_allowed = Limit.STATUSES not in request.kept_limits
        kinds = KnownKinds(
            spec=spec,
            policies=request.policies,
            archived=archive.resources,
            discovery=discovery,
            filters=replace(filters, objects=_chosen(request, archive, reader, canonical)),
            actions=actions,
            statuses=StatusFilter.from_spec(spec, discovery.canonical, allowed=is_allowed),
        )
        return RestoreRun(
            request=request,
            archive=archive,
            cluster=self._cluster,
            settings=self._settings,
            collaborators=self._collaborators,
            kinds=kinds,
            reader=reader,
            hook_finder=hook_finder,
            outcomes=outcomes,
            log=self._log,
        )


def _chosen(
    request: RestoreRequest, archive: ArchiveIndex, reader: ItemReader, canonical: Callable[[str], str]
) -> frozenset[tuple[str, str, str]] | None:
    """The single items that a restore is limited to. Raises SetupError if the backup lacks one of them."""
    value = request.restore.metadata.annotations.get(labels.CHOSEN_OBJECTS)
    if value is None:
        return None
    try:
        wanted = decode_chosen(value)
    except ValueError as error:
        text = f"annotation {labels.CHOSEN_OBJECTS}: {error}"
        raise SetupError(Notice(Code.FILTER_INVALID, text)) from error
    found, missing = choose(wanted, archive, reader, canonical)
    if missing:
        is_told = len(missing) == 1 and Limit.ANSWERS not in request.kept_limits
        near = meant_instead(missing[0], archive, canonical) if is_told else ""
        advice = near or "; names and namespaces are those in the backup, see `backup ls`"
        names = ", ".join(map(str, missing))
        text = f"nothing was restored: the backup does not have {names}{advice}"
        raise SetupError(Notice(Code.NOTHING_SELECTED, text))
    return found
