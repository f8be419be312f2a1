"""Backups, restores and deletions by the controllers themselves, and their applications."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pinnace.csi.snapshots import SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.operations import finalizing_restores
from tests.integration.snapshots.apps import CSIApp, FolderApp
from tests.integration.snapshots.bench import Bench, make_bench
from tests.support.cluster.csi_cluster import locate_before
from tests.support.cluster.snapshot_crds import ensure_snapshot_crds
from tests.support.volumes.folder_snapshotter import NAME as PROVIDER


def pytest_collection_finish(session: pytest.Session) -> None:
    """Building the parts of CSI outlasts any test's timeout."""
    locate_before(session)


@pytest.fixture(autouse=True)
def _soon_for_first_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores wait a second for first pods, as no controller is late here. Unit tests see the long wait."""
    monkeypatch.setattr(finalizing_restores, "FIRST_POD_SECONDS", 1.0)


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
