"""Checks the encryption of locations, as far as nobody needs an identity for it.

A key is wrapped for all recipients and keys of services, and thrown away; the names of files tell which
backups are plain, and which have lost their key files. (docs/adr/124)
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pinnace.api.values.counts import first_names
from pinnace.doctor.findings import Finding, ok, problem, skipped, warning
from pinnace.notices.codes import Code
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError

CHECK: Final = "encryption"
_SECONDS: Final = 60.0
_SHOWN: Final = 5
"""Names of backups in a finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionLook:
    """What was found of the encryption of a location that makes encrypted backups.

    Attributes:
        refused: why no key can be wrapped for all its recipients and keys of services; empty if one can.
        plain: finished backups that are not encrypted, most of them made before.
        keyless: finished backups that are encrypted, and whose key files are gone.
        unlisted: why the backups could not be listed; empty if they were.
    """

    refused: str = ""
    plain: Sequence[str] = ()
    keyless: Sequence[str] = ()
    unlisted: str = ""


async def look_at_encryption(store: BackupStore) -> EncryptionLook | None:
    """Look at the encryption of a location; None if it makes plain backups."""
    if not store.encrypts:
        return None
    refused = unlisted = ""
    plain: Sequence[str] = ()
    keyless: Sequence[str] = ()
    try:
        async with asyncio.timeout(_SECONDS):
            await store.try_recipients()
    except TimeoutError:
        refused = f"no answer within {_SECONDS:g} seconds"
    except StorageError as error:
        refused = str(error)
    try:
        async with asyncio.timeout(_SECONDS):
            plain, keyless = await store.backups_without_keys()
    except TimeoutError:
        unlisted = f"no answer within {_SECONDS:g} seconds"
    except StorageError as error:
        unlisted = str(error)
    return EncryptionLook(refused=refused, plain=plain, keyless=keyless, unlisted=unlisted)


def judge_encryption(name: str, look: EncryptionLook | None, *, of_server: bool) -> list[Finding]:
    """The findings for one location; none if it makes plain backups.

    Args:
        of_server: it was tried with the credentials of this machine for services that the server uses too.
    """
    if look is None:
        return []
    findings: list[Finding] = []
    if look.refused:
        said = f"no backup of {name} can be encrypted from here: {look.refused}"
        remedy = "see that each key of encryption.kms may be used to encrypt, and that plugins are on PATH"
        level = warning if of_server else problem
        findings.append(level(CHECK, said, remedy, code=Code.ENCRYPTION_REFUSED))
    if look.keyless:
        findings.append(
            problem(
                CHECK,
                f"encrypted backups in {name} have lost their key files, and nobody can open them:"
                f" {first_names(look.keyless, _SHOWN)}",
                "get <backup>-pinnace-keys.json back from a copy or an older version of the bucket, and see"
                " who can delete there",
                code=Code.KEY_FILES_MISSING,
            )
        )
    if look.plain:
        findings.append(
            warning(
                CHECK,
                f"{len(look.plain)} of the backups in {name} are not encrypted, though new ones are:"
                f" {first_names(look.plain, _SHOWN)}",
                "whoever reads the bucket reads them; delete them once encrypted ones have taken their place",
                code=Code.BACKUPS_PLAIN,
            )
        )
    if look.unlisted:
        said = f"whether backups in {name} are plain was not checked: {look.unlisted}"
        findings.append(skipped(CHECK, said))
    return findings or [ok(CHECK, f"backups in {name} are encrypted, and each has a key file")]
