"""`version`: when the versions of client and server are compared."""

import pytest

from pinnace.cli.client.version import ReportedVersion, _lines
from pinnace.client.server_status import is_ours
from pinnace.controllers.server_status import shown_plugins


@pytest.mark.parametrize(
    ("server", "warning"),
    [
        (ReportedVersion("v0.1.7", is_ours=True), ""),
        (ReportedVersion("v0.2.0", is_ours=True), "Please update client"),
        (ReportedVersion("v0.0.9", is_ours=True), "Please update server"),
        (ReportedVersion("v1.18.0"), ""),
        (ReportedVersion("v1.6.3"), ""),
    ],
)
@pytest.mark.spec("CLI-033")
def test_only_versions_of_the_same_program_are_compared(server: ReportedVersion, warning: str) -> None:
    lines = "\n".join(_lines("v0.1.0", server))

    assert server.version in lines
    assert ("# WARNING: the client version does not match" in lines, warning in lines) == (
        bool(warning),
        True,
    )


def test_a_pinnace_server_is_known_by_its_providers() -> None:
    of_pinnace = [{"name": name, "kind": kind} for name, kind in shown_plugins()]
    of_velero = [{"name": "velero.io/aws", "kind": "ObjectStore"}, "odd"]

    assert is_ours({"status": {"plugins": of_pinnace}})
    assert not is_ours({"status": {"plugins": of_velero}})
    assert not is_ours({"status": {}})
