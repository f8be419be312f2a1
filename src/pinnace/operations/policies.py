"""Reads the resource policies of a backup out of their ConfigMaps. (docs/spec: BEY 4.7, 4.8)"""

from msgspec.structs import replace

from pinnace.api.resource_policies import KIND, PolicyError, ResourcePolicies, read_policies
from pinnace.api.selection.resource_filters import filter_errors
from pinnace.api.strict_yaml import only_document
from pinnace.api.velero.backup import BackupSpec
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Forbidden, NotFound
from pinnace.kube.resources import CONFIGMAPS
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)


async def policies_of(
    client: KubeClient, namespace: str, spec: BackupSpec, *, of_server: str = ""
) -> ResourcePolicies | None:
    """The resource policies that a spec names, and after them the server's rules; None without any.

    The first rule that matches a volume decides, so that those of the spec come before the server's.

    Args:
        namespace: the server's; without a server the one with the settings of the command.
        of_server: the ConfigMap with the server's rules for volumes; empty if there is none.

    Raises:
        PolicyError: they do not exist, are not valid, or do not fit the filters of the spec.
        KubeError: they cannot be read now.
    """
    own = await _own_policies(client, namespace, spec)
    if not of_server:
        return own
    everywhere = await read_global_policies(client, namespace, of_server)
    own = own or ResourcePolicies()
    return replace(own, rules=[*own.rules, *everywhere.rules])


async def read_global_policies(client: KubeClient, namespace: str, name: str) -> ResourcePolicies:
    """The server's rules for volumes; it has no filters. (docs/spec/after-1.18.md, 3.1)

    Raises:
        PolicyError: the ConfigMap does not exist, or is not valid; the text is Velero's.
        KubeError: it cannot be read now.
    """
    where = "global backup volume policies"
    try:
        found = await client.get(CONFIGMAPS, name, namespace)
    except (NotFound, Forbidden) as error:
        raise PolicyError(f"fail to get {where} ConfigMap {namespace}/{name}: {error}") from error
    try:
        policies = read_policies(only_document(found), name)
    except PolicyError as error:
        raise PolicyError(f"fail to validate {where} in ConfigMap {namespace}/{name}: {error}") from error
    except ValueError as error:
        raise PolicyError(f"fail to read {where} from ConfigMap {namespace}/{name}: {error}") from error
    if policies.lists:
        log.warning(
            "The includeExcludePolicy of the global backup volume policies has no effect", config_map=name
        )
    return ResourcePolicies(rules=policies.rules)


async def _own_policies(client: KubeClient, namespace: str, spec: BackupSpec) -> ResourcePolicies | None:
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
