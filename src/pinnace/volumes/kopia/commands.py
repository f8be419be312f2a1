"""kopia's command lines: pure. They hold no secret: those are in the environment or in private files."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pinnace.storage.uploader_store import KopiaStorage
from pinnace.volumes.uploader.errors import InvalidSnapshot
from pinnace.volumes.uploader.processes import Arguments

IDENTITY: Final = "default@default"
"""User and host of all snapshots, and the owner of the maintenance, as Velero's. (docs/spec: KOP 2, 5)"""

PIN: Final = "velero-pin"
DESCRIPTION: Final = "Kopia Uploader"
UPLOADER_TAG: Final = "snapshot-uploader"
IMAGE_SIZE_TAG: Final = "bdev-source-size"
"""The tag of Velero's block mover with the size of the device in bytes. (docs/spec: AFT 5.5)"""

BLOCK_FILE: Final = "volume"
"""The one file of a snapshot of a volume in Block mode."""

CHECKPOINT: Final = "5m"
"""How often kopia stores a checkpoint while it saves a volume: if it is killed, data before the last one is
not sent again. kopia's default is 45 minutes."""

_GLOBAL: Final = ("--disable-file-logging", "--no-auto-maintenance", "--no-persist-credentials")
_KEEP: Final = 2**31 - 1
_NO_FILE: Final = "no/file"
_SNAPSHOT_ID: Final = re.compile(r"[0-9a-f]{32}")
_OBJECT_ID: Final = re.compile(r"[A-Za-z0-9]{8,128}")

_PERIODS: Final = ("Latest", "Hourly", "Daily", "Weekly", "Monthly", "Annual")

POLICY: Final[Mapping[str, Any]] = {
    "retention": {f"keep{period}": _KEEP for period in _PERIODS},
    "files": {
        "noParentIgnore": True,
        # A name that no file can have, in place of `.kopiaignore`: an empty list means the default.
        "ignoreDotFiles": [_NO_FILE],
        "noParentDotFiles": True,
        "ignoreCacheDirs": False,
        "oneFileSystem": False,
    },
    "errorHandling": {
        "ignoreFileErrors": False,
        "ignoreDirectoryErrors": False,
        "ignoreUnknownTypes": True,
    },
    "scheduling": {"manual": True},
    "compression": {"compressorName": "none"},
}
"""The policy to keep everything until it is deleted, and to leave nothing out. (docs/spec: KOP 3)

kopia by itself removes old snapshots, and skips what `.kopiaignore` names and directories that are tagged as
caches."""


def command_line(arguments: Arguments, program: str) -> list[str]:
    """The program and all of its arguments."""
    return [program, *_GLOBAL, *arguments]


def shown_line(arguments: Arguments, program: str, directory: Path) -> str:
    """The command line for messages, with private files named without path: equal for equal calls."""
    return " ".join([program, *arguments]).replace(f"{directory}/", "")


def status() -> Arguments:
    """Open the repository and print its unique id."""
    return ("repository", "status", "--json")


def change_password() -> Arguments:
    """Write both format blobs for the password in KOPIA_NEW_PASSWORD."""
    return ("repository", "change-password")


def create(storage: KopiaStorage, flags: list[str]) -> Arguments:
    """Make a repository."""
    user, _, host = IDENTITY.partition("@")
    names = (f"--override-username={user}", f"--override-hostname={host}")
    return ("repository", "create", storage.command or storage.kind, *flags, *names, "--no-check-for-updates")


def retention_flags(mode: str, hours: int) -> list[str]:
    """The arguments that make kopia put what it stores with a retention."""
    return [f"--retention-mode={mode.upper()}", f"--retention-period={hours}h"]


def hold(mode: str, hours: int) -> Arguments:
    """Give a repository that is there a retention of what it stores from now on."""
    return ("repository", "set-parameters", *retention_flags(mode, hours))


def extend_locks() -> Arguments:
    """Have full maintenance extend the retention of what is still used."""
    return ("maintenance", "set", "--extend-object-locks=true")


def set_policy(file: Path) -> Arguments:
    """Set the policies that a file of `policy` names."""
    return ("policy", "import", f"--from-file={file}")


def show_policy() -> Arguments:
    """Print the policy of the repository."""
    return ("policy", "show", "--global", "--json")


def policy() -> bytes:
    """The policy of the repository in the form of a file for `set_policy`."""
    return json.dumps({"(global)": POLICY}).encode()


def save(
    path: Path,
    *,
    name: str,
    tags: Mapping[str, str],
    parallel: int = 0,
    block: bool = False,
    reads_all: bool = False,
) -> Arguments:
    """Save a directory, or with `block` the standard input, whose path is only a name then."""
    args = [
        *("snapshot", "create", "--json", "--progress-update-interval=1s", "--no-send-snapshot-report"),
        f"--checkpoint-interval={CHECKPOINT}",
        *(f"--override-source={IDENTITY}:{name or path}", f"--description={DESCRIPTION}", f"--pin={PIN}"),
        *(f"--tags={key}:{value}" for key, value in sorted({**tags, UPLOADER_TAG: "kopia"}.items())),
    ]
    if parallel > 0:
        args.append(f"--parallel={parallel}")
    if reads_all:
        args.append("--force-hash=100")  # percent of the files
    if block:
        return (*args, f"--stdin-file={BLOCK_FILE}", "/volume")
    return (*args, str(path))


def restore(
    snapshot: str,
    path: Path,
    *,
    only: str = "",
    parallel: int = 0,
    sparse: bool = False,
    keep_unchanged: bool = False,
) -> Arguments:
    """Restore over what is in a directory.

    Args:
        keep_unchanged: leave files of the same size whose time differs by less than two seconds.
    """
    flags = [f"--parallel={parallel}"] if parallel > 0 else []
    if sparse:
        flags.append("--write-sparse-files")
    if keep_unchanged:
        flags.append("--skip-existing")
    source = f"{checked(snapshot)}/{only}" if only else checked(snapshot)
    return ("restore", "--progress-update-interval=1s", *flags, source, str(path))


def listing(snapshot: str) -> Arguments:
    """List the root of a snapshot."""
    return ("ls", "-l", checked(snapshot))


def show(obj: str) -> Arguments:
    """Write the content of one object to standard output."""
    if not _OBJECT_ID.fullmatch(obj):
        raise InvalidSnapshot(obj)
    return ("show", obj)


def manifest(snapshot: str) -> Arguments:
    """Print the manifest of a snapshot, behind comments."""
    return ("manifest", "show", checked(snapshot))


def contents(ids: Iterable[str]) -> Arguments:
    """Write contents to standard output, each with a new line behind it."""
    return ("content", "show", *ids)


def forget(snapshot: str) -> Arguments:
    """Remove the manifest of a snapshot."""
    return ("snapshot", "delete", "--delete", checked(snapshot))


def snapshots(*, incomplete: bool = False, tags: Mapping[str, str] | None = None) -> Arguments:
    """List the snapshots of all sources, with `incomplete` also those that killed calls have left.

    Args:
        tags: only snapshots that have all of these.
    """
    flags = [f"--tags={key}:{value}" for key, value in sorted((tags or {}).items())]
    return ("snapshot", "list", "--all", "--json", *(("--incomplete",) if incomplete else ()), *flags)


def verify(snapshots: Iterable[str], percent: float) -> Arguments:
    """Check that all data of snapshots is there, and read a share of their files."""
    ids = sorted({checked(snapshot) for snapshot in snapshots})
    return ("snapshot", "verify", f"--verify-files-percent={percent:g}", "--max-errors=10", *ids)


def maintenance() -> Arguments:
    """Print the settings of the maintenance, and when it was last done."""
    return ("maintenance", "info", "--json")


def own_maintenance() -> Arguments:
    """Make us the owner of the maintenance; only where there is none."""
    return ("maintenance", "set", f"--owner={IDENTITY}")


def full_maintenance_interval(hours: int) -> Arguments:
    """Set how often full maintenance is done."""
    return ("maintenance", "set", f"--full-interval={hours}h")


def maintain(*, full: bool) -> Arguments:
    """Run maintenance with kopia's safety margins."""
    return ("maintenance", "run", *(("--full",) if full else ()))


def checked(snapshot: str) -> str:
    """The id of a snapshot. Raises InvalidSnapshot: it must not become another argument."""
    if not _SNAPSHOT_ID.fullmatch(snapshot):
        raise InvalidSnapshot(snapshot)
    return snapshot
