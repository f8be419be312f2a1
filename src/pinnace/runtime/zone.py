"""The time zone of the server's clock, which schedules and the names of their backups follow. (CTL 4.3, 4.4)

As Go finds it: `TZ` if it is set, which may be empty for UTC; else the system's `/etc/localtime`; and UTC if
that is missing or cannot be read, as in most images.
"""

from collections.abc import Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

LOCALTIME = Path("/etc/localtime")


def local_zone(environ: Mapping[str, str], *, localtime: Path = LOCALTIME) -> tzinfo:
    """The zone by `TZ`, a name of the zone database or an absolute path, or by the system."""
    name = environ.get("TZ")
    if name == "":
        return UTC
    try:
        if name is None:
            return _from_file(localtime) if localtime.exists() else UTC
        name = name.removeprefix(":")
        return _from_file(Path(name)) if name.startswith("/") else ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:  # a name that is not known is a KeyError
        log.warning("Time zone cannot be read, using UTC", TZ=name or "", error=error)
    return UTC


def _from_file(path: Path) -> tzinfo:
    with path.open("rb") as file:
        return ZoneInfo.from_file(file, key=str(path))
