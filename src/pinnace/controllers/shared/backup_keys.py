"""Keeps the keys of encrypted backups that wait for item operations, in Secrets of the server's namespace.

The server has no identity that opens a backup. One that waits is read and changed later, perhaps by another
process. So its own key, and no other, is in a Secret as long as it waits: created before anything of the
backup is parked, deleted at its end. (docs/adr/124)
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Final

from pinnace.api import labels, phases
from pinnace.api.objects import JSONObject, text
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import AlreadyExists, KubeError, NotFound
from pinnace.kube.resources import BACKUPS, SECRETS
from pinnace.runtime.logfields import get_logger
from pinnace.storage.backup_store import BackupStore

log = get_logger(__name__)

_DATA: Final = "key"


@dataclass(frozen=True, slots=True)
class BackupKeys:
    """The keys of the backups that wait. They are never logged."""

    scope: Scope

    async def keep(self, backup: Backup, key: str) -> None:
        """Keep the key of a backup that is about to wait. Raises KubeError.

        Args:
            key: the identity, as age writes it.
        """
        scope, metadata = self.scope, backup.metadata
        data = {_DATA: base64.b64encode(key.encode()).decode()}
        secret: JSONObject = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": _name(metadata.uid),
                "namespace": scope.namespace,
                # A backup of the server's own namespace must not hold the key of another one.
                "labels": {
                    labels.KEY_OF_BACKUP: metadata.uid,
                    labels.EXCLUDE_FROM_BACKUP: labels.EXCLUDE_FROM_BACKUP_VALUE,
                },
                "ownerReferences": [
                    {
                        "apiVersion": backup.api_version,
                        "kind": backup.kind,
                        "name": metadata.name,
                        "uid": metadata.uid,
                    }
                ],
            },
            "type": "Opaque",
            "data": data,
        }
        try:
            await scope.client.create(SECRETS, secret, scope.namespace)
        except AlreadyExists:
            # Of an attempt whose answer was lost, or that failed and made another key.
            await scope.client.patch(SECRETS, _name(metadata.uid), {"data": data}, scope.namespace)

    async def of(self, backup: Backup) -> str | None:
        """The key of a backup that waits; None if none is kept, as for a plain one. Raises KubeError."""
        try:
            secret = await self.scope.client.get(SECRETS, _name(backup.metadata.uid), self.scope.namespace)
            return base64.b64decode(text(secret, "data", _DATA), validate=True).decode("ascii")
        except (NotFound, binascii.Error, UnicodeDecodeError):
            return None

    async def unlocked(self, store: BackupStore, backup: Backup) -> BackupStore:
        """The location, where the kept key opens the parked files of the backup, if there is one.

        Raises:
            KubeError
            InvalidIdentity: the Secret was changed.
        """
        key = await self.of(backup)
        return store if key is None else store.knowing_key(backup.metadata.name, key)

    async def forget(self, backup: Backup) -> None:
        """Delete the key of a backup that waits no longer, if it is marked as encrypted.

        A key that is not deleted now is swept later.
        """
        if labels.ENCRYPTED in backup.metadata.annotations:
            await self.delete(backup)

    async def delete(self, backup: Backup) -> None:
        """Delete the key of a backup, if there is one; what cannot be deleted now is swept later."""
        try:
            await self.scope.client.delete(SECRETS, _name(backup.metadata.uid), self.scope.namespace)
        except NotFound:
            return
        except KubeError as error:
            log.warning("The key of a backup that has ended stays for now", error=error)

    async def sweep(self) -> None:
        """Delete the keys of backups that are gone, or neither run nor wait any more. Raises KubeError."""
        client, namespace = self.scope.client, self.scope.namespace
        kept = await client.list_all(SECRETS, namespace, label_selector=labels.KEY_OF_BACKUP)
        if not kept:
            return
        backups = await client.list_all(BACKUPS, namespace)
        living = {text(each, "metadata", "uid") for each in backups if _may_need_it(each)}
        for secret in kept:
            uid = text(secret, "metadata", "labels", labels.KEY_OF_BACKUP)
            name = text(secret, "metadata", "name")
            if uid in living or name != _name(uid):
                continue
            try:
                await client.delete(SECRETS, name, namespace, uid=text(secret, "metadata", "uid"))
            except NotFound:
                continue
            log.info("Deleted the key of a backup that has ended", secret=name)


def _may_need_it(backup: JSONObject) -> bool:
    return text(backup, "status", "phase") in phases.RUNNING | {BackupPhase.DELETING}


def _name(uid: str) -> str:
    return f"pinnace-backup-key-{uid}"
