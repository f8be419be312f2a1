"""Images: the content of the archive that containerd gets."""

import hashlib
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.nodes.images import (
    BUSYBOX,
    PAUSE,
    ImageConfig,
    add_program,
    base_images,
    image_from_tree,
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "bin/tool").write_text("#!/bin/sh\n")
    (tree / "bin/tool").chmod(0o750)
    (tree / "bin/alias").symlink_to("tool")
    return tree


def read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def manifest_of(archive: tarfile.TarFile) -> list[dict[str, Any]]:
    manifest: list[dict[str, Any]] = json.loads(read(archive, "manifest.json"))
    return manifest


def test_an_image_that_is_made_again_is_the_same_to_the_byte(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("content")
    images = {"localhost/tool:1": ImageConfig()}
    first = image_from_tree(tree, tmp_path / "a.tar", images)
    with tarfile.open(first) as archive:
        assert {member.mtime for member in archive} == {0}
    assert first.read_bytes() == image_from_tree(tree, tmp_path / "b.tar", images).read_bytes()


def test_archive_holds_layer_and_configuration(tree: Path, tmp_path: Path) -> None:
    config = ImageConfig(entrypoint=["/bin/tool"], command=["a"], environment={"K": "v w"}, user="65534")

    path = image_from_tree(tree, tmp_path / "image.tar", {"localhost/tool:1": config})

    with tarfile.open(path) as archive:
        (image,) = manifest_of(archive)
        document = json.loads(read(archive, image["Config"]))
        layer = read(archive, image["Layers"][0])
    assert image["RepoTags"] == ["localhost/tool:1"]
    assert document["config"] == {
        "Entrypoint": ["/bin/tool"],
        "Cmd": ["a"],
        "Env": ["K=v w"],
        "User": "65534",
        "WorkingDir": "/",
    }
    assert document["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["image.tar", "tree"]


def test_layer_keeps_modes_and_links_and_belongs_to_root(tree: Path, tmp_path: Path) -> None:
    path = image_from_tree(tree, tmp_path / "image.tar", {"localhost/tool:1": ImageConfig()})

    with tarfile.open(path) as archive, tarfile.open(fileobj=archive.extractfile("layer.tar")) as layer:
        members = {member.name: member for member in layer}
    assert members.keys() == {"bin", "bin/tool", "bin/alias"}
    assert members["bin/tool"].mode == 0o750
    assert members["bin/alias"].linkname == "tool"
    assert {(member.uid, member.uname) for member in members.values()} == {(0, "root")}


def test_images_of_one_tree_share_the_layer(tree: Path, tmp_path: Path) -> None:
    images = {"localhost/a:1": ImageConfig(user="1"), "localhost/b:1": ImageConfig(user="2")}

    path = image_from_tree(tree, tmp_path / "image.tar", images)

    with tarfile.open(path) as archive:
        users = {
            image["RepoTags"][0]: json.loads(read(archive, image["Config"]))["config"]["User"]
            for image in manifest_of(archive)
        }
        assert archive.getnames().count("layer.tar") == 1
    assert users == {"localhost/a:1": "1", "localhost/b:1": "2"}


@pytest.mark.skipif(shutil.which("ldd") is None, reason="no ldd")
def test_program_comes_with_its_libraries(tmp_path: Path) -> None:
    program = shutil.which("env")
    assert program is not None

    add_program(tmp_path, Path(program), at="/bin/env")
    add_program(tmp_path, Path(program), at="/bin/env")  # what is there stays

    assert (tmp_path / "bin/env").stat().st_mode & 0o111
    assert list(tmp_path.rglob("libc.so.*")) or list(tmp_path.rglob("libc.musl*"))


@pytest.mark.skipif(shutil.which("busybox") is None, reason="no busybox")
def test_base_images_contain_a_shell_and_pause(tmp_path: Path) -> None:
    path = base_images(tmp_path / "base.tar")

    with tarfile.open(path) as archive, tarfile.open(fileobj=archive.extractfile("layer.tar")) as layer:
        assert [image["RepoTags"] for image in manifest_of(archive)] == [[BUSYBOX], [PAUSE]]
        assert {"bin/sh", "bin/sleep", "tmp", "etc/passwd"} <= set(layer.getnames())
        assert layer.getmember("tmp").mode == 0o1777
