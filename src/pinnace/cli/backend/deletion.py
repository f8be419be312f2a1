"""Deleting objects of all kinds, with a server or in a location. (docs/spec: CLI 4.4, 5.2, 6, 7.4)"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import click

from pinnace.api import labels
from pinnace.api.meta import LabelSelector
from pinnace.api.objects import JSONObject
from pinnace.api.selection.selectors import Selector
from pinnace.cli.backend.interface import NotFound, open_backend
from pinnace.cli.backend.objects import settings_for
from pinnace.cli.backend.server_kinds import Kind
from pinnace.cli.backend.server_restores import backup_of_restore
from pinnace.cli.connect import run_async
from pinnace.cli.errors import CommandError, InvalidInput, aggregate
from pinnace.cli.kinds import BACKUP, KINDS
from pinnace.cli.output.prompt import confirmed, exactly_one
from pinnace.cli.settings import Settings
from pinnace.kube.errors import KubeError
from pinnace.kube.errors import NotFound as ObjectGone
from pinnace.kube.resources import velero
from pinnace.storage.errors import StorageError

if TYPE_CHECKING:
    from pinnace.cli.backend.location import LocationBackend
    from pinnace.cli.backend.server import ServerBackend


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which objects to delete where none are named."""

    everything: bool
    selector: LabelSelector | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeDataOptions:
    """What becomes of the data of volumes that a backup has outside of its files. (docs/adr/021)

    Attributes:
        force: leave behind what cannot be deleted.
        password_file: of the restic repositories; empty for the other places where a password may be.
    """

    force: bool = False
    password_file: str = ""


def delete(
    ctx: click.Context,
    noun: str,
    names: Sequence[str],
    *,
    confirm: bool,
    chosen: Chosen,
    volume_data: VolumeDataOptions,
) -> None:
    """Delete the chosen objects; those not found are reported at the end."""
    kind = KINDS[noun]
    settings = settings_for(ctx, kind, "delete")
    exactly_one(len(names), chosen.everything, chosen.selector, noun)
    selector = Selector.from_label_selector(chosen.selector)
    if chosen.selector is not None and selector.empty:
        raise InvalidInput(f"--selector must not be empty; use --all to delete all {noun}s")
    if volume_data.password_file and settings.location is None:
        raise InvalidInput("--restic-password-file goes with --location; a server knows the password")
    if not confirm and not confirmed():
        return
    errors = run_async(_delete(settings, kind, list(dict.fromkeys(names)), str(selector), volume_data))
    if errors:
        raise CommandError(aggregate(errors))


async def _delete(
    settings: Settings, kind: Kind, names: Sequence[str], selector: str, volume_data: VolumeDataOptions
) -> list[str]:
    """Delete what was named, or what the selector finds. Returns the errors."""
    async with open_backend(settings) as backend:
        deleter = _deleter(backend, kind, settings, volume_data)
        errors: list[str] = []
        chosen = [] if names else await deleter.matching(selector)
        for name in names:
            try:
                chosen.append(await deleter.named(name))
            except NotFound as error:
                errors.append(str(error))
        if not chosen and not errors:
            click.echo(f"No {kind.noun}s found")
        for obj in chosen:
            try:
                text = await deleter.delete(obj)
            except (KubeError, StorageError, CommandError) as error:
                errors.append(str(error))
            else:
                click.echo(text.format(obj["metadata"]["name"]))
        return errors


class _Deleter(Protocol):
    """Deletes the objects of one kind."""

    async def named(self, name: str) -> JSONObject:
        """What there is of that name. Raises NotFound."""
        ...

    async def matching(self, selector: str) -> list[JSONObject]:
        """What matches the selector; everything for an empty one."""
        ...

    async def delete(self, obj: JSONObject) -> str:
        """Delete it. Returns what to print, with `{}` for its name."""
        ...


def _deleter(backend: object, kind: Kind, settings: Settings, volume_data: VolumeDataOptions) -> _Deleter:
    from pinnace.cli.backend.location import LocationBackend
    from pinnace.cli.backend.server import ServerBackend

    if isinstance(backend, LocationBackend):
        return _LocationDeleter(backend, kind, settings, volume_data)
    assert isinstance(backend, ServerBackend)
    return _ServerDeleter(backend, kind, force=volume_data.force)


class _ServerDeleter:
    """Deletes objects of the cluster; a backup by asking the server for it."""

    def __init__(self, backend: "ServerBackend", kind: Kind, *, force: bool) -> None:
        self._backend = backend
        self._kind = kind
        self._force = force

    async def named(self, name: str) -> JSONObject:
        return await self._backend.object(self._kind.plural, name)

    async def matching(self, selector: str) -> list[JSONObject]:
        return await self._backend.objects(self._kind.plural, selector)

    async def delete(self, obj: JSONObject) -> str:
        client, namespace, name = self._backend.client, self._backend.namespace, obj["metadata"]["name"]
        if self._kind == BACKUP:
            request = deletion_request(obj, namespace, force=self._force)
            await client.create(velero("deletebackuprequests"), request, namespace)
            return self._kind.deleted
        with suppress(ObjectGone):  # somebody else was quicker, which is as good
            await client.delete(velero(self._kind.plural), name, namespace)
        return self._kind.deleted


def deletion_request(backup: JSONObject, namespace: str, *, force: bool = False) -> JSONObject:
    """The DeleteBackupRequest for a Backup. (docs/spec: API 9.1)"""
    name, uid = backup["metadata"]["name"], backup["metadata"].get("uid") or ""
    metadata: JSONObject = {
        "generateName": f"{name}-",
        "namespace": namespace,
        "labels": {labels.BACKUP_NAME: labels.label_value(name), labels.BACKUP_UID: uid},
    }
    if force:
        metadata["annotations"] = {labels.FORCE_DELETION: "true"}
    return {
        "apiVersion": "velero.io/v1",
        "kind": "DeleteBackupRequest",
        "metadata": metadata,
        "spec": {"backupName": name},
    }


class _LocationDeleter:
    """Deletes the files of backups and restores: without a server nobody else would.

    It goes by directory: what is damaged or was never finished must be removable too, by its name.
    """

    def __init__(
        self,
        backend: "LocationBackend",
        kind: Kind,
        settings: Settings,
        volume_data: VolumeDataOptions,
    ) -> None:
        self._backend = backend
        self._kind = kind
        self._settings = settings
        self._volume_data = volume_data
        self._restores: dict[str, str | None] | None = None

    async def named(self, name: str) -> JSONObject:
        if name not in await self._backend.names(self._kind.plural):
            raise NotFound(f'{self._kind.plural}.velero.io "{name}" not found')
        return {"metadata": {"name": name}}

    async def matching(self, selector: str) -> list[JSONObject]:
        if selector or self._kind != BACKUP:
            return await self._backend.objects(self._kind.plural, selector)
        # Without its metadata a backup may be one that another process is making right now.
        names, store = await self._backend.names(self._kind.plural), self._backend.store
        return [{"metadata": {"name": name}} for name in names if await store.exists(name)]

    async def delete(self, obj: JSONObject) -> str:
        name, store = obj["metadata"]["name"], self._backend.store
        if self._kind != BACKUP:
            await store.delete_restore(name)
            return self._kind.deleted
        from pinnace.cli.standalone_deletion import delete_volume_data

        # First: the files say where the data is, and a server takes its own records for those of the files.
        await delete_volume_data(self._settings, self._backend, name, self._volume_data)
        for restore, backup in (await self._backups_of_restores()).items():
            if backup == name:
                await store.delete_restore(restore)
        await store.delete_backup(name)
        return 'Backup "{}" deleted'

    async def _backups_of_restores(self) -> dict[str, str | None]:
        """The backup of each restore in the location, where that can be told."""
        if self._restores is None:
            stored = await self._backend.objects("restores")
            found = {
                restore["metadata"]["name"]: (restore.get("spec") or {}).get("backupName")
                for restore in stored
            }
            for name in await self._backend.names("restores"):
                if name not in found:
                    found[name] = await backup_of_restore(self._backend.store, name)
            self._restores = found
        return self._restores
