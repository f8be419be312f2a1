"""Backups, restores and deletions by the controllers themselves, and what they work on."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hack.cluster import binaries, node_requirements
from hack.cluster.errors import ClusterError
from pinnace.kube.client import KubeClient
from pinnace.volumes.csi import SnapshotKinds
from tests.integration.snapshots.apps import CSIApp, FolderApp
from tests.integration.snapshots.bench import Bench, make_bench
from tests.support.folder_snapshotter import NAME as PROVIDER
from tests.support.snapshot_crds import ensure_snapshot_crds

HERE = Path(__file__).parent


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the parts of CSI before the first test starts, as building them outlasts any test's timeout.

    What cannot be had is reported by the tests that need it.
    """
    if session.config.option.collectonly or node_requirements.why_impossible() is not None:
        return
    if any(HERE in item.path.parents and item.get_closest_marker("node") for item in session.items):
        with contextlib.suppress(ClusterError):
            binaries.locate(binaries.CSI_TOOLS)


@pytest.fixture
async def kinds(client: KubeClient) -> SnapshotKinds:
    """The kinds of CSI snapshots are served."""
    return await ensure_snapshot_crds(client)


@pytest.fixture
async def bench(
    client: KubeClient, namespace: str, velero_crds: None, kinds: SnapshotKinds, tmp_path: Path
) -> Bench:
    """Controllers with the feature on, the folder snapshotter, and a location."""
    return await make_bench(client, namespace, tmp_path)


@pytest.fixture
async def csi_app(bench: Bench, kinds: SnapshotKinds) -> AsyncIterator[CSIApp]:
    made = CSIApp(bench, kinds)
    await made.create()
    async with made.storage.working():
        yield made
    await made.remove()


@pytest.fixture
async def folder_app(bench: Bench, tmp_path: Path) -> FolderApp:
    config = {"directory": str(tmp_path / "provider")}
    await bench.create("volumesnapshotlocations", "here", {"provider": PROVIDER, "config": config})
    made = FolderApp(bench, tmp_path)
    await made.create()
    return made
