"""The work of `plugin add|remove|get`. (docs/spec: CLI 8.1)"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from pinnace.api.codec import merge_patch
from pinnace.api.labels import SERVER_LABEL
from pinnace.api.objects import JSONObject
from pinnace.cli.common.get import server_settings
from pinnace.cli.connect import no_kinds, open_cluster, run_async
from pinnace.cli.errors import CommandError
from pinnace.cli.guard import complain, printable
from pinnace.cli.output.printing import OutputFlags, encode, print_objects
from pinnace.cli.output.prompt import confirmed, on_terminal
from pinnace.cli.output.server_tables import plugin_table
from pinnace.cli.settings import Settings
from pinnace.cli.structs import replace
from pinnace.client.server_status import answered, ask_server
from pinnace.installing.plugin_images import with_plugin, without_plugin
from pinnace.kube.errors import APIStatusError, Conflict
from pinnace.kube.resources import DEPLOYMENTS

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient


ATTEMPTS = 5


def add(ctx: click.Context, image: str, pull_policy: str, *, confirm: bool) -> None:
    """Add an init container for the image."""
    settings = server_settings(ctx, "plugin add")
    if not _may_restart(settings, confirm=confirm):
        return
    run_async(_change(settings, lambda deployment: with_plugin(deployment, image.strip(), pull_policy)))


def remove(ctx: click.Context, name_or_image: str, *, confirm: bool) -> None:
    """Remove the init container of that name or image."""
    settings = server_settings(ctx, "plugin remove")
    if not _may_restart(settings, confirm=confirm):
        return
    run_async(_change(settings, lambda deployment: without_plugin(deployment, name_or_image)))


def _may_restart(settings: Settings, *, confirm: bool) -> bool:
    """Whether the server may restart. Asks only on a terminal: scripts for older Veleros give no flag."""
    if confirm or not on_terminal():
        return True
    click.echo(
        f"The server in namespace {settings.namespace} restarts, and the backups and restores that run fail."
    )
    return confirmed()


async def _change(settings: Settings, change: Callable[[JSONObject], JSONObject]) -> None:
    """Patch the Deployment of the server to what `change` returns for it."""
    async with open_cluster(settings) as client:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await _patch(client, settings.namespace, change)
            except Conflict:
                # While a Deployment rolls out its status, and with it its version, changes all the time.
                if attempt == ATTEMPTS:
                    raise
            else:
                return


async def _patch(client: "KubeClient", namespace: str, change: Callable[[JSONObject], JSONObject]) -> None:
    found = await client.list_all(DEPLOYMENTS, namespace, label_selector=SERVER_LABEL)
    if not found:
        raise CommandError(
            f"Velero deployment not found: namespace {namespace} has no Deployment with the label "
            f"{SERVER_LABEL}; name the namespace of the server with -n"
        )
    before = found[0]
    patch = merge_patch(before, change(before))
    # A patch replaces lists as a whole: entries that were added in the meantime must not get lost.
    patch["metadata"] = {"resourceVersion": before["metadata"]["resourceVersion"]}
    await client.patch(DEPLOYMENTS, before["metadata"]["name"], patch, namespace)


def get(ctx: click.Context, output: OutputFlags, timeout_seconds: float) -> None:
    """Print the plugins of the server; an error of asking it goes to stdout, with exit code 0."""
    settings = server_settings(ctx, "plugin get")

    async def work() -> JSONObject | str:
        async with open_cluster(settings) as client:
            try:
                return await ask_server(client, settings.namespace, timeout_seconds)
            except APIStatusError as error:
                # Without a reason the API server knows nothing of the kind.
                return f"<error getting plugin information: {error if error.reason else no_kinds()}>"

    answer = run_async(work())
    if isinstance(answer, str):
        click.echo(answer)
        return
    if not answered(answer):
        hint = f"is one running in namespace {settings.namespace}? (--timeout gives it longer)"
        complain(f"The server did not answer within {timeout_seconds:g}s; {hint}")
    _print(answer, output)


def _print(answer: JSONObject, output: OutputFlags) -> None:
    if output.format in ("json", "yaml"):
        click.echo(encode(answer, output.format))
        return
    if output.format == "jsonpath":  # sees what `-o json` prints
        print_objects([answer], plugin_table(), replace(output, single=True))
        return
    plugins = [
        {"metadata": {"name": plugin["name"]}, "kind": plugin["kind"]}
        for plugin in (answer.get("status") or {}).get("plugins") or []
    ]
    table = plugin_table()
    if output.format == "name":
        # Plugins are not objects, so their names have no kind in front.
        for plugin in table.sort(plugins):
            click.echo(printable(plugin["metadata"]["name"]))
        return
    print_objects(plugins, table, output)
