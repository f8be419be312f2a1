"""What `restore delete` does. (docs/spec: CLI 5.2)"""

from collections.abc import Sequence
from typing import Any

import click

from pinnace.api.meta import LabelSelector
from pinnace.api.selectors import Selector
from pinnace.cli.backend import Backend, NotFound, open_backend
from pinnace.cli.connect import run_async, settings_of
from pinnace.cli.errors import CommandError, InvalidInput, aggregate
from pinnace.cli.prompt import confirmed, exactly_one
from pinnace.cli.settings import Settings
from pinnace.kube.errors import KubeError
from pinnace.kube.errors import NotFound as ObjectGone
from pinnace.storage.errors import StorageError

JSONObject = dict[str, Any]


def delete(
    ctx: click.Context,
    names: Sequence[str],
    *,
    confirm: bool,
    everything: bool,
    selector: LabelSelector | None,
) -> None:
    """Delete the chosen restores; those not found are reported at the end."""
    exactly_one(len(names), everything, selector, "restore")
    chosen = Selector.from_label_selector(selector)
    if selector is not None and chosen.empty:
        raise InvalidInput("--selector must not be empty; use --all to delete all restores")
    if not confirm and not confirmed():
        return
    errors = run_async(_delete(settings_of(ctx), names, str(chosen)))
    if errors:
        raise CommandError(aggregate(errors))


async def _delete(settings: Settings, names: Sequence[str], selector: str) -> list[str]:
    async with open_backend(settings) as backend:
        chosen, errors = await _choose(backend, settings, names, selector)
        if not chosen and not errors:
            click.echo("No restores found")
        for name in chosen:
            try:
                await _delete_one(backend, settings, name)
            except (KubeError, StorageError) as exc:
                errors.append(str(exc))
            else:
                click.echo(f'Restore "{name}" deleted')
    return errors


async def _choose(
    backend: Backend, settings: Settings, names: Sequence[str], selector: str
) -> tuple[list[str], list[str]]:
    if not names:
        return [restore["metadata"]["name"] for restore in await backend.restores(selector)], []
    if settings.location is not None:
        return await _choose_here(backend, names)
    found, errors = [], []
    for name in names:
        try:
            await backend.restore(name)
        except NotFound as exc:
            errors.append(str(exc))
        else:
            found.append(name)
    return found, errors


async def _choose_here(backend: Backend, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Choose by directory: what is damaged, or was left by a server, must be removable too."""
    from pinnace.cli.location_backend import LocationBackend

    assert isinstance(backend, LocationBackend)
    found = await backend.store.list_restores()
    missing = [f'restores.velero.io "{name}" not found' for name in names if name not in found]
    return [name for name in dict.fromkeys(names) if name in found], missing


async def _delete_one(backend: Backend, settings: Settings, name: str) -> None:
    if settings.location is not None:
        from pinnace.cli.location_backend import LocationBackend

        assert isinstance(backend, LocationBackend)
        await backend.store.delete_restore(name)
        return
    from pinnace.cli.server_backend import ServerBackend
    from pinnace.kube.resources import velero

    assert isinstance(backend, ServerBackend)
    try:
        await backend.client.delete(velero("restores"), name, settings.namespace)
    except ObjectGone:
        return  # somebody else was quicker
