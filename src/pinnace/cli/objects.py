"""Objects that only a server has: found, listed and deleted alike. (docs/spec: CLI 2, 4.2, 4.4)"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pinnace.api.meta import LabelSelector
from pinnace.api.selectors import Selector
from pinnace.cli.connect import need_no_location, open_cluster, run_async, settings_of
from pinnace.cli.errors import CommandError, InvalidInput, aggregate
from pinnace.cli.output import OutputFlags, encode, object_list, print_objects
from pinnace.cli.prompt import confirmed, exactly_one
from pinnace.cli.server_kinds import Kind
from pinnace.cli.settings import Settings
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import velero

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient

JSONObject = dict[str, Any]


def server_settings(ctx: click.Context, command: str) -> Settings:
    """The settings of a command that has no meaning without a server. Raises InvalidInput."""
    settings = settings_of(ctx)
    need_no_location(settings, command)
    return settings


async def find(
    client: "KubeClient", settings: Settings, kind: Kind, names: Sequence[str], selector: str
) -> list[JSONObject]:
    """The named objects, the first failure ending the command; without names all that match."""
    resource = velero(kind.plural)
    if names:
        return [await client.get(resource, name, settings.namespace) for name in names]
    return await client.list_all(resource, settings.namespace, label_selector=selector)


def get(ctx: click.Context, kind: Kind, names: Sequence[str], selector: str, output: OutputFlags) -> None:
    """Print the named objects or all of them."""
    settings = server_settings(ctx, f"{kind.noun} get")

    async def work() -> list[JSONObject]:
        async with open_cluster(settings) as client:
            return await find(client, settings, kind, names, selector)

    print_list(run_async(work()), kind, output)


def print_list(objects: Sequence[JSONObject], kind: Kind, output: OutputFlags) -> None:
    """Print objects; none at all are an empty list in JSON and YAML, and nothing otherwise."""
    if not objects and output.format in ("json", "yaml"):
        click.echo(encode(object_list([], f"{kind.kind}List"), output.format))
    else:
        print_objects(objects, kind.table(), output)


def delete(
    ctx: click.Context,
    kind: Kind,
    names: Sequence[str],
    *,
    confirm: bool,
    everything: bool,
    selector: LabelSelector | None,
) -> None:
    """Delete the chosen objects; those not found are reported at the end. (docs/spec: CLI 4.4)"""
    settings = server_settings(ctx, f"{kind.noun} delete")
    exactly_one(len(names), everything, selector, kind.noun)
    chosen = Selector.from_label_selector(selector)
    if selector is not None and chosen.empty:
        raise InvalidInput(f"--selector must not be empty; use --all to delete all {kind.noun}s")
    if not confirm and not confirmed():
        return
    errors = run_async(_delete(settings, kind, names, str(chosen)))
    if errors:
        raise CommandError(aggregate(errors))


async def _delete(settings: Settings, kind: Kind, names: Sequence[str], selector: str) -> list[str]:
    """Delete what was named, or what the selector finds. Returns the errors."""
    async with open_cluster(settings) as client:
        if names:
            return await _delete_each(client, settings, kind, list(dict.fromkeys(names)), named=True)
        found = await find(client, settings, kind, (), selector)
        if not found:
            click.echo(f"No {kind.noun}s found")
        chosen = [obj["metadata"]["name"] for obj in found]
        return await _delete_each(client, settings, kind, chosen, named=False)


async def _delete_each(
    client: "KubeClient", settings: Settings, kind: Kind, names: Sequence[str], *, named: bool
) -> list[str]:
    errors = []
    for name in names:
        try:
            await client.delete(velero(kind.plural), name, settings.namespace)
        except NotFound as exc:
            if not exc.reason:
                raise  # it is the kind that the cluster does not know
            if named:
                errors.append(str(exc))
                continue
            # Somebody else was quicker, which is as good.
        except KubeError as exc:
            errors.append(str(exc))
            continue
        click.echo(kind.deleted.format(name))
    return errors
