"""Implements `backup index`."""

import click

from pinnace.aio.blocking import in_thread
from pinnace.api.values.counts import counted
from pinnace.archive.errors import ArchiveError
from pinnace.browse.scanning import write_index
from pinnace.cli.browse.index import IndexOptions
from pinnace.cli.browse.opening import Library, browse
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.guard import printable
from pinnace.client.location import LocationBackend


def write(ctx: click.Context, options: IndexOptions) -> None:
    """Read a backup's tarball and store its index beside it."""
    (name,) = options.names

    async def work(library: Library) -> int:
        if not isinstance(library.backend, LocationBackend):
            raise InvalidInput(
                "`backup index` writes into the location itself: give it with --location, or PINNACE_LOCATION"
            )
        backup = await library.open(name)
        tarball = await backup.tarball()
        path = library.folder / "index.json.gz"
        try:
            count = await in_thread(write_index, tarball, path)
        except (ArchiveError, OSError) as error:
            raise CommandError(f"the tarball of backup {name} cannot be read: {error}") from error
        await library.backend.store.put_index(name, path)
        return count

    count = browse(ctx, options, work)
    click.echo(printable(f"The index of backup {name} has been written: {counted(count, 'item')}."))
