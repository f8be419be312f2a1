"""The signed manifest of a backup: its files by their digests, and its predecessors. Pure. (ADR 125)"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

import msgspec
import orjson

from pinnace._version import __version__
from pinnace.api.labels import SOURCE_CLUSTER_UID
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.retention.removal import RemovalReason
from pinnace.api.values.times import format_time
from pinnace.signing.envelope import verify
from pinnace.signing.errors import BadEnvelope
from pinnace.signing.keys import PublicKey
from pinnace.signing.statement import SignedFile, Statement, decode_statement, encode_statement
from pinnace.storage.backup_files import StoredFile
from pinnace.storage.newest import Link, links_of

BACKUP_MANIFEST: Final = "https://pinnace.io/backup-manifest/v1"
"""The type of the predicate of a backup."""
REMOVAL_NOTE: Final = "https://pinnace.io/backup-removal/v1"
"""The type of the predicate of a backup that somebody with the signing key has removed."""
_SIZE: Final = "sizeBytes"
_FRAGMENT: Final = re.compile(r"sha256=([0-9a-f]{64})&size=([0-9]{1,15})")


class ManifestFile(msgspec.Struct, frozen=True):
    """A file as it was signed; its name is that behind the backup's directory."""

    sha256: str
    size_bytes: int

    @property
    def fragment(self) -> str:
        """The file as the fragment of a URL."""
        return f"#sha256={self.sha256}&size={self.size_bytes}"

    @classmethod
    def of_url(cls, url: str) -> "tuple[str, ManifestFile | None]":
        """A URL without its fragment, and the file in that; None if it says nothing of one."""
        bare, _, fragment = url.partition("#")
        found = _FRAGMENT.fullmatch(fragment)
        return bare, cls(found[1], int(found[2])) if found is not None else None


NOT_SIGNED: Final = ManifestFile(sha256="0" * 64, size_bytes=0)
"""A file that a signed backup lacks. No content has this digest, so a file that is added later is refused."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest that a trusted key has signed.

    Attributes:
        digest: SHA-256 of the manifest's own file: what a successor names.
        key: who has signed it.
        files: by name.
        predecessors: the newest signed backups of this key when the backup was made.
    """

    backup: str
    digest: str
    key: PublicKey
    files: Mapping[str, ManifestFile]
    predecessors: Sequence[Link]
    predicate: Mapping[str, Any]


def manifest_payload(
    backup: str,
    location: str,
    metadata: JSONObject,
    files: Iterable[StoredFile],
    predecessors: Sequence[Link],
    directory: str,
) -> bytes:
    """The statement of a backup, to be signed.

    Args:
        metadata: the content of velero-backup.json; the facts about the run are taken from it.
        files: all files of the backup, velero-backup.json among them.
        directory: of the backup, which all keys begin with.
    """
    status = mapping(metadata, "status")
    return encode_statement(
        Statement(
            subject=[
                SignedFile(
                    name=file.key.removeprefix(directory),
                    digest={"sha256": file.sha256},
                    annotations={_SIZE: file.size_bytes},
                )
                for file in sorted(files, key=lambda file: file.key)
            ],
            predicate_type=BACKUP_MANIFEST,
            predicate={
                "backup": backup,
                "location": location,
                "backupUID": text(metadata, "metadata", "uid"),
                "clusterUID": text(metadata, "metadata", "annotations", SOURCE_CLUSTER_UID),
                "phase": text(metadata, "status", "phase"),
                "started": text(metadata, "status", "startTimestamp"),
                "completed": text(metadata, "status", "completionTimestamp"),
                "expires": text(metadata, "status", "expiration"),
                "items": mapping(metadata, "status", "progress").get("itemsBackedUp", 0),
                "warnings": status.get("warnings", 0),
                "errors": status.get("errors", 0),
                "predecessors": [{"backup": each.backup, "sha256": each.sha256} for each in predecessors],
                "pinnace": __version__,
            },
        )
    )


def read_manifest(envelope: bytes, trusted: Iterable[PublicKey], backup: str) -> Manifest:
    """The manifest of a backup.

    Raises:
        SignatureNotTrusted: no trusted key has signed it.
        BadEnvelope: it is no manifest, or that of another backup.
    """
    verified = verify(envelope, trusted)
    statement = decode_statement(verified.payload, BACKUP_MANIFEST)
    predicate = statement.predicate
    if (named := predicate.get("backup")) != backup:
        raise BadEnvelope(f"it is the manifest of another backup, {str(named)[:253]!r}")
    files = {}
    for subject in statement.subject:
        size = subject.annotations.get(_SIZE)
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise BadEnvelope(f"it has no size of {subject.name[:80]!r}")
        files[subject.name] = ManifestFile(subject.sha256, size)
    return Manifest(
        backup=backup,
        digest=sha256(envelope).hexdigest(),
        key=verified.key,
        files=files,
        predecessors=links_of(predicate.get("predecessors")),
        predicate=predicate,
    )


def removal_payload(link: Link, reason: RemovalReason, now: datetime) -> bytes:
    """The statement that a backup is removed, and why, to be signed."""
    return encode_statement(
        Statement(
            subject=[SignedFile(name=link.backup, digest={"sha256": link.sha256})],
            predicate_type=REMOVAL_NOTE,
            predicate={"reason": str(reason), "removed": format_time(now), "pinnace": __version__},
        )
    )


def read_removal(envelope: bytes, trusted: Iterable[PublicKey], link: Link) -> Mapping[str, Any]:
    """What a note says about the removal of a backup. Raises SigningError: it is no note of it."""
    statement = decode_statement(verify(envelope, trusted).payload, REMOVAL_NOTE)
    if [(each.name, each.sha256) for each in statement.subject] != [(link.backup, link.sha256)]:
        raise BadEnvelope("it is the note of another backup")
    return statement.predicate


def metadata_object(metadata: bytes) -> JSONObject:
    """velero-backup.json as it is about to be stored."""
    found = orjson.loads(metadata)
    assert isinstance(found, dict), "encode_metadata() makes an object"
    return found
