"""Make the image without a Docker engine: an archive for `docker load`, `podman load`, `ctr images import`.

python -m deploy.image.build --tag example.com/backup/pinnace:v1 pinnace.tar
"""

import argparse
import fcntl
import hashlib
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deploy.image import root_filesystem
from deploy.image.root_filesystem import Machine, machine_named, this_machine
from hack.cluster import binaries
from hack.cluster.binaries import cache_directory
from hack.cluster.errors import ClusterError
from hack.cluster.nodes.images import ImageConfig, image_from_tree

INPUTS = (
    *("src/pinnace", "pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "requirements"),
    *("deploy/image", "hack/tools/kopia"),
)
"""The files of the checkout that decide what is in the image; the Dockerfile copies the same."""
KEPT = 3
"""How many archives the cache keeps: they are 160 MB each and change with every change of the source."""


def build(archive: Path, tags: Sequence[str], machine: Machine | None = None) -> Path:
    """Write an archive with the image under one or several names.

    Args:
        archive: file to write; replaced as a whole, so that it never is half an image.
        machine: the machine that the image is for; by default the one that this runs on.

    Raises:
        BuildError: a step failed, or the emulator is missing; the archive is as it was.
        ProgramUnavailable: kopia cannot be built here.
    """
    machine = machine or this_machine()
    root_filesystem.emulator(machine)  # before kopia is built, which takes minutes
    config = ImageConfig(
        architecture=machine.architecture,
        entrypoint=root_filesystem.ENTRYPOINT,
        environment=root_filesystem.ENVIRONMENT,
        user=f"{root_filesystem.USER}:{root_filesystem.USER}",
    )
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".image-") as scratch:
        tree = Path(scratch) / "tree"
        other = "" if machine == this_machine() else machine.architecture
        kopia = binaries.locate(binaries.UPLOADER, architecture=other)["kopia"]
        root_filesystem.build(tree, kopia, machine)
        made = image_from_tree(tree, Path(scratch) / "image.tar", dict.fromkeys(tags, config))
        made.replace(archive)
    return archive


def cached(tags: Sequence[str]) -> Path:
    """Return an archive of the checkout as it stands, from the cache if nothing has changed.

    The Debian packages are as new as the archive: remove the cache's folder `images` to fetch them again.
    """
    folder = cache_directory() / "images"
    archive = folder / f"pinnace-{_content_key(tags)}.tar"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may be building the very same
        if archive.exists():
            os.utime(archive)
            return archive
        build(archive, tags)
        for old in sorted(folder.glob("pinnace-*.tar"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
            old.unlink(missing_ok=True)
    return archive


def _content_key(tags: Sequence[str]) -> str:
    """Changes with anything in the checkout that changes the image."""
    digest = hashlib.sha256("\n".join(tags).encode())
    for name in INPUTS:
        path = root_filesystem.SOURCE / name
        files = [path] if path.is_file() else sorted(path.rglob("*"))
        for file in files:
            if file.is_file() and file.suffix != ".pyc":
                digest.update(f"{file.relative_to(root_filesystem.SOURCE)}\0".encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]


def main() -> None:
    """Make the archive that the command line names."""
    parser = argparse.ArgumentParser(description="Make the container image without a Docker engine.")
    parser.add_argument("archive", type=Path, help="file to write, in the form of `docker save`")
    parser.add_argument("--tag", action="append", required=True, help="name of the image; can be repeated")
    root_filesystem.add_architecture(parser)
    arguments = parser.parse_args()
    try:
        build(arguments.archive, arguments.tag, machine_named(arguments.architecture))
    except (root_filesystem.BuildError, ClusterError) as error:
        sys.exit(f"build: {error}")


if __name__ == "__main__":
    main()
