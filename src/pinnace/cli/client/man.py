"""`man`: the manual pages. (docs/adr/056)"""

import os
import time
from pathlib import Path

import click

from pinnace.api.values.digits import is_digits
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.flags import Command


@click.command("man", cls=Command, short_help="Print or write the manual pages.")
@click.argument("words", nargs=-1, metavar="[COMMAND...|TOPIC]")
@click.option("--write", "folder", type=click.Path(), default="", help="Write all pages into this folder.")
@click.pass_context
def command(ctx: click.Context, /, words: tuple[str, ...], folder: str) -> None:
    """Print the manual page of a command or topic, for `man -l -`; or write all pages where man finds them.

    The pages go into the folders man1 and man7 of the one that --write names, such as ~/.local/share/man.
    """
    from pinnace import __version__
    from pinnace.cli.usage.manual import manual_pages
    from pinnace.cli.usage.values import noun_first

    root = ctx.find_root().command
    assert isinstance(root, click.Group)
    pages = manual_pages(root, __version__, _date())
    if folder:
        if words:
            raise InvalidInput("--write writes all pages: leave out the command")
        click.echo(f"Wrote {_write(pages, Path(folder))} pages to {folder}.")
        return
    name = "-".join(("pinnace", *noun_first(words).split()))
    page = pages.get(f"{name}.1") or pages.get(f"{name}.7")
    if page is None:
        raise click.UsageError(
            f"there is no manual page of {' '.join(words)!r}; `pinnace help` lists commands"
        )
    click.echo(page, nl=False)


def _date() -> str:
    """Today, or the date in SOURCE_DATE_EPOCH, so that a build can be repeated."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    return time.strftime("%Y-%m-%d", time.gmtime(int(epoch) if is_digits(epoch) else None))


def _write(pages: dict[str, str], folder: Path) -> int:
    """Write the pages; returns how many. Raises CommandError."""
    try:
        for name, text in pages.items():
            path = folder / f"man{name[-1]}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write the manual pages: {error.filename}: {error.strerror}") from error
    return len(pages)
