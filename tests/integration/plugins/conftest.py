"""The sample plugin, reached in each way in which plugins can be reached."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hack.cluster import binaries
from hack.cluster.errors import ClusterError
from pinnace.plugins.calling import Deadlines
from pinnace.plugins.host.options import ProcessLimits
from pinnace.plugins.installed import InstalledPlugins, PluginOptions, find_plugins
from pinnace.plugins.session import PluginSession
from tests.support.plugins.programs import SAMPLE_MODULE, RecordingLog, put_own

HERE = Path(__file__).parent


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the tools before the first test starts, as building them outlasts any test's timeout.

    What cannot be had is reported by the tests that need it.
    """
    if not session.config.option.collectonly and any(HERE in item.path.parents for item in session.items):
        with contextlib.suppress(ClusterError):
            binaries.locate(binaries.PLUGIN_TOOLS)


WAYS = ("in this process", "own program", "compiled program")


@pytest.fixture(scope="session")
def compiled_sample() -> Path:
    """A plugin built from Velero's own framework."""
    return binaries.locate(["plugin-sample"])["plugin-sample"]


@pytest.fixture(scope="session")
def velero_host() -> Path:
    """A host built from Velero's own plugin management."""
    return binaries.locate(["plugin-host"])["plugin-host"]


@pytest.fixture
def log() -> RecordingLog:
    return RecordingLog()


@pytest.fixture
def deadlines() -> Deadlines:
    """Generous deadlines; tests of passing deadlines have their own."""
    return Deadlines()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="session")
def found() -> dict[tuple[str, Deadlines], InstalledPlugins]:
    """What was found so far: looking starts each program once, and what is found runs none."""
    return {}


@pytest.fixture
async def installed(
    way: str,
    found: dict[tuple[str, Deadlines], InstalledPlugins],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
    deadlines: Deadlines,
) -> InstalledPlugins:
    """The sample plugin, found as a server finds it, which it does once at its start."""
    if (way, deadlines) not in found:
        found[way, deadlines] = await _find(way, tmp_path_factory.mktemp("plugins"), request, deadlines)
    return found[way, deadlines]


async def _find(
    way: str, directory: Path, request: pytest.FixtureRequest, deadlines: Deadlines
) -> InstalledPlugins:
    modules = []
    if way == "in this process":
        modules = [SAMPLE_MODULE]
    elif way == "own program":
        put_own(directory)
    else:
        (directory / "compiled").symlink_to(request.getfixturevalue("compiled_sample"))
    options = PluginOptions(
        directory=directory, modules=modules, deadlines=deadlines, limits=ProcessLimits(start=120.0)
    )
    return await find_plugins(options)


@pytest.fixture
async def operation(installed: InstalledPlugins, log: RecordingLog) -> AsyncIterator[PluginSession]:
    """An operation with the sample plugin."""
    async with installed.operation(sink=log) as running:
        yield running
