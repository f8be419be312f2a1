"""Backups and restores of pods that run, made by the code behind `pinnace --location`."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hack.cluster.nodes.cluster import NodeCluster
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import NAMESPACES
from tests.support.cluster.applications import Application


@pytest.fixture
async def application(
    node_cluster: NodeCluster, node_client: KubeClient, node_namespace: str, tmp_path: Path
) -> AsyncIterator[Application]:
    """An empty one; the namespace of its restore is deleted too."""
    made = Application(node_client, node_namespace, node_cluster.control_plane, tmp_path / "location")
    yield made
    with contextlib.suppress(NotFound):  # where nothing was restored
        await node_client.delete(NAMESPACES, made.copy)
