"""A restore engine before a real API server."""

from pathlib import Path

import pytest

from pinnace.kube.client import KubeClient
from tests.support.runs.real_restores import RealRestore


@pytest.fixture
def restore(client: KubeClient, tmp_path: Path) -> RealRestore:
    """A function that restores the given items into the first cluster."""
    return RealRestore(client, tmp_path)
