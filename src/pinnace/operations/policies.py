"""Reads the resource policies of backups and restores out of their ConfigMaps. (docs/spec: BEY 4.7, 4.8)"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from pinnace.aio.blocking import in_thread
from pinnace.api.resource_policies import (
    KIND,
    PolicyError,
    ResourcePolicies,
    read_policies,
    read_restore_policies,
)
from pinnace.api.selection.filter_policies import NO_FILTER_POLICIES, AmbiguousKind, FilterPolicies
from pinnace.api.selection.resource_filters import OLD_WITH_POLICIES, filter_errors, uses_common_lists
from pinnace.api.strict_yaml import only_document
from pinnace.api.velero.backup import BackupSpec
from pinnace.api.velero.restore import RestoreSpec
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Forbidden, NotFound
from pinnace.kube.reading import ObjectReader
from pinnace.kube.resources import CONFIGMAPS
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)


async def policies_of(
    client: KubeClient,
    namespace: str,
    spec: BackupSpec,
    canonical: Callable[[str], str],
    *,
    of_server: str = "",
) -> ResourcePolicies | None:
    """The resource policies that a spec names, and after them the server's rules; None without any.

    The first rule that matches a volume decides, so that those of the spec come before the server's.

    Args:
        namespace: the server's; without a server the one with the settings of the command.
        canonical: returns `pods` for `po`, and unknown names unchanged.
        of_server: the ConfigMap with the server's rules for volumes; empty if there is none.

    Raises:
        PolicyError: they do not exist, are not valid, or do not fit the filters of the spec.
        KubeError: they cannot be read now.
    """
    own = await _own_policies(client, namespace, spec, canonical)
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
    policies = await _read(client, namespace, name, read_policies, _OF_SERVER)
    if policies.lists or policies.filters:
        log.warning(
            "Only the volumePolicies of the global backup volume policies have an effect", config_map=name
        )
    return ResourcePolicies(rules=policies.rules)


async def filters_of_restore(client: ObjectReader, namespace: str, spec: RestoreSpec) -> FilterPolicies:
    """The filter policies that a restore names; empty ones if it names none. (docs/spec/after-1.18.md, 2.5)

    Raises:
        PolicyError: they do not exist, or are not valid: a text for the validation errors.
        KubeError: they cannot be read now.
    """
    reference = spec.resource_policy
    if reference is None or not (reference.kind or reference.name):
        return NO_FILTER_POLICIES
    if reference.kind.lower() != KIND:
        raise PolicyError(f'invalid ResourcePolicy kind "{reference.kind}", only "{KIND}" is supported')
    found = await _read(client, namespace, reference.name, read_restore_policies, _OF_SPEC)
    return found.filters


async def _own_policies(
    client: KubeClient, namespace: str, spec: BackupSpec, canonical: Callable[[str], str]
) -> ResourcePolicies | None:
    reference = spec.resource_policy
    if reference is None:
        return None
    if reference.kind.lower() != KIND:
        raise PolicyError(f"spec.resourcePolicy is of the kind {reference.kind!r}: it must be a {KIND}")
    policies = await _read(client, namespace, reference.name, read_policies, _OF_SPEC)
    if policies.lists and (problems := filter_errors(spec, policies.lists)):
        raise PolicyError("; ".join(problems))
    if policies.filters and uses_common_lists(spec):
        raise PolicyError(OLD_WITH_POLICIES)
    try:
        policies.filters.resolved(canonical)
    except AmbiguousKind as error:
        raise PolicyError(_OF_SPEC.invalid.format(f"{namespace}/{reference.name}", error)) from error
    return policies


class _Texts(msgspec.Struct, frozen=True, kw_only=True):
    """Velero's sentences about a ConfigMap and what is wrong with it. (sections 2.3, 3.1)"""

    missing: str
    unreadable: str
    invalid: str


_OF_SPEC: Final = _Texts(
    missing="fail to get ResourcePolicies {} ConfigMap: {}",
    unreadable="fail to read the ResourcePolicies from ConfigMap {}: {}",
    invalid="fail to validate ResourcePolicies in ConfigMap {}: {}",
)
_OF_SERVER: Final = _Texts(
    missing="fail to get global backup volume policies ConfigMap {}: {}",
    unreadable="fail to read global backup volume policies from ConfigMap {}: {}",
    invalid="fail to validate global backup volume policies in ConfigMap {}: {}",
)


async def _read(
    client: ObjectReader,
    namespace: str,
    name: str,
    read: Callable[[str, str], ResourcePolicies],
    texts: _Texts,
) -> ResourcePolicies:
    """The policies in a ConfigMap. Raises PolicyError, KubeError."""
    where = f"{namespace}/{name}"
    try:
        found = await client.get(CONFIGMAPS, name, namespace)
    except (NotFound, Forbidden) as error:
        raise PolicyError(texts.missing.format(where, error)) from error
    try:
        return await in_thread(read, only_document(found), name)  # a large document takes seconds
    except PolicyError as error:
        raise PolicyError(texts.invalid.format(where, error)) from error
    except ValueError as error:
        raise PolicyError(texts.unreadable.format(where, error)) from error
