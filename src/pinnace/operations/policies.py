"""Reads the resource policies of a backup out of their ConfigMap. (docs/spec: BEY 4.7, 4.8)"""

from pinnace.api.resource_policies import KIND, PolicyError, ResourcePolicies, read_policies
from pinnace.api.selection.resource_filters import filter_errors
from pinnace.api.strict_yaml import only_document
from pinnace.api.velero.backup import BackupSpec
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Forbidden, NotFound
from pinnace.kube.resources import CONFIGMAPS


async def policies_of(client: KubeClient, namespace: str, spec: BackupSpec) -> ResourcePolicies | None:
    """The resource policies that a spec names; None if it names none.

    Args:
        namespace: the server's, or the one in which a command without a server looks for settings.

    Raises:
        PolicyError: they do not exist, are not valid, or do not fit the filters of the spec.
        KubeError: they cannot be read now.
    """
    reference = spec.resource_policy
    if reference is None:
        return None
    if reference.kind.lower() != KIND:
        raise PolicyError(f"spec.resourcePolicy is of the kind {reference.kind!r}: it must be a {KIND}")
    where = f"the resource policies in ConfigMap {namespace}/{reference.name}"
    try:
        found = await client.get(CONFIGMAPS, reference.name, namespace)
        policies = read_policies(only_document(found), reference.name)
    except (NotFound, Forbidden) as error:
        raise PolicyError(f"{where} cannot be read: {error}") from error
    except ValueError as error:
        raise PolicyError(f"{where} are not valid: {error}") from error
    if policies.lists and (problems := filter_errors(spec, policies.lists)):
        raise PolicyError("; ".join(problems))
    return policies
