"""Reads what a backup includes: its filters and the namespaces that they name. (docs/spec: BKP 4, BEY 4)"""

from pinnace.api.selection.filter_policies import NO_FILTER_POLICIES
from pinnace.api.selection.resource_filters import NO_LISTS, filter_of
from pinnace.api.velero.backup import BackupSpec
from pinnace.archive.runlog import RunLog
from pinnace.backup.cluster import ClusterReader
from pinnace.backup.errors import FatalBackupError
from pinnace.backup.filters import (
    warn_of_cluster_scoped_objects,
    warn_of_filter_policies,
    warn_of_unserved_names,
)
from pinnace.backup.namespaces import look_up_namespaces
from pinnace.backup.plan import BackupFilter
from pinnace.kube.discovery import Discovery
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.volumes.policies import VolumePolicies


async def read_scope(
    client: ClusterReader,
    discovery: Discovery,
    spec: BackupSpec,
    policies: VolumePolicies | None,
    log: RunLog,
) -> BackupFilter:
    """The filters of a prepared Backup; the log says what in them has no effect.

    Raises:
        FatalBackupError: a label selector is not valid.
    """
    facts = await look_up_namespaces(client, spec, log)
    lists = policies.lists if policies is not None else NO_LISTS
    filters = policies.filters if policies is not None else NO_FILTER_POLICIES
    try:
        chosen = filter_of(
            spec, canonical=discovery.canonical, is_namespaced=discovery.is_namespaced, policy=lists
        )
        scope = BackupFilter.of(
            spec, resources=chosen.filter, facts=facts, policies=filters.resolved(discovery.canonical)
        )
    except ValueError as error:
        raise FatalBackupError(Notice(Code.FILTER_INVALID, f"invalid label selector: {error}")) from error
    log.info(f"Including namespaces: {scope.namespaces.include_list}")
    log.info(f"Excluding namespaces: {scope.namespaces.exclude_list}")
    for line in scope.resources.lines():
        log.info(line)
    for warning in chosen.warnings:
        log.warning(Notice(Code.FILTER_MATCHES_NOTHING, warning))
    warn_of_unserved_names(spec, discovery, log)
    warn_of_filter_policies(filters, scope.resources, discovery, log)
    warn_of_cluster_scoped_objects(spec, scope.resources, discovery, log)
    return scope
