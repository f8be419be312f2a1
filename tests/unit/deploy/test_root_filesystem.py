"""Images for other machines than the one that builds them."""

from pathlib import Path

import pytest

from deploy.image.build import build as build_image
from deploy.image.root_filesystem import MACHINES, BuildError, build, machine_named, this_machine


@pytest.fixture
def foreign() -> str:
    return next(name for name, machine in MACHINES.items() if machine != this_machine())


def test_this_machine_is_found_by_its_own_name() -> None:
    assert machine_named(this_machine().architecture) == this_machine()


def test_a_missing_emulator_is_an_error_that_names_its_package(
    foreign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    tree = tmp_path / "tree"

    with pytest.raises(BuildError, match=f"an image for {foreign} needs .*apt-get install qemu-user-static"):
        build(tree, tmp_path / "kopia", machine_named(foreign))

    assert not tree.exists()


def test_a_missing_emulator_is_reported_before_kopia_is_built(
    foreign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locate(*_arguments: object, **_options: object) -> dict[str, Path]:
        raise AssertionError("kopia is built")

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("deploy.image.build.binaries.locate", locate)

    with pytest.raises(BuildError, match="qemu-user-static"):
        build_image(tmp_path / "image.tar", ["pinnace:test"], machine_named(foreign))


def test_packages_of_another_machine_are_downloaded_with_its_own_lists(
    foreign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """apt-get and the emulator are scripts here; the first one notes what it is asked."""
    machine, programs, asked = machine_named(foreign), tmp_path / "programs", tmp_path / "asked"
    programs.mkdir()
    for name, script in (
        ("apt-get", f'echo "$@" >> {asked}\nexit 1\n'),
        (f"qemu-{machine.name}", "exit 0\n"),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{script}")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")

    with pytest.raises(BuildError, match="apt-get"):
        build(tmp_path / "tree", tmp_path / "kopia", machine)

    (call,) = asked.read_text().splitlines()
    assert call.endswith(" update")
    assert f"APT::Architecture={foreign} " in call
    assert "Dir::State::lists=" in call
