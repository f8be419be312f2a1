"""Commands as child processes, for the server of one namespace: there is none, but for its objects."""

import pytest

from hack.cluster.control_plane import ControlPlane
from tests.e2e.without_server.command import Outcome, Pinnace


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


def only_line(outcome: Outcome) -> str:
    """The one line that a command printed, without an error."""
    assert (outcome.code, outcome.err) == (0, ""), outcome
    assert outcome.out.count("\n") == 1, outcome
    return outcome.out.strip()


def error(outcome: Outcome) -> str:
    """The one line that says what is wrong."""
    assert (outcome.code, outcome.out) == (1, ""), outcome
    assert outcome.err.startswith("An error occurred: "), outcome
    assert outcome.err.count("\n") == 1, outcome
    return outcome.err.removeprefix("An error occurred: ").strip()
