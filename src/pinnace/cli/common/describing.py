"""How to describe an object."""

from dataclasses import dataclass, field

from pinnace.cli.backend.interface import DownloadOptions

DOWNLOAD_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What was asked for.

    Attributes:
        program: the name in hints: the one that the user called.
        colour: whether to use it.
        details: whether to show what has to be downloaded, and each volume.
        csi: whether to show CSI snapshots.
        downloads: how to download.
    """

    program: str = "pinnace"
    colour: bool = False
    details: bool = False
    csi: bool = False
    downloads: DownloadOptions = field(
        default_factory=lambda: DownloadOptions(timeout_seconds=DOWNLOAD_TIMEOUT_SECONDS)
    )
