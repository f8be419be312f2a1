"""Reads the flags of the server that a dry run has to obey."""

from pinnace.cli.guard import complain
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Forbidden
from pinnace.operations.server_flags import flag_of_server


async def shown_flag(client: KubeClient, namespace: str, flag: str) -> str:
    """The value of a flag of the server; empty without one, and with a warning where it may not be read."""
    try:
        return await flag_of_server(client, namespace, flag)
    except Forbidden as error:
        complain(f"WARNING: the rules that the server has by {flag} are not shown: {error}")
        return ""
