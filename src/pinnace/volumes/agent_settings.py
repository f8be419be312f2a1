"""Reads the settings of the node agents out of their ConfigMap. (docs/spec: BEY 6.9)"""

from collections.abc import Sequence
from typing import Final

from pinnace.api.node_agent_config import NodeAgentConfig, read_node_agent_config
from pinnace.api.strict_yaml import only_document
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Forbidden, NotFound
from pinnace.kube.resources import CONFIGMAPS

FLAG: Final = "--node-agent-configmap"


class AgentConfigError(Exception):
    """The settings cannot be used; the text names the ConfigMap and the flag."""


async def node_agent_settings(
    client: KubeClient, namespace: str, name: str
) -> tuple[NodeAgentConfig, Sequence[str]]:
    """The settings in that ConfigMap, and a warning for each that has no effect; no name means no settings.

    Raises:
        SettingsError: the ConfigMap does not exist or is not valid.
        KubeError: it cannot be read now.
    """
    if not name:
        return NodeAgentConfig(), ()
    where = f"the ConfigMap {namespace}/{name} that {FLAG} names"
    try:
        return read_node_agent_config(only_document(await client.get(CONFIGMAPS, name, namespace)))
    except (NotFound, Forbidden) as error:
        raise AgentConfigError(f"{where} cannot be read: {error}") from error
    except ValueError as error:
        raise AgentConfigError(f"{where} cannot be used: {error}") from error


def named_in(arguments: Sequence[str]) -> str:
    """The name of the ConfigMap in the arguments of a node agent; empty if there is none."""
    for position, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag == FLAG:
            return value if equals else next(iter(arguments[position + 1 :]), "")
    return ""
