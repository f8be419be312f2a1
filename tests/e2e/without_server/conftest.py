"""A namespace with a few objects, and the command to back them up."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.pki import KeyPair
from hack.cluster.processes import free_port
from hack.cluster.proxy import FaultProxy
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CONFIGMAPS, SECRETS
from tests.e2e.without_server.command import Pinnace
from tests.support.runs.without_server import ENCODED_PASSWORD, PASSWORD, MakePinnace

StartProxy = Callable[..., Awaitable[FaultProxy]]


@pytest.fixture
async def world(client: KubeClient, namespace: str) -> str:
    """A namespace with three config maps and a secret; returns its name."""
    for name, labels in (("settings", {"app": "web"}), ("other", {"app": "db"}), ("plain", {})):
        await client.create(
            CONFIGMAPS,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "labels": labels},
                "data": {"key": f"value of {name}"},
            },
            namespace,
        )
    await client.create(
        SECRETS,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "password"},
            "data": {"password": ENCODED_PASSWORD},
        },
        namespace,
    )
    return namespace


@pytest.fixture
def pinnace_for(tmp_path: Path, control_plane: ControlPlane) -> MakePinnace:
    """A function that makes a command for a location."""

    def make(
        location: str | None, *, kubeconfig: Path | None = None, environ: dict[str, str] | None = None
    ) -> Pinnace:
        return Pinnace(
            tmp_path,
            kubeconfig=kubeconfig or control_plane.kubeconfig,
            location=location,
            secrets=(PASSWORD, ENCODED_PASSWORD),
            environ=environ,
        )

    return make


@pytest.fixture
def location(tmp_path: Path) -> Path:
    """A folder for backups, which does not exist yet."""
    return tmp_path / "backups"


@pytest.fixture
def pinnace(pinnace_for: MakePinnace, location: Path) -> Pinnace:
    """The command with `location`."""
    return pinnace_for(str(location))


@pytest.fixture
def empty_location(location: Path) -> Path:
    """The location, made and without a backup."""
    location.mkdir()
    return location


@pytest.fixture
async def limited_user(
    control_plane: ControlPlane, client: KubeClient, tmp_path: Path, namespace: str
) -> Callable[..., Any]:
    """A function that makes a user who may do only what the rules say; returns the kubeconfig."""

    async def make(*rules: dict[str, list[str]]) -> Path:
        name = f"{namespace}-limited"
        pair: KeyPair = control_plane.authority.issue_client(name, user=name)
        group = "rbac.authorization.k8s.io"
        await client.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": list(rules)})
        await client.create(
            CLUSTER_ROLE_BINDINGS,
            {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": group, "kind": "User", "name": name}],
            },
        )
        return control_plane.write_kubeconfig(
            tmp_path / "limited-kubeconfig", server=control_plane.url, client=pair
        )

    return make


@pytest.fixture
def unused_port() -> int:
    """A port of this machine without a listener."""
    return free_port()


@pytest.fixture
def control_plane_ca(control_plane: ControlPlane) -> Path:
    """A certificate authority that has nothing to do with any S3 server."""
    return control_plane.authority.certificate


@pytest.fixture
async def api_proxy(fault_proxy: StartProxy, control_plane: ControlPlane) -> FaultProxy:
    return await fault_proxy(control_plane)


@pytest.fixture
def slow_cluster(control_plane: ControlPlane, api_proxy: FaultProxy, tmp_path: Path) -> Path:
    """A kubeconfig that leads through `api_proxy`."""
    return control_plane.write_kubeconfig(tmp_path / "through-proxy", server=api_proxy.url)
