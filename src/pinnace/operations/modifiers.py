"""Reads the resource modifiers of a restore: its own, or the server's. (docs/spec: BEY 5.3)"""

from collections.abc import Sequence

import msgspec

from pinnace.aio.blocking import in_thread
from pinnace.api.velero.restore import RestoreSpec
from pinnace.kube.errors import NotFound
from pinnace.kube.reading import ObjectReader
from pinnace.kube.resources import CONFIGMAPS
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.modifiers.rules import ModifierError, read_rules

_KIND = "configmap"


class FoundModifiers(msgspec.Struct, frozen=True):
    """The modifiers of a restore.

    Attributes:
        modifiers: None if there are none.
        default: the ConfigMap of the server that they come from; empty if the restore names its own or none.
        warnings: why the server's are not applied.
    """

    modifiers: ResourceModifiers | None
    default: str = ""
    warnings: Sequence[str] = ()


async def modifiers_of(
    client: ObjectReader, namespace: str, spec: RestoreSpec, *, default: str = ""
) -> FoundModifiers:
    """The modifiers that a restore names; else those of the server, unless the restore skips them.

    They are validated as a whole. The server's are no reason to refuse a restore: where they cannot be used,
    it runs without, with a warning. (docs/spec/after-1.18.md, 3.2)

    Args:
        namespace: of the server, where the ConfigMaps are.
        default: the ConfigMap of the server; empty if there is none.

    Raises:
        ModifierError: the restore's own are missing or cannot be used: a text for the validation errors.
        KubeError: the cluster could not be asked; another try may succeed.
    """
    reference = spec.resource_modifier
    if reference is not None and (reference.kind or reference.name):
        if reference.kind.lower() != _KIND or reference.api_group:
            kind = reference.kind
            raise ModifierError(f'spec.resourceModifier is of kind "{kind}": only a ConfigMap can be named')
        return FoundModifiers(await read_modifiers(client, namespace, reference.name))
    if not default or spec.skip_default_resource_modifier:
        return FoundModifiers(None)
    try:
        return FoundModifiers(await read_modifiers(client, namespace, default), default)
    except ModifierError as error:
        warning = f"The default of the server is not applied: {error}"
        return FoundModifiers(None, default, [Notice(Code.DEFAULT_MODIFIERS_UNUSABLE, warning)])


async def read_modifiers(client: ObjectReader, namespace: str, name: str) -> ResourceModifiers:
    """The modifiers in a ConfigMap.

    Raises:
        ModifierError: it is missing or cannot be used.
        KubeError: the cluster could not be asked; another try may succeed.
    """
    where = f"resource modifiers in ConfigMap {namespace}/{name}"
    try:
        config_map = await client.get(CONFIGMAPS, name, namespace)
    except NotFound as error:
        raise ModifierError(f"{where}: there is no such ConfigMap") from error
    try:
        rules = await in_thread(read_rules, config_map)  # a large document takes seconds
        return ResourceModifiers(rules, f"{namespace}/{name}")
    except ModifierError as error:
        raise ModifierError(f"{where}: {error}") from error
