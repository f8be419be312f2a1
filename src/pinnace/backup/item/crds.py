"""Adds the definitions of the custom resources in a backup, so that it can be restored elsewhere.

(docs/spec: BKP 12)
"""

from collections.abc import Iterable

from pinnace.api.kinds import CUSTOM_RESOURCE_DEFINITIONS
from pinnace.backup.conversion import may_be_custom
from pinnace.backup.errors import ItemFailed
from pinnace.backup.item.context import BackupRun
from pinnace.backup.item.life import ItemBackupper
from pinnace.backup.item.tracking import kind_key
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code
from pinnace.notices.notice import notice_of


async def back_up_definitions(run: BackupRun, items: ItemBackupper, group_resources: Iterable[str]) -> None:
    """Back up the CRD of every group-resource that has one, unless the filters say otherwise."""
    resource = run.discovery.preferred(CUSTOM_RESOURCE_DEFINITIONS.group_resource)
    if resource is None or not run.scope.resources.adds_definitions:
        return
    kind = kind_key(resource.api_version, resource.kind)
    for name in sorted(group_resources):
        if may_be_custom(name) and not run.tracker.has(kind, name):
            await _back_up_definition(run, items, resource, name)


async def _back_up_definition(run: BackupRun, items: ItemBackupper, resource: APIResource, name: str) -> None:
    try:
        definition = await run.client.get(resource, name)
    except NotFound:
        return
    except KubeError as error:
        run.log.error(
            notice_of(error, Code.DEFINITION_NOT_SAVED, f"Error getting the definition of {name}"),
            error=error,
            resource=resource.group_resource,
        )
        return
    try:
        await items.back_up(definition, resource)
    except ItemFailed as failure:
        run.report(failure, resource.group_resource, "", name)
