"""The namespaces of a backup that its labels choose: an annotation of the Backup. (docs/adr/123)"""

from pinnace.api.labels import NAMESPACE_SELECTOR
from pinnace.api.objects import text
from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.selection.selectors import Selector
from pinnace.api.velero.backup import Backup
from pinnace.kube.errors import Forbidden
from pinnace.kube.reading import ObjectLister
from pinnace.kube.resources import NAMESPACES


class NamespaceChoiceError(ValueError):
    """The selector of namespaces cannot be used: a text for the validation errors."""


async def choose_namespaces(client: ObjectLister, prepared: Backup) -> None:
    """Write into the spec of a prepared Backup the included namespaces with the labels that it asks for.

    The lists of the spec hold all the same: they only lose names.

    Raises:
        NamespaceChoiceError: the selector is not valid, namespaces may not be listed, or none has the labels.
        KubeError: the cluster cannot be asked now.
    """
    written = prepared.metadata.annotations.get(NAMESPACE_SELECTOR, "")
    if not written:
        return
    place = f"the annotation {NAMESPACE_SELECTOR}"
    try:
        selector = Selector.parse(written)
    except ValueError as error:
        raise NamespaceChoiceError(f"{place} is no label selector: {error}") from error
    spec = prepared.spec
    lists = IncludesExcludes(spec.included_namespaces, spec.excluded_namespaces)
    try:
        found = await client.list_all(NAMESPACES, label_selector=str(selector))
    except Forbidden as error:
        raise NamespaceChoiceError(f"{place} needs the list of namespaces: {error}") from error
    names = sorted(filter(lists.matches, (text(namespace, "metadata", "name") for namespace in found)))
    if not names:
        raise NamespaceChoiceError(f"no included namespace has the labels {selector} ({place})")
    spec.included_namespaces = names
