"""Deleting objects of all kinds, with a server or in a location. (docs/spec: CLI 4.4, 5.2, 6, 7.4)"""

from collections.abc import Sequence
from contextlib import suppress
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
from pinnace.csi.snapshots import handle_of
from pinnace.kube.errors import KubeError
from pinnace.kube.errors import NotFound as ObjectGone
from pinnace.kube.resources import velero
from pinnace.storage.errors import StorageError

if TYPE_CHECKING:
    from pinnace.cli.backend.location import LocationBackend
    from pinnace.cli.backend.server import ServerBackend


def delete(
    ctx: click.Context,
    noun: str,
    names: Sequence[str],
    *,
    confirm: bool,
    everything: bool,
    selector: LabelSelector | None,
) -> None:
    """Delete the chosen objects; those not found are reported at the end."""
    kind = KINDS[noun]
    settings = settings_for(ctx, kind, "delete")
    exactly_one(len(names), everything, selector, noun)
    chosen = Selector.from_label_selector(selector)
    if selector is not None and chosen.empty:
        raise InvalidInput(f"--selector must not be empty; use --all to delete all {noun}s")
    if not confirm and not confirmed():
        return
    errors = run_async(_delete(settings, kind, list(dict.fromkeys(names)), str(chosen)))
    if errors:
        raise CommandError(aggregate(errors))


async def _delete(settings: Settings, kind: Kind, names: Sequence[str], selector: str) -> list[str]:
    """Delete what was named, or what the selector finds. Returns the errors."""
    async with open_backend(settings) as backend:
        deleter = _deleter(backend, kind)
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
            except (KubeError, StorageError) as error:
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


def _deleter(backend: object, kind: Kind) -> _Deleter:
    from pinnace.cli.backend.location import LocationBackend
    from pinnace.cli.backend.server import ServerBackend

    if isinstance(backend, LocationBackend):
        return _LocationDeleter(backend, kind)
    assert isinstance(backend, ServerBackend)
    return _ServerDeleter(backend, kind)


class _ServerDeleter:
    """Deletes objects of the cluster; a backup by asking the server for it."""

    def __init__(self, backend: "ServerBackend", kind: Kind) -> None:
        self._backend = backend
        self._kind = kind

    async def named(self, name: str) -> JSONObject:
        return await self._backend.object(self._kind.plural, name)

    async def matching(self, selector: str) -> list[JSONObject]:
        return await self._backend.objects(self._kind.plural, selector)

    async def delete(self, obj: JSONObject) -> str:
        client, namespace, name = self._backend.client, self._backend.namespace, obj["metadata"]["name"]
        if self._kind == BACKUP:
            await client.create(velero("deletebackuprequests"), deletion_request(obj, namespace), namespace)
            return self._kind.deleted
        with suppress(ObjectGone):  # somebody else was quicker, which is as good
            await client.delete(velero(self._kind.plural), name, namespace)
        return self._kind.deleted


def deletion_request(backup: JSONObject, namespace: str) -> JSONObject:
    """The DeleteBackupRequest for a Backup. (docs/spec: API 9.1)"""
    name, uid = backup["metadata"]["name"], backup["metadata"].get("uid") or ""
    return {
        "apiVersion": "velero.io/v1",
        "kind": "DeleteBackupRequest",
        "metadata": {
            "generateName": f"{name}-",
            "namespace": namespace,
            "labels": {labels.BACKUP_NAME: labels.label_value(name), labels.BACKUP_UID: uid},
        },
        "spec": {"backupName": name},
    }


class _LocationDeleter:
    """Deletes the files of backups and restores: without a server nobody else would.

    It goes by directory: what is damaged or was never finished must be removable too, by its name.
    """

    def __init__(self, backend: "LocationBackend", kind: Kind) -> None:
        self._backend = backend
        self._kind = kind
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
        for restore, backup in (await self._backups_of_restores()).items():
            if backup == name:
                await store.delete_restore(restore)
        left = await self._snapshots_of(name)
        await store.delete_backup(name)
        if left:
            click.echo(
                f"WARNING: without a server, the volume snapshots of backup {name} are not deleted with it;"
                f" delete them at their provider: {', '.join(left)}",
                err=True,
            )
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

    async def _snapshots_of(self, backup: str) -> list[str]:
        """The snapshots that the backup's files name; what is damaged must be removable all the same."""
        store, found = self._backend.store, []
        with suppress(StorageError):
            found += [record.status.provider_snapshot_id for record in await store.read_snapshots(backup)]
        with suppress(StorageError):
            found += [handle_of(each) for each in await store.read_csi_volume_snapshot_contents(backup)]
        return [snapshot for snapshot in found if snapshot]
