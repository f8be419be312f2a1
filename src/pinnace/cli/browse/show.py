"""What `backup show` does."""

import click
import orjson

from pinnace.api.objects import JSONObject
from pinnace.browse.masking import masked
from pinnace.cli.browse.opening import Library, browse, chosen, the_one
from pinnace.cli.browse.options import ShowOptions
from pinnace.cli.browse.rows import check_format, print_data
from pinnace.cli.errors import CommandError, InvalidInput


def show(ctx: click.Context, options: ShowOptions) -> None:
    """Print one object as it was stored."""
    form = check_format(options.output_format or "yaml", ("yaml", "json"))
    name, *words = options.names
    choice = chosen(options, None, words)
    if not choice.name:
        raise InvalidInput("give the object as KIND/NAME")

    async def work(library: Library) -> JSONObject:
        backup = await library.open(name)
        entry = await the_one(backup, choice)
        return decoded(await backup.content(entry), entry.name)

    found = browse(ctx, options, work)
    print_data(found if options.show_secrets else masked(found), form)


def decoded(content: bytes, name: str) -> JSONObject:
    """An object of a backup. Raises CommandError where it is none."""
    try:
        found = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise CommandError(f"{name} cannot be decoded: {error.msg}") from error
    if not isinstance(found, dict):
        raise CommandError(f"{name} is not an object")
    return found
