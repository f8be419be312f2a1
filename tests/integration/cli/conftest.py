"""Commands as child processes, for the server of one namespace, of which only the objects exist."""

import pytest

from hack.cluster.control_plane import ControlPlane
from tests.e2e.without_server.command import Pinnace


@pytest.fixture
def command(
    control_plane: ControlPlane, namespace: str, velero_crds: None, tmp_path_factory: pytest.TempPathFactory
) -> Pinnace:
    """The `pinnace` command for the namespace of the test."""
    return Pinnace(
        tmp_path_factory.mktemp("command"),
        kubeconfig=control_plane.kubeconfig,
        location=None,
        environ={"VELERO_NAMESPACE": namespace},
    )
