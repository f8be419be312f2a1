"""`get` of all nouns: finding and listing objects. (docs/spec: CLI 2, 4.2)"""

from collections.abc import Callable, Sequence

import click

from pinnace.api.objects import JSONObject
from pinnace.cli.backends import open_backend
from pinnace.cli.common.options import GetOptions
from pinnace.cli.common.waiting import notes, notes_of_idle
from pinnace.cli.connect import caller, command_line, need_no_location, open_cluster, run_async, settings_of
from pinnace.cli.errors import InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.kinds import IN_LOCATIONS, KINDS, PrintedKind
from pinnace.cli.output.printing import OutputFlags, encode, in_order, object_list, print_objects
from pinnace.cli.settings import Settings
from pinnace.cli.structs import replace
from pinnace.client.interface import Backend
from pinnace.kube import errors as kube_errors

RUNS = frozenset({"backups", "restores"})
"""The resources whose objects may have to wait before they begin."""


def server_settings(ctx: click.Context, command: str) -> Settings:
    """The settings of a command that has no meaning without a server. Raises InvalidInput."""
    settings = settings_of(ctx)
    need_no_location(settings, command)
    return settings


def settings_for(ctx: click.Context, kind: PrintedKind, verb: str) -> Settings:
    """The settings of a command about a kind. Raises InvalidInput for a kind that no location has."""
    return settings_of(ctx) if kind.noun in IN_LOCATIONS else server_settings(ctx, f"{kind.noun} {verb}")


def check_one_way(names: Sequence[str], selector: str) -> None:
    """Refuse names together with a selector: one would have to be ignored. Raises InvalidInput."""
    if names and selector:
        raise InvalidInput("give either names or --selector: a named object is shown whatever its labels")


async def find(backend: Backend, kind: PrintedKind, names: Sequence[str], selector: str) -> list[JSONObject]:
    """The named objects, or without names all that match. The first failure is raised."""
    if kind.former:
        return await _with_former(backend, kind, names, selector)
    if names:
        return [await backend.object(kind.plural, name) for name in names]
    return await backend.objects(kind.plural, selector)


async def _with_former(
    backend: Backend, kind: PrintedKind, names: Sequence[str], selector: str
) -> list[JSONObject]:
    """Objects of a kind and of the one that it replaced; the cluster may serve only one of them."""
    served, found = 0, []
    for plural in (kind.plural, kind.former):
        try:
            found += await backend.objects(plural, "" if names else selector)
            served += 1
        except kube_errors.NotFound:
            continue
    if not served:
        return await backend.objects(kind.plural)  # raises the error that the cluster does not serve the kind
    if not names:
        return found
    by_name = {obj["metadata"]["name"]: obj for obj in reversed(found)}
    return [by_name[name] if name in by_name else await backend.object(kind.plural, name) for name in names]


def get(ctx: click.Context, noun: str, options: GetOptions) -> None:
    """Print the named objects or all of them."""
    output, kind = options.printed(default="table"), KINDS[noun]
    check_one_way(options.names, options.selector)
    settings = settings_for(ctx, kind, "get")

    output = replace(output, colour=settings.colour, single=len(options.names) == 1)
    if options.watch:
        watch(settings, kind, options, output)
        return
    is_for_people = output.format in ("table", "wide", "name")

    async def work() -> tuple[list[JSONObject], list[str]]:
        async with open_backend(settings) as backend:
            found = await find(backend, kind, options.names, options.selector)
            if not is_for_people:
                return found, []
            remark = "" if options.names else await backend.remark()
            said = [remark] if remark else []
            if not found:
                return found, [await nothing_found(backend, kind, options.selector), *said]
            if output.format == "name":
                return found, said
            if kind.plural in RUNS:
                return found, [*said, *await notes(backend, kind.noun, found)]
            return found, [*said, *await notes_of_idle(backend, kind, found)]

    found, said = run_async(work())
    print_list(found, kind, output)
    for each in said:
        complain(each)


def watch(
    settings: Settings,
    kind: PrintedKind,
    options: GetOptions,
    output: OutputFlags,
    wanted: Callable[[JSONObject], bool] = lambda _obj: True,
) -> None:
    """Print the objects, then each one that changes, until the command is interrupted.

    Args:
        wanted: whether an object is shown.
    """
    from pinnace.cli.common.following import Followed, follow
    from pinnace.client.server import ServerBackend
    from pinnace.kube.resources import velero

    if settings.location is not None:
        raise InvalidInput(
            "--watch needs a server: nobody tells of changes in a location; repeat the command, as"
            f" `watch -n 10 {command_line(settings, kind.noun, 'get')}` does"
        )

    async def work() -> None:
        async with open_cluster(settings) as client:
            backend = ServerBackend(client, settings.namespace, caller())
            # What is refused or not there is an error at once; the watch itself is tried again for ever.
            if not await find(backend, kind, options.names, options.selector):
                complain(await nothing_found(backend, kind, options.selector))
            followed = Followed(
                resource=velero(kind.plural),
                namespace=settings.namespace,
                noun=kind.noun,
                names=options.names,
                selector=options.selector,
                wanted=wanted,
            )
            await follow(client, followed, kind.table, output)

    run_async(work())


async def nothing_found(backend: Backend, kind: PrintedKind, selector: str) -> str:
    """The message that there are no objects, where they would be, and why there may be none."""
    with_labels = f" match {selector!r}" if selector else ""
    text = f"No {kind.noun}s in {backend.title}{with_labels}."
    if why := await backend.why_empty(kind.plural):
        text += f" {_sentence(why)}"
    elif not selector and await backend.absence():
        text += " No server runs there; -n names the namespace of one."
    return text


async def say_why_empty(settings: Settings, kind: PrintedKind) -> None:
    """Say on stderr why there may be none, such as a namespace that does not exist, if that is known."""
    async with open_backend(settings) as backend:
        if why := await backend.why_empty(kind.plural):
            complain(_sentence(why))


def _sentence(why: str) -> str:
    return f"{why[0].upper()}{why[1:]}" + ("" if why.endswith("?") else ".")


def print_list(objects: Sequence[JSONObject], kind: PrintedKind, output: OutputFlags) -> None:
    """Print objects; none at all are an empty list in JSON and YAML, and nothing otherwise."""
    if not objects and output.format in ("json", "yaml"):
        click.echo(encode(object_list([], f"{kind.kind}List"), output.format))
    else:
        print_objects(in_order(objects, output), kind.table(), output)
