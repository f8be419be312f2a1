"""Backups and restores without a server, through plugins, by the command that a user runs."""

from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS
from tests.e2e.without_server.command import Pinnace
from tests.support.plugins.objects import config_map
from tests.support.plugins.programs import CHECKOUT, put_own, put_script

EVERYTHING = "tests.support.everything_plugin"


@pytest.fixture(params=["module", "program"])
def pinnace(request: pytest.FixtureRequest, tmp_path: Path, control_plane: ControlPlane) -> Pinnace:
    """The command, with a plugin given in one of the two ways."""
    programs = tmp_path / "plugins"
    if request.param == "module":
        environ = {"PINNACE_PLUGINS": EVERYTHING, "PYTHONPATH": str(CHECKOUT)}
    else:
        put_own(programs, module=EVERYTHING)
        environ = {"PINNACE_PLUGIN_DIR": str(programs)}
    folder = tmp_path / "command"
    folder.mkdir()
    return Pinnace(
        folder, kubeconfig=control_plane.kubeconfig, location=str(tmp_path / "backups"), environ=environ
    )


async def test_a_backup_goes_through_the_plugin_and_a_restore_too(
    client: KubeClient, namespace: str, pinnace: Pinnace
) -> None:
    await client.create(CONFIGMAPS, config_map("change", "change"), namespace)
    await client.create(CONFIGMAPS, config_map("log", "log"), namespace)

    made = await pinnace(
        "backup", "create", "b1", "--include-namespaces", namespace, "--include-resources", "configmaps"
    )
    assert made.code == 3, made.err  # the plugin logged an error
    assert "1 error, 1 warning" in made.out
    log = await pinnace("backup", "logs", "b1")
    assert 'msg="a warning"' in log.out

    await client.delete(CONFIGMAPS, "change", namespace)
    restored = await pinnace("restore", "create", "r1", "--from-backup", "b1", "--allow-partially-failed")
    assert restored.code in (0, 3), restored.err
    found = await client.get(CONFIGMAPS, "change", namespace)
    assert found["metadata"]["labels"]["backup"] == "b1"


async def test_what_is_no_plugin_ends_the_command_before_it_begins(
    namespace: str, tmp_path: Path, control_plane: ControlPlane
) -> None:
    put_script(tmp_path / "plugins", "notes", "#!/bin/sh\necho hello\n")
    folder = tmp_path / "command"
    folder.mkdir()
    pinnace = Pinnace(
        folder,
        kubeconfig=control_plane.kubeconfig,
        location=str(tmp_path / "backups"),
        environ={"PINNACE_PLUGIN_DIR": str(tmp_path / "plugins")},
    )

    made = await pinnace("backup", "create", "b1", "--include-namespaces", namespace)

    assert made.code == 2
    assert "plugins/notes: Unrecognized remote plugin message: 'hello'" in made.err
    assert not (tmp_path / "backups" / "backups").exists()
