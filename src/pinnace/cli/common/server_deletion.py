"""Deletes objects of a server; a backup by a DeleteBackupRequest. (docs/spec: CLI 4.4, API 9.1)"""

from contextlib import suppress

from pinnace.api import labels, phases
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.retention.holds import hold_of, refusal
from pinnace.api.retention.removal import RemovalReason
from pinnace.api.values.counts import counted
from pinnace.api.values.shell_words import argument
from pinnace.api.velero.storage_location import BackupStorageLocationAccessMode, BackupStorageLocationPhase
from pinnace.cli.connect import pasteable
from pinnace.cli.errors import CommandError
from pinnace.cli.guard import complain
from pinnace.cli.kinds import BACKUP, BACKUP_LOCATION, PrintedKind
from pinnace.cli.output import cells
from pinnace.cli.output.summary import summary_of
from pinnace.client.server import ServerBackend
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import (
    BACKUP_REPOSITORIES,
    BACKUP_STORAGE_LOCATIONS,
    BACKUPS,
    DELETE_BACKUP_REQUESTS,
    velero,
)


class ServerDeleter:
    """Deletes the objects of one kind.

    Args:
        force: leave behind volume data of backups that the server cannot delete. (docs/adr/021)
        reason: why backups are removed.
    """

    def __init__(
        self, backend: ServerBackend, kind: PrintedKind, *, force: bool, reason: RemovalReason
    ) -> None:
        self._backend = backend
        self._kind = kind
        self._force = force
        self._reason = reason
        self._absence: str | None = None

    async def named(self, name: str) -> JSONObject:
        return await self._backend.object(self._kind.plural, name)

    async def matching(self, selector: str) -> list[JSONObject]:
        return await self._backend.objects(self._kind.plural, selector)

    async def summary(self, obj: JSONObject) -> str:
        if self._kind != BACKUP:
            return summary_of(obj, self._kind)
        name = obj["metadata"]["name"]
        more = []
        try:
            restores = await self._backend.objects("restores")
            volumes = await self._backend.volumes_of(name)
        except KubeError:
            return summary_of(obj, self._kind)
        own = sum(1 for restore in restores if (restore.get("spec") or {}).get("backupName") == name)
        more += [counted(own, "restore")] if own else []
        more += [counted(len(volumes), "pod volume backup")] if volumes else []
        return summary_of(obj, self._kind, *more)

    async def delete(self, obj: JSONObject) -> str:
        client, namespace, name = self._backend.client, self._backend.namespace, obj["metadata"]["name"]
        if self._kind == BACKUP:
            await self._refuse(obj)
            request = deletion_request(obj, namespace, force=self._force, reason=self._reason)
            await client.create(DELETE_BACKUP_REQUESTS, request, namespace)
            await self._warn_of_location(name, text(obj, "spec", "storageLocation"))
            if self._absence is None:
                self._absence = await self._backend.absence()
                if self._absence:
                    complain(f"WARNING: the deletion waits for {self._absence}.")
            return self._kind.deleted
        with suppress(NotFound):  # another client has deleted it in the meantime
            await client.delete(velero(self._kind.plural), name, namespace)
        if labels.RETENTION in mapping(obj, "metadata", "annotations"):
            chosen = f"-l {labels.SCHEDULE_NAME}={labels.label_value(name)}"
            complain(
                f"NOTE: the rules of schedule {name} end with it: its backups stay for their time to live,"
                f" ten years or more. {pasteable(f'`backup prune {chosen}`')} deletes what rules do not keep."
            )
        more = await self._delete_known_of(name) if self._kind == BACKUP_LOCATION else []
        return "\n".join([self._kind.deleted, *more])

    async def _refuse(self, backup: JSONObject) -> None:
        """Raise CommandError where the server would refuse, which only the request would show. (CTL 6.2)"""
        phase, name = cells.phase(backup), backup["metadata"]["name"]
        if (reason := hold_of(backup)) is not None:
            raise CommandError(refusal(name, reason))
        if phase == "InProgress" and not await self._backend.absence():
            raise CommandError(
                f"backup {name} is being made ({phase}), and the server deletes none before its end:"
                f" {pasteable(f'`backup describe {argument(name)}`')} shows how far it is"
            )

    async def _warn_of_location(self, backup: str, location: str) -> None:
        """Say that a request cannot succeed now. The server says so only in the request. (CTL 6.2)"""
        if not location:
            return
        client, namespace = self._backend.client, self._backend.namespace
        try:
            found = await client.get(BACKUP_STORAGE_LOCATIONS, location, namespace)
        except KubeError:
            return  # the request exists all the same
        if text(found, "spec", "accessMode") == BackupStorageLocationAccessMode.READ_ONLY:
            complain(
                f"WARNING: backup {backup} will stay: its storage location {location} is read-only, so the"
                " server refuses to delete it"
            )
        elif text(found, "status", "phase") == BackupStorageLocationPhase.UNAVAILABLE:
            why = text(found, "status", "message")
            complain(
                f"WARNING: backup {backup} stays until its storage location {location}, which is Unavailable,"
                f" can be used again{f': {why}' if why else ''}"
            )

    async def _delete_known_of(self, location: str) -> list[str]:
        """Delete the Backups and BackupRepositories of a location that is gone; return a line for each.

        What is stored stays, and is found again. (docs/spec: BEY 7.3)

        Raises:
            CommandError: some could not be deleted; the others are.
        """
        backups = [
            obj
            for obj in await self._backend.objects("backups")
            if text(obj, "spec", "storageLocation") == location and cells.phase(obj) in phases.FINISHED
        ]
        repositories: list[JSONObject] = []
        with suppress(NotFound):  # the definitions of Velero before 1.10 lack the kind
            repositories = [
                obj
                for obj in await self._backend.objects("backuprepositories")
                if text(obj, "spec", "backupStorageLocation") == location
            ]
        lines, errors = [], []
        for what, resource, found in (
            ("Backup", BACKUPS, backups),
            ("Backup repository", BACKUP_REPOSITORIES, repositories),
        ):
            for obj in found:
                name, uid = obj["metadata"]["name"], obj["metadata"].get("uid")
                try:
                    with suppress(NotFound):  # the server deletes them too
                        await self._backend.client.delete(resource, name, self._backend.namespace, uid=uid)
                except KubeError as error:
                    errors.append(f"{what.lower()} {name} of the deleted location {location}: {error}")
                else:
                    lines.append(f'{what} associated with deleted BSL(s) "{name}" deleted successfully.')
        if errors:
            said = "; ".join(errors)
            raise CommandError(f"the location {location} is deleted, but not everything of it: {said}")
        return lines


def deletion_request(
    backup: JSONObject,
    namespace: str,
    *,
    force: bool = False,
    reason: RemovalReason = RemovalReason.REQUEST,
) -> JSONObject:
    """The DeleteBackupRequest for a Backup. (docs/spec: API 9.1)"""
    name, uid = backup["metadata"]["name"], backup["metadata"].get("uid") or ""
    metadata: JSONObject = {
        "generateName": f"{name}-",
        "namespace": namespace,
        "labels": {labels.BACKUP_NAME: labels.label_value(name), labels.BACKUP_UID: uid},
    }
    notes = {labels.FORCE_DELETION: "true"} if force else {}
    if reason != RemovalReason.REQUEST:
        notes[labels.REMOVAL_REASON] = str(reason)
    if notes:
        metadata["annotations"] = notes
    return {
        "apiVersion": "velero.io/v1",
        "kind": "DeleteBackupRequest",
        "metadata": metadata,
        "spec": {"backupName": name},
    }
