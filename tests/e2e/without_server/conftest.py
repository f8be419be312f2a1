"""A namespace with a few objects, and the command to back them up."""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.pki import KeyPair
from hack.cluster.processes import free_port
from hack.cluster.s3 import Bucket, S3Server
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CONFIGMAPS, SECRETS
from tests.e2e.without_server.command import Pinnace

PASSWORD = "a-word-that-must-stay-in-the-cluster"
ENCODED_PASSWORD = base64.b64encode(PASSWORD.encode()).decode()


class MakePinnace(Protocol):
    """The `pinnace_for` fixture."""

    def __call__(
        self, location: str | None, *, kubeconfig: Path | None = None, environ: dict[str, str] | None = None
    ) -> Pinnace: ...


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


def s3_url(bucket: Bucket, *, prefix: str = "", server_url: str | None = None, **parameters: str) -> str:
    """The location URL of a bucket; `server_url` leads through a proxy."""
    config = {**bucket.location_config, **parameters}
    if server_url is not None:
        config["s3Url"] = server_url
    return f"s3://{bucket.name}/{prefix}?{urlencode(config)}"


def s3_environ(server: S3Server) -> dict[str, str]:
    """Variables that lead to the server's credentials."""
    return {"AWS_SHARED_CREDENTIALS_FILE": str(server.credentials_file)}


def exists(path: Path) -> bool:
    """Whether there is something of that name."""
    return path.exists()


@pytest.fixture
def empty_location(location: Path) -> Path:
    """The location, made and without a backup."""
    location.mkdir()
    return location


def files_in(folder: Path) -> dict[str, bytes]:
    """What is in a folder, by relative path; nothing if it does not exist."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stored(bucket: Bucket) -> set[str]:
    """The keys in a bucket, as its server keeps them."""
    root = bucket.server.directory / "buckets" / bucket.name
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


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
    """A port of this machine where nobody listens."""
    return free_port()


@pytest.fixture
def control_plane_ca(control_plane: ControlPlane) -> Path:
    """A certificate authority that has nothing to do with any S3 server."""
    return control_plane.authority.certificate
