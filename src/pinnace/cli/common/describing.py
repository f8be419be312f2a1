"""The options of descriptions, and the type of the functions that make them."""

from collections.abc import Awaitable, Callable

import msgspec

from pinnace.api.objects import JSONObject
from pinnace.api.values.shell_words import joined
from pinnace.client.interface import Backend, DownloadOptions

DOWNLOAD_TIMEOUT_SECONDS = 30.0


class View(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a description.

    Attributes:
        program: the name of the program in hints, as the user called it.
        given: the flags that make a command of a hint find the same objects.
        colour: whether to use colours.
        details: whether to show what has to be downloaded, and each volume.
        csi: whether to show CSI snapshots.
        json: whether to describe as JSON.
        downloads: how to download.
    """

    program: str = "pinnace"
    given: tuple[str, ...] = ()
    colour: bool = False
    details: bool = False
    csi: bool = False
    json: bool = False
    downloads: DownloadOptions = msgspec.field(
        default_factory=lambda: DownloadOptions(timeout_seconds=DOWNLOAD_TIMEOUT_SECONDS)
    )

    def command_line(self, *words: str) -> str:
        """A command for the user to paste into the shell."""
        return joined(self.program, [*words], [*self.given])


Description = str | JSONObject
"""A description as text, or as data if the view asks for JSON."""

Describer = Callable[[Backend, JSONObject, View], Awaitable[Description]]
"""Describes one object of a noun; the backend has what belongs to it."""
