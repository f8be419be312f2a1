"""What `uninstall` does. (docs/spec: CLI 11.4)"""

import asyncio
from typing import TYPE_CHECKING, Any

import click

from pinnace.api import labels
from pinnace.cli.connect import open_cluster, run_async
from pinnace.cli.errors import CommandError, aggregate
from pinnace.cli.objects import server_settings
from pinnace.cli.prompt import confirmed
from pinnace.cli.settings import DEFAULT_NAMESPACE, Settings
from pinnace.kube.errors import APIStatusError, NotFound
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    APIResource,
)

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient

JSONObject = dict[str, Any]

POLL_SECONDS = 1.0
SELECTOR = f"{labels.COMPONENT}={labels.COMPONENT_VALUE}"

# Clusters older than 1.16 know only this version, those from 1.22 on no longer do.
OLD_DEFINITIONS = APIResource(
    group="apiextensions.k8s.io",
    version="v1beta1",
    name="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
)


def uninstall(ctx: click.Context, *, wait: bool, force: bool) -> None:
    """Ask, remove everything that can be removed, and report what could not."""
    settings = server_settings(ctx, "uninstall")
    if not force:
        click.echo("You are about to uninstall Velero.")
        if not confirmed():
            return
    errors = run_async(_uninstall(settings, wait))
    if errors:
        text = aggregate(errors)
        click.echo(f'Errors while attempting to uninstall Velero: "{text}"', nl=False)
        raise CommandError(text)
    click.echo("Velero uninstalled ⛵")


async def _uninstall(settings: Settings, wait: bool) -> list[str]:
    """All steps, each whether or not the one before went well. Returns the errors."""
    namespace, errors = settings.namespace, []
    async with open_cluster(settings) as client:
        going = False
        try:
            going = await _delete_namespace(client, namespace)
        except APIStatusError as exc:
            errors.append(str(exc))
        try:
            await _delete_binding(client, namespace)
        except APIStatusError as exc:
            errors.append(str(exc))
        errors += await _delete_definitions(client)
        # A namespace that could not be deleted would be waited for without end.
        if wait and going:
            try:
                await _wait(client, namespace)
            except APIStatusError as exc:
                errors.append(str(exc))
    return errors


async def _delete_namespace(client: "KubeClient", namespace: str) -> bool:
    """Begin to delete the namespace. Returns whether it exists, and so can be waited for."""
    try:
        found = await client.get(NAMESPACES, namespace)
        if found["metadata"].get("deletionTimestamp"):
            click.echo(f'Velero namespace "{namespace}" is terminating.')
        else:
            await client.delete(NAMESPACES, namespace)
    except NotFound:
        click.echo(f'Velero namespace "{namespace}" does not exist, skipping.')
        return False
    return True


async def _delete_binding(client: "KubeClient", namespace: str) -> None:
    name = "velero" if namespace == DEFAULT_NAMESPACE else f"velero-{namespace}"
    try:
        await client.delete(CLUSTER_ROLE_BINDINGS, name)
    except NotFound:
        click.echo(f'Velero ClusterRoleBinding "{name}" does not exist, skipping.')


async def _delete_definitions(client: "KubeClient") -> list[str]:
    """Delete our definitions in whichever version the cluster serves. Returns the errors."""
    removed, errors = await _delete_labelled(client, CUSTOM_RESOURCE_DEFINITIONS)
    if removed is None:
        click.echo("V1 Velero CRDs not found, skipping...")
    removed_old, old_errors = await _delete_labelled(client, OLD_DEFINITIONS)
    if removed_old is None and not removed:
        click.echo("V1Beta1 Velero CRDs not found, skipping...")
    return errors + old_errors


async def _delete_labelled(client: "KubeClient", resource: APIResource) -> tuple[int | None, list[str]]:
    """Delete what carries our label. Returns how many were, None without that API; and the errors."""
    try:
        found = await client.list_all(resource, label_selector=SELECTOR)
    except NotFound:
        return None, []
    except APIStatusError as exc:
        return 0, [str(exc)]
    removed, errors = 0, []
    for definition in found:
        try:
            await client.delete(resource, definition["metadata"]["name"])
        except NotFound:
            continue  # somebody else was quicker
        except APIStatusError as exc:
            errors.append(str(exc))
        else:
            removed += 1
    return removed, errors


async def _wait(client: "KubeClient", namespace: str) -> None:
    """Print dots until the namespace is gone."""
    click.echo(
        "Waiting for Velero uninstall to complete. You may safely press ctrl-c to stop waiting - "
        "uninstall will continue in the background."
    )
    while True:
        try:
            await client.get(NAMESPACES, namespace)
        except NotFound:
            click.echo()
            return
        click.echo(".", nl=False)
        await asyncio.sleep(POLL_SECONDS)
