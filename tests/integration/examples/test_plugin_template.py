"""The template for plugin authors works as it is, in environments of its own.

There is no container engine here: the steps of the Containerfile are taken one by one in fresh folders, with
packages of others from this environment instead of from an index.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS
from pinnace.plugins.asynchronous import BackupItemActionV2
from pinnace.plugins.installed import PluginOptions, find_plugins
from tests.support.plugins.programs import put_script

CHECKOUT = Path(__file__).parents[3]
TEMPLATE = CHECKOUT / "examples" / "plugin"

LISTING = (
    "import sys; from pathlib import Path; from pinnace.plugins.testing import plugins_in;"
    "print(plugins_in(Path(sys.argv[1])))"
)
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web-0", "namespace": "shop"},
    "spec": {"serviceAccountName": "web"},
}


def run(*command: str | Path, **more: str) -> str:
    """Run a command that must succeed; return its output."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    ended = subprocess.run(command, env=kept | more, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def instructions(name: str) -> list[str]:
    """What the Containerfile says under a name, lines joined."""
    text = (TEMPLATE / "Containerfile").read_text().replace("\\\n", " ")
    return [line.split(" ", 1)[1] for line in text.splitlines() if line.startswith(f"{name} ")]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, with Pinnace in its folder of wheels."""
    source = tmp_path_factory.mktemp("image") / "source"
    shutil.copytree(TEMPLATE, source, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    offline = ("--no-index", "--no-deps", "--no-build-isolation")
    run(sys.executable, "-m", "pip", "wheel", *offline, "--wheel-dir", source / "wheels", CHECKOUT)
    return source


@pytest.fixture(scope="module")
def python(source: Path) -> Path:
    """The interpreter of a fresh environment into which plugin and Pinnace are installed from these files."""
    environment = source.parent / "venv"
    venv.create(environment, with_pip=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"])
    python = environment / "bin" / "python"
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed")
    run(python, "-m", "pip", "install", *offline, *source.glob("wheels/*.whl"), source)
    return python


@pytest.fixture
def environment() -> dict[str, str]:
    """Without the variables by which one pytest tells another that it is its worker."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return kept | {"PYTHONPATH": str(TEMPLATE / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


def test_its_own_tests_pass(environment: dict[str, str], tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}"],
        cwd=TEMPLATE,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "3 passed" in ended.stdout


def test_the_installed_package_is_found_by_its_entry_point(python: Path) -> None:
    script = "from pinnace.plugins.python.loading import load_python_plugins as load; print(*load([]))"

    assert run(python, "-c", script) == "BackupItemAction example.com/add-owner\n"


@pytest.mark.parametrize("way", ["command", "file"])
async def test_the_installed_program_takes_part_in_a_backup(
    python: Path,
    source: Path,
    way: str,
    tmp_path: Path,
    control_plane: ControlPlane,
    client: KubeClient,
    namespace: str,
) -> None:
    """As the command that pip makes, and by its main file, which is how PyInstaller runs it."""
    labels = {"velero.io/plugin-config": "", "example.com/add-owner": "BackupItemAction"}
    config = {"metadata": {"name": "any", "labels": labels}, "data": {"owner": "team-a"}}
    await client.create(CONFIGMAPS, config, namespace)
    command = f"{python.parent}/owner-plugin"
    if way == "file":
        command = f"{python} {source}/src/owner_plugin/__main__.py"
    program = f'#!/bin/sh\nPINNACE_PLUGIN_COMMAND="$0" exec {command} "$@"\n'
    put_script(tmp_path / "plugins", "owner", program)
    environ = {"KUBECONFIG": str(control_plane.kubeconfig), "VELERO_NAMESPACE": namespace, "PATH": os.defpath}
    plugins = await find_plugins(PluginOptions(directory=tmp_path / "plugins", modules=[], environ=environ))

    async with plugins.operation() as operation:
        (action,) = operation.backup_actions
        assert not isinstance(action, BackupItemActionV2)
        await action.applies_to()
        item, additional = await action.execute(POD, Backup(metadata=ObjectMeta(name="b1", namespace="v")))

    assert item["metadata"]["annotations"] == {"example.com/owner": "team-a"}
    assert [(one.resource, one.name) for one in additional] == [("serviceaccounts", "web")]


def test_the_image_installs_what_is_installed_here() -> None:
    install = instructions("RUN")[1].split("&&")[0].split()

    assert instructions("COPY")[0] == ". /source"
    assert install == ["pip", "install", "--no-cache-dir", "pyinstaller", "/source/wheels/*.whl", "/source"]


@pytest.mark.skipif(
    not shutil.which("pyinstaller"), reason="pyinstaller is not installed, and takes a minute"
)
def test_the_file_that_pyinstaller_makes_is_a_plugin(python: Path, source: Path, tmp_path: Path) -> None:
    words = shlex.split(instructions("RUN")[1].split("&&")[1])
    places = {"/source": str(source), "/out": str(tmp_path / "out")}
    for place, here in places.items():
        words = [f"{here}{word[len(place) :]}" if word.startswith(place) else word for word in words]
    packages = next(python.parents[1].glob("lib/python*/site-packages"))
    run(*words, "--workpath", tmp_path / "work", "--specpath", tmp_path, PYTHONPATH=str(packages))

    assert (
        run(python, "-c", LISTING, tmp_path / "out" / "owner-plugin")
        == "['BackupItemAction example.com/add-owner']\n"
    )


def test_the_init_container_copies_one_executable_file(python: Path, tmp_path: Path) -> None:
    """With a program in the place of the one that PyInstaller makes."""
    (copied,) = [words.split()[1:] for words in instructions("COPY") if words.startswith("--from=build")]
    assert copied == ["/out/owner-plugin", "/plugins/owner-plugin"]
    put_script(tmp_path / "plugins", "owner-plugin", f'#!/bin/sh\nexec {python.parent}/owner-plugin "$@"\n')
    (tmp_path / "target").mkdir()
    run(
        *(
            f"{tmp_path}{word}" if word.startswith("/") else word
            for word in json.loads(instructions("ENTRYPOINT")[0])
        )
    )

    assert (
        run(python, "-c", LISTING, tmp_path / "target" / "owner-plugin")
        == "['BackupItemAction example.com/add-owner']\n"
    )
