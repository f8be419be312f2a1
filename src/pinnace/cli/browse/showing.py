"""Implements `backup show`."""

import click

from pinnace.api.objects import JSONObject
from pinnace.browse.masking import masked
from pinnace.browse.stored import decoded
from pinnace.cli.browse.opening import Library, browse, chosen, required_item
from pinnace.cli.browse.rows import check_format, print_data
from pinnace.cli.browse.show import ShowOptions
from pinnace.cli.errors import InvalidInput


def show(ctx: click.Context, options: ShowOptions) -> None:
    """Print one object as it was stored."""
    form = check_format(options.output_format or "yaml", ("yaml", "json"))
    name, *words = options.names
    choice = chosen(options, None, words)
    if not choice.name:
        raise InvalidInput("give the object as KIND/NAME")

    async def work(library: Library) -> JSONObject:
        backup = await library.open(name)
        entry = await required_item(backup, choice)
        found = decoded(await backup.content(entry), name, entry)
        return found if options.show_secrets else masked(found, entry.resource)

    print_data(browse(ctx, options, work), form)
