"""The checks of an encrypted backup that nobody here can open. (ADR 124)"""

from pinnace.api.velero.backup import Backup
from pinnace.browse.checks import Check, CheckResult
from pinnace.kms.errors import InvalidKMSKey, KMSRefused
from pinnace.operations.verification.signatures import signature_checks
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.key_errors import EncryptionBroken, IdentityMissing, IdentityRefused

NAME = "encryption"


async def sealed_checks(store: BackupStore, backup: Backup) -> list[Check]:
    """The findings about a backup that cannot be opened; none if it can, or is plain.

    Its signature is checked over all of its files, as that needs no identity.

    Raises:
        StorageError: the location, or a key management service, cannot be asked now.
    """
    try:
        await store.require_key(backup, looks=True)
    except EncryptionBroken as error:
        found = Check(name=NAME, result=CheckResult.BAD, details=f"{error.key}: {error.reason}")
    except (IdentityMissing, IdentityRefused) as error:
        found = _not_checked(error.reason)
    except (KMSRefused, InvalidKMSKey) as error:
        found = _not_checked(str(error))
    else:
        return []
    return [*await signature_checks(store, backup.metadata.name, large_files=True), found]


def _not_checked(reason: str) -> Check:
    details = f"not verified: {reason}. `backup verify` with an identity looks into it"
    return Check(name=NAME, result=CheckResult.NOT_CHECKED, details=details)
