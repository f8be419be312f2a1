"""The warnings at the end of a restore about filters, plugins and rules that matched nothing."""

from collections.abc import Sequence

from pinnace.api.kinds import NAMESPACES
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.item.context import RestoreRun
from pinnace.restore.modifiers.idle import BackedUp
from pinnace.restore.results import Results
from pinnace.restore.selection.left_out import (
    ArchivedKinds,
    canonical_names,
    empty_selection,
    filter_problems,
)


def selection_problems(run: RestoreRun, *, is_empty: bool) -> Results:
    """Names in the filters and of plugins that do not exist, and an empty selection."""
    spec, archive, kinds = run.restore.spec, run.archive, run.kinds
    results = filter_problems(spec, kinds.policies, archive, kinds.discovery)
    archived = ArchivedKinds(archive.resources)
    results.warnings.add_velero(*kinds.actions.without_items(kinds.discovery, is_known=archived.has))
    if is_empty:
        results.warnings.add_velero(empty_selection(spec, archive))
    for oddity in archive.warnings:
        results.warnings.add_velero(
            Notice(Code.ARCHIVE_PART_IGNORED, f"part of the backup was ignored: {oddity}")
        )
    return results


def idle_rules(run: RestoreRun) -> Sequence[Notice]:
    """The resource modifiers that changed nothing; those of a trial are not the user's."""
    if run.is_trial:
        return ()
    archive = run.archive

    def namespaces(kind: str) -> list[str]:
        of_namespaces = kind == NAMESPACES.group_resource
        return archive.names(kind, "") if of_namespaces else archive.namespaces(kind)

    backup = BackedUp(
        kinds=archive.resources,
        namespaces=namespaces,
        canonical=canonical_names(run.kinds.discovery, archive.resources),
        mapping=run.restore.spec.namespace_mapping,
    )
    return run.modifying.idle_rules(backup)
