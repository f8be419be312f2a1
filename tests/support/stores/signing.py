"""Signs backups that other helpers have written."""

import asyncio
from hashlib import sha256
from pathlib import Path

import orjson

from pinnace.signing.envelope import sign
from pinnace.signing.keys import SigningKey
from pinnace.storage.backup_files import StoredFile
from pinnace.storage.manifest import manifest_payload


def sign_stored(directory: Path, key: SigningKey) -> Path:
    """Sign all files in the directory of a backup, and return its manifest."""
    name = directory.name
    files = [
        StoredFile(path.name, sha256(path.read_bytes()).hexdigest(), path.stat().st_size)
        for path in directory.iterdir()
    ]
    metadata = orjson.loads((directory / "velero-backup.json").read_bytes())
    payload = manifest_payload(name, "default", metadata, files, [], "")
    manifest = directory / f"{name}-pinnace-manifest.json"
    manifest.write_bytes(asyncio.run(sign(payload, key)))
    return manifest
