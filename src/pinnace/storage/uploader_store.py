"""Describes how the programs that save volumes, restic and kopia, reach the stores of a provider.

Each provider whose stores they know has one `UploaderStore`, in the `uploaders.py` of its folder.
Passwords and the calls themselves are the matter of `volumes`. (ADR 132)
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from pinnace.api.velero.storage_location import BackupStorageLocationSpec


class UploaderCall(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one call of a program.

    Attributes:
        settings: as `open.store_config` gives them, with the file of credentials.
        environ: the environment of this process.
    """

    settings: Mapping[str, str]
    environ: Mapping[str, str]


class KopiaStorage(msgspec.Struct, frozen=True, kw_only=True):
    """The place of a repository, in the words of kopia, without secrets.

    Attributes:
        kind: the `type` of the storage in the configuration: `s3`, `gcs`, `azureBlob`, `filesystem`.
        command: the kind in `repository create`, where it has another name; empty for the same.
        options: the `config` of the storage.
        flags: of `repository create`.
        ca_flag: the flag of it that names a file of certificates; empty if there is none.
    """

    kind: str
    command: str = ""
    options: Mapping[str, Any]
    flags: tuple[str, ...] = ()
    ca_flag: str = ""

    @property
    def blob_suffix(self) -> str:
        """The end of the names of stored blobs: kopia adds one to files, and none to objects."""
        return ".f" if self.kind == "filesystem" else ""

    def create_flags(self, secrets: "KopiaSecrets", ca_file: Path | None) -> list[str]:
        """The arguments of `repository create` after the kind; no secret is among them."""
        trusted = [f"{self.ca_flag}={ca_file}"] if self.ca_flag and ca_file is not None else []
        return [*self.flags, *secrets.flags, *trusted]

    def config(self, secrets: "KopiaSecrets") -> dict[str, Any]:
        """The `storage` of a configuration file, secrets included."""
        return {"type": self.kind, "config": {**self.options, **secrets.options}}


class KopiaSecrets(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials of a store, in the words of kopia; kopia itself looks for those that are absent.

    Attributes:
        options: more of the storage's `config`.
        flags: more flags of `repository create`, which name accounts and files.
        creation: the variables of `repository create`.
    """

    options: Mapping[str, str] = {}
    flags: tuple[str, ...] = ()
    creation: Mapping[str, str] = {}

    def __repr__(self) -> str:
        return "KopiaSecrets(...)"  # never in a log


class UploaderStore(ABC):
    """The stores of a provider, as restic and kopia reach them.

    Attributes:
        holds_for_good: whether kopia 0.21 holds what it stores so that nobody can delete it, whatever mode it
            is given.
    """

    holds_for_good: bool = False

    def needs_region(self, config: Mapping[str, str]) -> bool:
        """Whether an address for restic has the region of the bucket, which has to be asked for."""
        return False

    async def find_region(self, bucket: str) -> str:
        """The region of a bucket; empty if it is not known, which an address allows."""
        return ""

    def without_region(self, address: str) -> str:
        """An address for restic, as `restic_address` gives it where no region is known."""
        return address

    @abstractmethod
    def restic_address(self, config: Mapping[str, str], bucket: str, directory: str, region: str) -> str:
        """The address of a directory in a bucket, as restic's `--repo` takes it.

        Raises:
            StoreConfigError: a setting does not fit.
        """

    async def restic_environment(self, call: UploaderCall) -> Mapping[str, str | None]:
        """The variables that restic needs beside those of this process; None for one that it must not have.

        Raises:
            StorageError, OSError: the credentials cannot be read, or a setting is missing.
        """
        return {}

    @abstractmethod
    def kopia_storage(self, spec: BackupStorageLocationSpec, bucket: str, prefix: str) -> KopiaStorage:
        """The place of a repository below a prefix, which ends in a slash.

        Raises:
            StoreConfigError: a setting does not fit.
        """

    async def kopia_secrets(self, call: UploaderCall) -> KopiaSecrets:
        """The credentials for kopia.

        Raises:
            StorageError, OSError: they cannot be read, or a setting is missing.
        """
        return KopiaSecrets()
