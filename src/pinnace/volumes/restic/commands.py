"""restic's command lines: pure. (docs/spec: PVL 7.1)

They hold no secret: the password is in a file, credentials are in the environment or in files it names, and
so is the identifier of a repository that has credentials in it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pinnace.volumes.restic.identifiers import without_credentials
from pinnace.volumes.uploader.errors import InvalidSnapshot
from pinnace.volumes.uploader.processes import Arguments
from pinnace.volumes.uploader.share import ReadShare

HOST = "velero"
"""Fixed, as the parent of a snapshot is looked for by host, and an agent's pod has another name each time."""

_SNAPSHOT_ID = re.compile(r"[0-9a-f]{4,64}")
_FIRST_WITH_REPOSITORY_VERSION = (0, 14)
_FIRST_WITH_LINK_TARGETS = (0, 16)
_FIRST_WITH_OVERWRITE = (0, 17)
_VERSION = re.compile(r"restic ([0-9]+)\.([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedRepository:
    """A repository, and the files and the environment that calls of restic need for it.

    Attributes:
        environment: all of it; nothing is inherited.
    """

    identifier: str
    password_file: Path | None = None
    ca_file: Path | None = None
    cache_directory: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


def command_line(arguments: Arguments, repository: OpenedRepository, *, program: str = "restic") -> list[str]:
    """The program and all of its arguments, in Velero's order."""
    line = [program, arguments[0]]
    if not identifier_is_secret(repository.identifier):
        line.append(f"--repo={repository.identifier}")
    if repository.password_file is not None:
        line.append(f"--password-file={repository.password_file}")
    if repository.ca_file is not None:
        line.append(f"--cacert={repository.ca_file}")
    if repository.cache_directory is not None:
        line.append(f"--cache-dir={repository.cache_directory}")
    return [*line, *arguments[1:]]


def shown_line(arguments: Arguments, repository: OpenedRepository, *, program: str = "restic") -> str:
    """The command line for messages: the same for the same call, as private files are named without path."""
    shown = OpenedRepository(
        identifier=repository.identifier,
        password_file=Path(repository.password_file.name) if repository.password_file is not None else None,
        ca_file=Path(repository.ca_file.name) if repository.ca_file is not None else None,
        cache_directory=repository.cache_directory,
    )
    return without_credentials(" ".join(command_line(arguments, shown, program=program)))


def identifier_is_secret(identifier: str) -> bool:
    """Whether the identifier holds credentials, which must not be seen in a list of processes."""
    return without_credentials(identifier) != identifier


def backup(tags: Mapping[str, str], *, parent: str = "", reads_all: bool = False) -> Arguments:
    """Save the working directory. Tags are sorted, so that equal calls look equal."""
    flags = [*(f"--tag={name}={value}" for name, value in sorted(tags.items())), f"--host={HOST}", "--json"]
    if parent:
        flags.append(f"--parent={_checked(parent)}")
    if reads_all:
        flags.append("--force")
    return ("backup", ".", *flags)


def find_snapshot(tags: Mapping[str, str]) -> Arguments:
    """List the newest snapshot that has all of these tags."""
    return ("snapshots", "--json", "--last", f"--tag={_joined(tags)}")


def find_snapshots(tags: Mapping[str, str]) -> Arguments:
    """List all snapshots that have all of these tags."""
    return ("snapshots", "--json", f"--tag={_joined(tags)}")


def list_snapshots() -> Arguments:
    """List all snapshots, as the repository has them: single ones may come from restic's own cache."""
    return ("snapshots", "--json")


def stats(snapshot: str) -> Arguments:
    """Print the size of a snapshot when restored."""
    return ("stats", _checked(snapshot), "--json")


def restore(snapshot: str, *, only: str = "", keep_unchanged: bool = False) -> Arguments:
    """Restore into the working directory: all, or what is below one directory of the snapshot.

    Args:
        keep_unchanged: leave files that have the size and time of the snapshot (`keeps_unchanged`).
    """
    flags = ("--target=.", f"--include=/{only}") if only else ("--target=.",)
    if keep_unchanged:
        flags = (*flags, "--overwrite=if-changed")
    return ("restore", _checked(snapshot), *flags)


def list_files(snapshot: str) -> Arguments:
    """List all files of a snapshot, each directory before its content."""
    return ("ls", _checked(snapshot), "--json")


def find_file(snapshot: str, name: str) -> Arguments:
    """List one file at the root of a snapshot, if it is there."""
    return ("ls", _checked(snapshot), f"/{name}", "--json")


def connect() -> Arguments:
    """Open the repository with the password; the list that it prints is not used."""
    return ("snapshots", "--last")


def init(*, version_flag: bool) -> Arguments:
    """Make a repository, in the format that restic 0.12 can read, whatever the program makes by itself."""
    return ("init", *(("--repository-version=1",) if version_flag else ()))


def knows_repository_version(version_output: str) -> bool:
    """Whether `init` has the flag, by what `restic version` prints; a program without number is a new one."""
    found = _VERSION.search(version_output)
    return found is None or (int(found[1]), int(found[2])) >= _FIRST_WITH_REPOSITORY_VERSION


def keeps_link_targets(version_output: str) -> bool:
    """Whether targets of links that are not UTF-8 are kept, by what `restic version` prints."""
    found = _VERSION.search(version_output)
    return found is None or (int(found[1]), int(found[2])) >= _FIRST_WITH_LINK_TARGETS


def keeps_unchanged(version_output: str) -> bool:
    """Whether `restore` can leave unchanged files, by what `restic version` prints."""
    found = _VERSION.search(version_output)
    return found is None or (int(found[1]), int(found[2])) >= _FIRST_WITH_OVERWRITE


def add_password(file: Path) -> Arguments:
    """Add a key for the password in a file; those that are there stay."""
    return ("key", "add", f"--new-password-file={file}", f"--host={HOST}")


def list_keys() -> Arguments:
    """List the keys; the one that opened the repository is marked."""
    return ("key", "list", "--json")


def remove_key(key: str) -> Arguments:
    """Remove a key; restic refuses the one that it has opened the repository with."""
    return ("key", "remove", _checked(key))


def unlock() -> Arguments:
    """Remove locks that are stale by restic's own rule: of a dead process of this host, or 30 minutes old."""
    return ("unlock",)


def prune() -> Arguments:
    """Free the space of data that no snapshot needs."""
    return ("prune",)


def check(share: ReadShare) -> Arguments:
    """Check the repository and read a share of its packs.

    Without a lock: restic's own of a check is exclusive, and would make backups wait or fail.
    """
    if share.part is None:
        return ("check", "--no-lock", f"--read-data-subset={share.percent:g}%")
    return ("check", "--no-lock", f"--read-data-subset={share.part[0]}/{share.part[1]}")


def forget(snapshot: str) -> Arguments:
    """Remove a snapshot; one that is gone is success."""
    return ("forget", _checked(snapshot))


def _joined(tags: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(tags.items()))


def _checked(snapshot: str) -> str:
    """The id of a snapshot. Raises InvalidSnapshot: it must not become another argument."""
    if not _SNAPSHOT_ID.fullmatch(snapshot):
        raise InvalidSnapshot(snapshot)
    return snapshot
