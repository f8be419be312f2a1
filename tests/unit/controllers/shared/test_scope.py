"""What every run of a server gets with its context."""

import asyncio
from typing import cast

import pytest

from pinnace.kube.discovery import Discovery
from pinnace.plugins.installed import NO_PLUGINS
from pinnace.runs.activity import Activity
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StoreUnavailable
from tests.unit.controllers.fakes import World


@pytest.mark.found("L6")
async def test_a_run_waits_for_a_store_that_is_away_and_shows_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    activity = Activity()
    context = world.scope.run_context(
        discovery=Discovery(()),
        store=cast(BackupStore, None),
        plugins=NO_PLUGINS.operation(client=world.scope.client, namespace="velero"),
        activity=activity,
    )

    tried = asyncio.Event()

    async def upload() -> None:
        tried.set()
        raise StoreUnavailable("connection refused")

    assert context.patience is not None
    waiting = asyncio.create_task(context.patience.insist(upload))
    await tried.wait()
    assert activity.waiting == ["the backup storage location, which does not answer"]
    waiting.cancel()
    await asyncio.wait({waiting})

    assert waiting.cancelled()
    assert activity.waiting == []
    assert "does not answer, which is tried again for 300 s: connection refused" in caplog.text
