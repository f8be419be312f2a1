"""Container images without a registry: a folder becomes an image in an archive.

The archive has the form of `docker save`, which containerd imports. An image has one layer; all files belong
to root. Pods use it with `imagePullPolicy: Never` (or leave that out: a tag other than `latest` is not pulled
when it is there).
"""

import hashlib
import io
import json
import os
import platform
import re
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hack.cluster.errors import ClusterError, ProgramUnavailable
from hack.cluster.processes import run_command

BUSYBOX = "localhost/pinnace/busybox:1"
"""For workloads: a shell and the usual commands, statically linked."""
PAUSE = "localhost/pinnace/pause:1"
"""Holds the namespaces of a pod."""

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # as Go names them
COMMAND_TIMEOUT_SECONDS = 30.0
USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
GROUPS = "root:x:0:\nnogroup:x:65534:\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """How an image is run; an empty value is left out of the image.

    `user` is a name of the image's /etc/passwd, or `uid` or `uid:gid` in digits; `architecture` is
    a name of Go's, by default this machine's.
    """

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    working_directory: str = "/"
    architecture: str = ARCHITECTURES.get(platform.machine(), platform.machine())

    def document(self, layer_digest: str) -> bytes:
        """Return the image's configuration in the form of the OCI image specification."""
        process = {
            "Entrypoint": list(self.entrypoint) or None,
            "Cmd": list(self.command) or None,
            "Env": [f"{key}={value}" for key, value in self.environment.items()],
            "User": self.user,
            "WorkingDir": self.working_directory,
        }
        document = {
            "architecture": self.architecture,
            "os": "linux",
            "config": process,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        }
        return json.dumps(document).encode()


def image_from_tree(tree: Path, archive: Path, images: Mapping[str, ImageConfig]) -> Path:
    """Write an archive with images of one folder's content.

    Args:
        tree: becomes the root file system. Owners become root, modes and links stay, device files and
            sockets are left out. The folder is only read.
        archive: file to write; the layer is written beside it first, so it takes the space twice.
        images: configuration by image name, such as `localhost/app:1`; all share the layer.

    Returns:
        The archive, for `Node.load`.
    """
    layer = archive.with_name(f"{archive.name}.layer")
    try:
        digest = _write_layer(tree, layer)
        with tarfile.open(archive, "w") as output:
            manifest = []
            for number, (name, config) in enumerate(images.items()):
                _add_bytes(output, f"config-{number}.json", config.document(digest))
                manifest.append(
                    {"Config": f"config-{number}.json", "RepoTags": [name], "Layers": ["layer.tar"]}
                )
            output.add(layer, "layer.tar", filter=_timeless)
            _add_bytes(output, "manifest.json", json.dumps(manifest).encode())
    finally:
        layer.unlink(missing_ok=True)
    return archive


def base_images(archive: Path) -> Path:
    """Write an archive with BUSYBOX and PAUSE, from this machine's busybox."""
    tree = archive.with_name(f"{archive.name}.tree")
    try:
        add_busybox(tree)
        return image_from_tree(
            tree,
            archive,
            {
                BUSYBOX: ImageConfig(command=["/bin/sh"], environment={"PATH": "/bin"}),
                PAUSE: ImageConfig(entrypoint=["/bin/sleep", "2147483647"]),
            },
        )
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def add_busybox(tree: Path) -> None:
    """Give a tree a shell, the usual commands, users, and the folders that programs expect."""
    program = shutil.which("busybox")
    if program is None:
        raise ProgramUnavailable("There is no `busybox` in PATH; on Debian: apt-get install busybox-static")
    add_program(tree, Path(program), at="/bin/busybox")
    applets = run_command([program, "--list"], timeout_seconds=COMMAND_TIMEOUT_SECONDS).split()
    for name in applets:
        path = tree / "bin" / name
        if not os.path.lexists(path):
            path.symlink_to("busybox")
    for folder, mode in (("etc", 0o755), ("root", 0o755), ("tmp", 0o1777), ("var/tmp", 0o1777)):
        (tree / folder).mkdir(parents=True, exist_ok=True)
        (tree / folder).chmod(mode)
    (tree / "etc/passwd").write_text(USERS)
    (tree / "etc/group").write_text(GROUPS)


def add_program(tree: Path, program: Path, *, at: str | None = None) -> None:
    """Copy a program of this machine into a tree, with the shared libraries it needs.

    Args:
        at: absolute path in the image; its path on this machine when left out.
    """
    _copy(program, tree, at or str(program))
    add_libraries(tree, [program])


def add_libraries(tree: Path, files: Sequence[Path]) -> None:
    """Copy the shared libraries that programs or libraries need, as `ldd` finds them, to the same paths."""
    for library in sorted({library for file in files for library in _libraries(file)}):
        _copy(Path(library), tree, library)


def _libraries(file: Path) -> list[str]:
    try:
        found = run_command(["ldd", file], timeout_seconds=COMMAND_TIMEOUT_SECONDS)
    except ProgramUnavailable:
        raise
    except ClusterError:
        return []  # statically linked, which ldd calls an error
    return re.findall(r"(/\S+) \(0x", found)


def _copy(source: Path, tree: Path, path: str) -> None:
    target = tree / path.lstrip("/")
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def _write_layer(tree: Path, layer: Path) -> str:
    with tarfile.open(layer, "w", format=tarfile.GNU_FORMAT) as output:
        for path in sorted(tree.iterdir()):
            output.add(path, path.name, filter=_root_owned)
    with layer.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _timeless(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """A tar entry without the time of the build, so that the same layer gives the same archive."""
    member.mtime, member.mode = 0, 0o644
    return _root_owned(member)


def _root_owned(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _add_bytes(output: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    output.addfile(member, io.BytesIO(content))
