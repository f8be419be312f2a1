"""Finding and building programs. `go` is a script here: the real build takes minutes and has its own use."""

import re
from pathlib import Path

import pytest

from hack.cluster import binaries
from hack.cluster.errors import ProgramUnavailable

FAKE_GO = """#!/bin/sh
shift 2  # -C DIR
case "$1" in
env) {env} ;;
build)
    echo "$@" >> "{calls}"
    while [ "$1" != -o ]; do shift; done
    folder=$2
    shift 2
    for package; do
        # Go's rule: a version of the module is no name.
        set -- "$folder/$(basename "$(echo "$package" | sed -E 's,/v[0-9]+$,,')")"
        {build}
    done ;;
esac
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PINNACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    (tmp_path / "path").mkdir()
    return tmp_path / "cache"


def put_go(
    tmp_path: Path, *, env: str = "echo go1.99", build: str = 'echo made > "$1"; chmod +x "$1"'
) -> Path:
    calls = tmp_path / "calls"
    go = tmp_path / "path" / "go"
    go.write_text(FAKE_GO.format(env=env, build=build, calls=calls))
    go.chmod(0o755)
    return calls


def test_programs_of_the_assets_folder_are_preferred(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    etcd = tmp_path / "assets" / "etcd"
    etcd.parent.mkdir()
    etcd.touch(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(etcd.parent))

    assert binaries.locate(["etcd"]) == {"etcd": etcd}
    assert not cache.exists()


def test_builds_once_with_the_version_stamped(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = put_go(tmp_path)

    first = binaries.locate(["kube-apiserver"])
    second = binaries.locate(["kube-apiserver"])

    path = first["kube-apiserver"]
    assert first == second
    assert path.is_relative_to(cache / "bin")
    assert path.read_text() == "made\n"
    (call,) = calls.read_text().splitlines()
    assert "-trimpath" in call
    assert f"gitVersion={binaries.KUBERNETES.version}" in call
    assert call.endswith("k8s.io/kubernetes/cmd/kube-apiserver")
    assert "building kube-apiserver" in capsys.readouterr().err
    assert not list(path.parent.glob(".build-*"))


def test_the_programs_of_one_toolset_are_built_by_one_call(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each call loads the graph of 1,500 packages, and links while nothing else is compiled."""
    calls = put_go(tmp_path, build='echo "$package" > "$1"; chmod +x "$1"')
    (kubelet := binaries.locate(["kubelet"])["kubelet"]).write_text("an earlier run's")
    calls.unlink()

    found = binaries.locate([*binaries.CONTROL_PLANE, *binaries.S3_SERVER, *binaries.NODE])

    assert [call.split("/ ")[-1].split() for call in calls.read_text().splitlines()] == [
        [
            "go.etcd.io/etcd/server/v3",
            "k8s.io/kubernetes/cmd/kube-apiserver",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-scheduler",
        ],
        ["github.com/versity/versitygw/cmd/versitygw"],
    ]
    assert kubelet.read_text() == "an earlier run's"
    assert {name: path.name for name, path in found.items()} == {name: name for name in found}
    assert found["etcd"].read_text() == "go.etcd.io/etcd/server/v3\n"
    assert (
        "building etcd, kube-apiserver, kube-controller-manager, kube-scheduler of" in capsys.readouterr().err
    )


def test_how_long_building_takes_is_said_before(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_go(tmp_path)
    names = [*binaries.CONTROL_PLANE, *binaries.S3_SERVER]

    binaries.announce(names)
    assert capsys.readouterr().err == (
        "[cluster] 4 of 4 programs have to be built, once a machine: "
        "at most about 8 minutes on two idle cores, several times that beside other work\n"
        "[cluster]    6.5 min  etcd, kube-apiserver, kube-controller-manager\n"
        "[cluster]      1 min  versitygw\n"
    )
    binaries.locate(names)
    capsys.readouterr()
    binaries.announce(names)
    assert capsys.readouterr().err == ""


def test_a_program_for_another_architecture_is_built_apart(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_go(tmp_path, build='echo "for ${GOARCH:-this machine}" > "$1"; chmod +x "$1"')

    native = binaries.locate(["kopia"])["kopia"]
    foreign = binaries.locate(["kopia"], architecture="arm64")["kopia"]
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(native.parent))

    assert native.read_text() == "for this machine\n"
    assert foreign.read_text() == "for arm64\n"
    assert binaries.locate(["kopia"], architecture="arm64") == {"kopia": foreign}


def test_leftovers_of_a_killed_build_are_removed(cache: Path, tmp_path: Path) -> None:
    put_go(tmp_path)
    leftover = cache / "bin" / binaries.S3.key / ".build-killed"
    leftover.mkdir(parents=True)

    binaries.locate(["versitygw"])

    assert not leftover.exists()


def test_failed_build_leaves_nothing_and_quotes_the_compiler(cache: Path, tmp_path: Path) -> None:
    put_go(tmp_path, build='echo half > "$1"; echo "undefined: x" >&2; exit 1')

    with pytest.raises(ProgramUnavailable, match=r"failed with code 1\.[^$]*undefined: x"):
        binaries.locate(["etcd"])

    assert not list(cache.rglob("etcd"))


def test_without_go_the_error_says_how_to_get_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))

    with pytest.raises(ProgramUnavailable, match=r"no `go` in PATH.*go\.dev/dl.*KUBEBUILDER_ASSETS"):
        binaries.locate(["etcd"])


def test_too_old_go_is_quoted(cache: Path, tmp_path: Path) -> None:
    put_go(tmp_path, env='echo "go: go.mod requires go >= 1.24.0 (running go 1.19)" >&2; exit 1')

    with pytest.raises(ProgramUnavailable, match=r"running go 1\.19[^$]*needs Go 1\.24"):
        binaries.locate(["etcd"])


@pytest.mark.parametrize("toolset", [binaries.KUBERNETES, binaries.S3], ids=lambda toolset: toolset.name)
def test_pins_are_complete(toolset: binaries.Toolset) -> None:
    assert re.fullmatch(r"v\d+\.\d+\.\d+", toolset.version)
    assert re.fullmatch(r"\d+\.\d+\.\d+", toolset.go_version)
    assert toolset.key.startswith(f"{toolset.name}-{toolset.version}-")
    go_mod = (toolset.directory / "go.mod").read_text()
    for program in binaries.PROGRAMS.values():
        assert program.toolset is not toolset or program.package in go_mod


def test_key_changes_with_the_recipe() -> None:
    plain = binaries.Toolset(name="kubernetes", module="k8s.io/kubernetes", minutes=1)

    assert plain.version == binaries.KUBERNETES.version
    assert plain.key != binaries.KUBERNETES.key
