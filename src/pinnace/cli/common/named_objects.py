"""Checks that ConfigMaps and Secrets which flags name exist, before a request goes to a server."""

from pinnace.cli.errors import CommandError
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import CONFIGMAPS, SECRETS, APIResource


async def check_config_maps(client: KubeClient, namespace: str, **chosen: str) -> None:
    """Check that the named ConfigMaps exist: a misspelt name would become a backup or restore that fails.

    Args:
        chosen: the names by flag, with `_` for `-`; an empty one was not given.

    Raises:
        CommandError: one does not exist. Who may not read them is left to the server.
    """
    for flag, name in chosen.items():
        await _check(client, namespace, CONFIGMAPS, "ConfigMap", flag, name)


async def check_identity_secret(client: KubeClient, namespace: str, name: str) -> None:
    """Check that the Secret of `--identity-secret` exists; as `check_config_maps`. Raises CommandError."""
    await _check(client, namespace, SECRETS, "Secret", "identity_secret", name)


async def _check(
    client: KubeClient, namespace: str, resource: APIResource, kind: str, flag: str, name: str
) -> None:
    if not name:
        return
    try:
        await client.get(resource, name, namespace)
    except NotFound as error:
        words = flag.replace("_", "-")
        raise CommandError(f"--{words}: namespace {namespace} has no {kind} {name}") from error
    except KubeError:
        return  # only an early answer depends on it
