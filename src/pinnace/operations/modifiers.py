"""Reads the resource modifiers that a Restore names. (docs/spec: BEY 5.3)"""

from pinnace.api.velero.restore import RestoreSpec
from pinnace.kube.errors import NotFound
from pinnace.kube.reading import ObjectReader
from pinnace.kube.resources import CONFIGMAPS
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.modifiers.rules import ModifierError, read_rules

_KIND = "configmap"


async def modifiers_of(client: ObjectReader, namespace: str, spec: RestoreSpec) -> ResourceModifiers | None:
    """The modifiers of a restore; None if it names none. They are validated as a whole.

    Args:
        namespace: of the server, where the ConfigMap is.

    Raises:
        ModifierError: the ConfigMap is missing, or cannot be used: a text for the validation errors.
        KubeError: the cluster could not be asked; another try may succeed.
    """
    reference = spec.resource_modifier
    if reference is None or not (reference.kind or reference.name):
        return None
    if reference.kind.lower() != _KIND or reference.api_group:
        kind = reference.kind
        raise ModifierError(f'spec.resourceModifier is of kind "{kind}": only a ConfigMap can be named')
    where = f"resource modifiers in ConfigMap {namespace}/{reference.name}"
    try:
        config_map = await client.get(CONFIGMAPS, reference.name, namespace)
    except NotFound as error:
        raise ModifierError(f"{where}: there is no such ConfigMap") from error
    try:
        return ResourceModifiers(read_rules(config_map))
    except ModifierError as error:
        raise ModifierError(f"{where}: {error}") from error
