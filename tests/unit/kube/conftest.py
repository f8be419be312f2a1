"""Fixtures of the kube tests."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.kube.scripted import ScriptedServer, scripted_server


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    """A scripted server by plain http."""
    async with scripted_server() as running:
        yield running
