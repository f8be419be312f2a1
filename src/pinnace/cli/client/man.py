"""`man`: the manual pages. (docs/adr/056)"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from pinnace.api.values.counts import counted
from pinnace.api.values.digits import is_digits
from pinnace.cli.client.help import explanation
from pinnace.cli.declaring.commands import command
from pinnace.cli.declaring.fields import Options, arguments, flag, switch
from pinnace.cli.declaring.values import COMMAND, FOLDER
from pinnace.cli.errors import CommandError, InvalidInput

_SHOWN_BY = (("man", "-l", "-"), ("mandoc", "-a"))
"""The programs that lay out a page and show it in a pager, the first to try first."""


class ManOptions(Options):
    """`man`."""

    words: Sequence[str] = arguments("[COMMAND...|TOPIC]", COMMAND)
    folder: str = flag(
        "--write", type=click.Path(), default="", value=FOLDER, help="Write all pages into this folder."
    )
    install: bool = switch(
        help="Write all pages where `man` finds them: beside the program, or for this user."
    )


@command(
    "man",
    ManOptions,
    short_help="Show, print or install the manual pages.",
    examples=(
        ("Read the page of a command", "pinnace man backup create"),
        ("Read the page of a topic", "pinnace man filters"),
        ("Let man find all pages", "pinnace man --install"),
    ),
)
def man(ctx: click.Context, options: ManOptions) -> None:
    """Show the manual page of a command or topic; into a pipe or file its source is printed, for `man -l -`.

    With --install or --write all pages are written, into the folders man1 and man7 of a folder such as
    ~/.local/share/man.
    """
    from pinnace._version import __version__
    from pinnace.cli.nouns import noun_first
    from pinnace.cli.usage.manual import manual_pages

    words, folder, install = options.words, options.folder, options.install
    root = ctx.find_root().command
    assert isinstance(root, click.Group)
    pages = manual_pages(root, __version__, _date())
    if install and folder:
        raise InvalidInput("give either --install or --write FOLDER")
    if install or folder:
        if words:
            raise InvalidInput(
                f"{'--install' if install else '--write'} writes all pages: leave out the command"
            )
        where = _found_by_man(ctx.find_root().info_name or "pinnace") if install else Path(folder)
        click.echo(f"Wrote {counted(_write(pages, where), 'page')} to {where}.")
        return
    name = "-".join(("pinnace", *noun_first(words).split()))
    page = pages.get(f"{name}.1") or pages.get(f"{name}.7")
    if page is None:
        raise click.UsageError(
            f"there is no manual page of {' '.join(words)!r}; `pinnace help` lists commands"
        )
    if not sys.stdout.isatty():
        click.echo(page, nl=False)
    elif not _show(page):
        click.echo_via_pager(explanation(ctx, words))


def _show(page: str) -> bool:
    """Show a page on the terminal. Returns whether there is a program that can."""
    for words in _SHOWN_BY:
        if shutil.which(words[0]) is None:
            continue
        # What it says of a flag that it does not know is not for the user: the next way is tried.
        ran = subprocess.run(  # noqa: S603 - the words are ours
            words, input=page, text=True, stderr=subprocess.DEVNULL, check=False
        )
        if ran.returncode == 0:
            return True
    return False


def _found_by_man(program: str) -> Path:
    """The folder that `man` looks into for this program: `share/man` beside the `bin` that it is run from.

    Where that may not be written, or the program is not on the PATH, it is the one of the user.
    """
    own = Path(os.path.expanduser("~")) / ".local" / "share" / "man"
    found = shutil.which(program)
    if found is None:
        return own
    beside = Path(found).parent.parent / "share" / "man"
    nearest = next(folder for folder in (beside, *beside.parents) if folder.exists())
    return beside if os.access(nearest, os.W_OK) else own


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
