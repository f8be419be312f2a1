"""Parsers of kopia's output; missing and new fields do no harm. Pure."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from pinnace.api.objects import JSONObject, mapping
from pinnace.api.values.digits import is_digits
from pinnace.api.velero.data_movement import BLOCK_MOVER
from pinnace.volumes.kopia.commands import IMAGE_SIZE_TAG, UPLOADER_TAG
from pinnace.volumes.uploader.errors import (
    CommandFailed,
    DataDamaged,
    RepositoryExists,
    RepositoryMissing,
    RepositoryUnusable,
    SnapshotMissing,
    UnexpectedOutput,
    Unsupported,
    WrongPassword,
)
from pinnace.volumes.uploader.output import ByteCounts, Tail, json_object, listed_snapshots, positive_number

LONGEST_LINE_BYTES: Final = 1 << 16

_NANOSECONDS_OF_HOUR: Final = 3600 * 10**9
_UNITS: Final = {"B": 0, "KB": 1, "MB": 2, "GB": 3, "TB": 4, "PB": 5, "EB": 6}
_SIZE: Final = r"([0-9.]+ [KMGTPE]?B)"
_SAVING: Final = re.compile(rf"hashed \({_SIZE}\), \d+ cached \({_SIZE}\)(?:.*?estimated {_SIZE})?")
_RESTORING: Final = re.compile(rf"^Processed \d+ \({_SIZE}\) of \d+ \({_SIZE}\)")
_PROGRESS: Final = re.compile(r"\d+ hashing, \d+ hashed|^Processed \d+ \(|^Restoring to |^Snapshotting ")
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z")
_DEVICE_BYTES: Final = re.compile(r"[1-9][0-9]{0,18}")
_ERRORS_SHOWN: Final = 3
_SECTIONS_OF_CONTENT: Final = frozenset({"files", "retention"})
"""The sections of a policy that decide which files are saved, and which snapshots are kept."""

_BY_TEXT: Final = (
    (
        "invalid repository password",
        WrongPassword,
        "the password does not open the repository: this namespace needs the Secret velero-repo-credentials"
        " of the installation that made the repository",
    ),
    ("kopia.repository blob: BLOB not found", RepositoryMissing, "there is no repository"),
    ("not initialized in the provided storage", RepositoryMissing, "there is no repository"),
    ("cannot access storage path", RepositoryMissing, "there is no repository"),
    ("found existing data in storage location", RepositoryExists, "there is other data under its prefix"),
    ("no snapshots matched", SnapshotMissing, "there is no such snapshot"),
    ("requested snapshot IDs to verify", SnapshotMissing, "there is no such snapshot"),
    ("is backed by missing blob", DataDamaged, "data of the snapshot is missing"),
    ("unexpected content error", DataDamaged, "data of the snapshot is not what was stored"),
    ("object not found", SnapshotMissing, "there is no such snapshot"),
    ("unable to decrypt repository", RepositoryUnusable, "the repository is damaged"),
    ("invalid format blob", RepositoryUnusable, "the repository is damaged"),
    ("unable to parse repository format", RepositoryUnusable, "the repository is damaged"),
    ("can't parse format blob", RepositoryUnusable, "the repository is damaged"),
    (
        "can't handle repositories created using version",
        RepositoryUnusable,
        "the repository is of another format",
    ),
    ("unsupported", RepositoryUnusable, "the repository is of a format that this kopia does not know"),
)


class Messages:
    """Takes the standard error: keeps the last progress, and the end of everything else."""

    def __init__(self, limit_bytes: int) -> None:
        self._rest = bytearray()
        self._progress = ""
        self._said = Tail(limit_bytes)

    def feed(self, chunk: bytes) -> None:
        """Take a part of the output; lines may be cut anywhere."""
        self._rest += chunk
        *complete, rest = re.split(rb"[\r\n]", bytes(self._rest))
        self._rest = bytearray(rest[-LONGEST_LINE_BYTES:])
        for line in complete:
            self._take(line)

    @property
    def text(self) -> str:
        """The end of the messages, without progress."""
        self._take(bytes(self._rest))
        self._rest.clear()
        return self._said.text

    def progress(self) -> ByteCounts | None:
        """How far kopia is, by its last report; None before the first. The total may be an estimate."""
        if found := _SAVING.search(self._progress):
            done = _size(found[1]) + _size(found[2])
            return ByteCounts(total_bytes=max(done, _size(found[3])), bytes_done=done) if done else None
        if found := _RESTORING.search(self._progress):
            done, total = _size(found[1]), _size(found[2])
            return ByteCounts(total_bytes=max(done, total), bytes_done=done) if done else None
        return None

    def new_bytes(self) -> int:
        """How many bytes were read and hashed, as they are new or changed; -1 if kopia did not print it."""
        found = _SAVING.search(self._progress)
        return _size(found[1]) if found else -1

    def _take(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").strip()
        if _PROGRESS.search(text):
            self._progress = text
        elif text:
            self._said.feed(f"{text}\n".encode())


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot as `snapshot create` prints it.

    Attributes:
        incomplete: why it lacks a part of the volume, in kopia's word; empty if it is whole. When kopia is
            asked to stop (SIGINT, SIGTERM), it stores what it has so far and exits with success.
        failed: how many files could not be read.
        errors: the first of these files, each with its reason.
    """

    id: str
    total_bytes: int
    incomplete: str
    failed: int
    errors: tuple[str, ...]


def parse_snapshot(output: bytes) -> Snapshot:
    """The snapshot that was made. Raises UnexpectedOutput."""
    found = json_object(output)
    root = found.get("rootEntry")
    summary = root.get("summ") if isinstance(root, dict) else None
    if not isinstance(found.get("id"), str) or not isinstance(root, dict):
        raise UnexpectedOutput("kopia did not print the id of the snapshot")
    summary = summary if isinstance(summary, dict) else {}
    errors = [each for each in summary.get("errors") or [] if isinstance(each, dict)]
    return Snapshot(
        id=found["id"],
        total_bytes=positive_number(summary, "size") or positive_number(root, "size"),
        incomplete=str(found.get("incomplete") or summary.get("incomplete") or ""),
        failed=positive_number(summary, "numFailed"),
        errors=tuple(f"{each.get('path')}: {each.get('error')}" for each in errors[:_ERRORS_SHOWN]),
    )


def parse_root(output: bytes) -> str:
    """The object of the root of a snapshot, as `manifest show` prints it. Raises UnexpectedOutput."""
    found = _manifest(output)
    root = found.get("rootEntry")
    obj = root.get("obj") if isinstance(root, dict) else None
    if not isinstance(obj, str) or not obj:
        raise UnexpectedOutput("kopia did not print the root of the snapshot")
    return obj


def is_image(output: bytes) -> bool:
    """Whether a snapshot, as `manifest show` prints it, is one of Velero's block mover: one file, an image.

    It must never be written into a volume as a file. Its path or its tag says so.

    Raises:
        UnexpectedOutput: it is no manifest.
    """
    found = _manifest(output)
    path = mapping(found, "source").get("path")
    names = path.split("/") if isinstance(path, str) else []
    return BLOCK_MOVER in names or BLOCK_MOVER in _tagged(found, UPLOADER_TAG)


class DirectoryEntry(msgspec.Struct, frozen=True):
    """An entry of a directory in a snapshot."""

    name: str
    obj: str
    is_file: bool
    size_bytes: int = 0


def image_bytes(output: bytes, snapshot: str, listed: Sequence[DirectoryEntry]) -> int:
    """The size of the device of an image; that of its file is rounded up. (docs/spec: AFT 5.5)

    Args:
        output: the manifest of the snapshot, as `manifest show` prints it.
        listed: the entries of its root.

    Raises:
        Unsupported: it is not an image, or holds less than the device had.
    """
    if len(listed) != 1 or not listed[0].is_file:
        raise Unsupported(f"unexpected number of bdev object ({len(listed)}) for snapshot {snapshot}")
    (entry,) = listed
    sizes = [each for each in _tagged(_manifest(output), IMAGE_SIZE_TAG) if _DEVICE_BYTES.fullmatch(each)]
    size = int(sizes[0]) if sizes else entry.size_bytes
    if size > entry.size_bytes:
        raise Unsupported(f"unexpected size ({entry.size_bytes} vs. {size}) for bdev object {entry.name}")
    return size


def _manifest(output: bytes) -> JSONObject:
    """The manifest that `manifest show` prints, behind comments; empty if there is none."""
    return json_object(output[output.find(b"\n{") + 1 :])


def _tagged(manifest: JSONObject, name: str) -> list[str]:
    """The values of a tag, which kopia's own commands store with a prefix."""
    tags = mapping(manifest, "tags")
    return [value for key in (name, f"tag:{name}") if isinstance(value := tags.get(key), str)]


def parse_unique_id(output: bytes) -> bytes:
    """The unique id of the repository, as `repository status` prints it. Raises UnexpectedOutput."""
    try:
        return bytes.fromhex(str(json_object(output)["uniqueIDHex"]))
    except (KeyError, ValueError) as error:
        raise UnexpectedOutput("kopia did not print the unique id of the repository") from error


def parse_listing(output: bytes) -> list[DirectoryEntry]:
    """The entries that `ls -l` lists: mode, size, date, time, zone, object, name."""
    entries = []
    for line in output.decode("utf-8", "replace").splitlines():
        columns = line.split(None, 6)
        if len(columns) == 7:
            size = int(columns[1]) if is_digits(columns[1]) else 0
            is_file = columns[0].startswith("-")
            entries.append(DirectoryEntry(columns[6].rstrip("/"), columns[5], is_file, size))
    return entries


def parse_policy_fits(output: bytes, wanted: Mapping[str, Any]) -> bool:
    """Whether the policy that `policy show` prints is the wanted one.

    It may have more settings, but none that leave out files or remove snapshots.
    """
    found = json_object(output)
    return all(_fits(found.get(section), values, section) for section, values in wanted.items())


def _fits(found: object, wanted: Mapping[str, Any], section: str) -> bool:
    if not isinstance(found, dict):
        return False
    more = {name: value for name, value in found.items() if name not in wanted and value}
    return not (more and section in _SECTIONS_OF_CONTENT) and all(
        found.get(name) == value for name, value in wanted.items()
    )


def parse_owner(output: bytes) -> str:
    """The owner of the maintenance, as `maintenance info` prints it; empty if there is none."""
    return str(json_object(output).get("owner") or "")


def extends_locks(output: bytes) -> bool:
    """Whether full maintenance extends the retention of what is used, as `maintenance info` prints it."""
    return json_object(output).get("extendObjectLocks") is True


def full_hours(output: bytes) -> float:
    """How many hours lie between two full maintenances, as `maintenance info` prints it; 0 if it does not."""
    full = json_object(output).get("full")
    interval = full.get("interval") if isinstance(full, dict) else None
    return interval / _NANOSECONDS_OF_HOUR if isinstance(interval, int) else 0.0


def full_is_due(output: bytes, now: datetime) -> bool:
    """Whether full maintenance is wanted and due, as `maintenance info` prints it."""
    found = json_object(output)
    full, schedule = found.get("full"), found.get("schedule")
    if not isinstance(full, dict) or not full.get("enabled"):
        return False
    due = schedule.get("nextFullMaintenance") if isinstance(schedule, dict) else None
    match = _TIME.match(due) if isinstance(due, str) else None
    return match is None or datetime.fromisoformat(f"{match[1]}+00:00") <= now


def parse_left(output: bytes, before: datetime) -> list[str]:
    """The ids of incomplete snapshots that were begun before a time, as `snapshot list` prints them."""
    left = []
    for each in (found for found in listed_snapshots(output, "kopia") if isinstance(found, dict)):
        match = _TIME.match(str(each.get("startTime")))
        began = datetime.fromisoformat(f"{match[1]}+00:00") if match is not None else before
        if each.get("incomplete") and began < before:
            left.append(str(each.get("id")))
    return left


def command_failed(command: str, *, exit_code: int, stderr: str) -> CommandFailed:
    """The error of a command that failed, by its exit code and by what it wrote to stderr."""
    errors = [line for line in stderr.splitlines() if line.startswith(("ERROR", "kopia: error"))]
    said = errors[-1] if errors else stderr
    for text, kind, reason in _BY_TEXT:
        if text in stderr:
            return kind(command, exit_code=exit_code, stderr=said, reason=reason)
    reason = "" if exit_code >= 0 else f"ended by signal {-exit_code}"
    return CommandFailed(command, exit_code=exit_code, stderr=said, reason=reason)


def _size(text: str | None) -> int:
    """The bytes of `3.2 MB`; 0 without a text."""
    if not text:
        return 0
    number, _, unit = text.partition(" ")
    try:
        return int(float(number) * 1000 ** _UNITS[unit])
    except (ValueError, KeyError):
        return 0
