"""Checks the ConfigMaps that the flags of `install` name, before anything is sent.

The server and the node agents read them when they start or when they need them, and do not work without them.
That would be found out long after `install` has ended.
"""

from collections.abc import Mapping
from typing import Any

from pinnace.api.maintenance_config import check_maintenance_config
from pinnace.api.node_agent_config import read_node_agent_config
from pinnace.api.objects import mapping
from pinnace.api.strict_yaml import only_document
from pinnace.api.velero.backup_repository import KOPIA_REPOSITORY
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS
from pinnace.volumes.repository_config import settings_of


async def config_map_problem(client: KubeClient, namespace: str, named: Mapping[str, str]) -> str:
    """The first problem with a named ConfigMap, and what to do; empty if there is none.

    Raises:
        KubeError: they cannot be read now, or not by this account.
    """
    for flag, name in named.items():
        try:
            _check(flag, await client.get(CONFIGMAPS, name, namespace))
        except NotFound:
            return (
                f"{flag}={name}: namespace {namespace} has no ConfigMap of that name, and what reads it does"
                f" not work without it. Create it first: `kubectl create namespace {namespace}` (if there is"
                f" none), `kubectl -n {namespace} create configmap {name} --from-file=FILE`"
            )
        except ValueError as error:
            return f"{flag}={name}: the ConfigMap in namespace {namespace} cannot be used: {error}"
    return ""


def _check(flag: str, config_map: Mapping[str, Any]) -> None:
    """Read the ConfigMap as its reader does. Raises ValueError."""
    match flag:
        case "--node-agent-configmap":
            read_node_agent_config(only_document(config_map))
        case "--backup-repository-configmap":
            document = mapping(config_map, "data").get(KOPIA_REPOSITORY)
            settings_of("{}" if document is None else str(document))
        case _:
            check_maintenance_config(mapping(config_map, "data"))
