"""What `backup delete` does. (docs/spec: CLI 4.4)"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from pinnace.api import labels
from pinnace.api.meta import LabelSelector
from pinnace.api.selectors import Selector
from pinnace.cli.backend import Backend, NotFound, open_backend
from pinnace.cli.connect import run_async, settings_of
from pinnace.cli.errors import CommandError, InvalidInput, aggregate
from pinnace.cli.prompt import confirmed, exactly_one
from pinnace.cli.settings import Settings
from pinnace.kube.errors import KubeError
from pinnace.storage.errors import StorageError

if TYPE_CHECKING:
    from pinnace.cli.location_backend import LocationBackend

JSONObject = dict[str, Any]


def delete(
    ctx: click.Context,
    names: Sequence[str],
    *,
    confirm: bool,
    everything: bool,
    selector: LabelSelector | None,
) -> None:
    """Delete the chosen backups; those not found are reported at the end."""
    exactly_one(len(names), everything, selector, "backup")
    chosen = Selector.from_label_selector(selector)
    if selector is not None and chosen.empty:
        raise InvalidInput("--selector must not be empty; use --all to delete all backups")
    if not confirm and not confirmed():
        return
    settings = settings_of(ctx)
    errors = run_async(_delete(settings, names, str(chosen)))
    if errors:
        raise CommandError(aggregate(errors))


async def _delete(settings: Settings, names: Sequence[str], selector: str) -> list[str]:
    async with open_backend(settings) as backend:
        if settings.location is not None:
            from pinnace.cli.location_backend import LocationBackend

            assert isinstance(backend, LocationBackend)
            return await _delete_here(backend, names, selector)
        chosen, errors = await _choose(backend, names, selector)
        if not chosen and not errors:
            click.echo("No backups found")
        for backup in chosen:
            try:
                await _request_deletion(backend, settings.namespace, backup)
            except KubeError as exc:
                errors.append(str(exc))
        return errors


async def _choose(
    backend: Backend, names: Sequence[str], selector: str
) -> tuple[list[JSONObject], list[str]]:
    if not names:
        return await backend.backups(selector), []
    found, errors = [], []
    for name in names:
        try:
            found.append(await backend.backup(name))
        except NotFound as exc:
            errors.append(str(exc))
    return found, errors


async def _delete_here(backend: "LocationBackend", names: Sequence[str], selector: str) -> list[str]:
    """Delete backups and their restores from the location: nobody else would."""
    chosen, errors = await _choose_here(backend, names, selector)
    if not chosen and not errors:
        click.echo("No backups found")
    restores = await backend.restores() if chosen else []
    for name in chosen:
        try:
            for restore in restores:
                if (restore.get("spec") or {}).get("backupName") == name:
                    await backend.store.delete_restore(restore["metadata"]["name"])
            await backend.store.delete_backup(name)
        except StorageError as exc:
            errors.append(str(exc))
        else:
            click.echo(f'Backup "{name}" deleted')
    return errors


async def _choose_here(
    backend: "LocationBackend", names: Sequence[str], selector: str
) -> tuple[list[str], list[str]]:
    """Choose by directory: what is damaged or was never finished must be removable too."""
    if selector:
        return [backup["metadata"]["name"] for backup in await backend.backups(selector)], []
    found = await backend.store.list_backups()
    if not names:
        # Without its metadata a backup may be one that another process is making right now.
        return [name for name in found if await backend.store.exists(name)], []
    missing = [f'backups.velero.io "{name}" not found' for name in names if name not in found]
    return [name for name in dict.fromkeys(names) if name in found], missing


async def _request_deletion(backend: Backend, namespace: str, backup: JSONObject) -> None:
    from pinnace.cli.server_backend import ServerBackend
    from pinnace.kube.resources import velero

    assert isinstance(backend, ServerBackend)
    name, uid = backup["metadata"]["name"], backup["metadata"].get("uid") or ""
    request = {
        "apiVersion": "velero.io/v1",
        "kind": "DeleteBackupRequest",
        "metadata": {
            "generateName": f"{name}-",
            "namespace": namespace,
            "labels": {labels.BACKUP_NAME: labels.label_value(name), labels.BACKUP_UID: uid},
        },
        "spec": {"backupName": name},
    }
    await backend.client.create(velero("deletebackuprequests"), request, namespace)
    click.echo(f'Request to delete backup "{name}" submitted successfully.')
    click.echo(
        "The backup will be fully deleted after all associated data (disk snapshots, backup files, restores) "
        "are removed."
    )
