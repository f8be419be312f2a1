"""Makes all files of a release, from one command: `make release`.

Wheel, source archive, chart, image, a list of the components (CycloneDX), and checksums, in `dist/release`.
All but the image come out the same to the byte wherever they are made from the same commit; the image does
where the Debian packages are the same too (deploy/image).
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from deploy.image.build import build as build_image
from deploy.image.root_filesystem import MACHINES, machine_named, this_machine
from pinnace.api.objects import JSONObject
from pinnace.cli.program import cli
from pinnace.cli.usage.manual import manual_pages

ROOT = Path(__file__).resolve().parents[1]
MANUAL = ROOT / "build" / "man"
CHART = ROOT / "deploy" / "helm" / "pinnace"
SUMS = "SHA256SUMS"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class ReleaseError(Exception):
    """The release cannot be made; the text says why."""


def make(folder: Path, *, epoch: int, architectures: Sequence[str]) -> list[Path]:
    """Make all files in a folder that is empty or has a former release, and return them, checksums last.

    Args:
        epoch: the time that archives note for their files, in seconds.
        architectures: of the images; each takes minutes and needs Debian's packages.

    Raises:
        ReleaseError: a part could not be made, or the folder has other files; nothing is deleted then.
    """
    version = _version()
    prepare(folder)
    _build(folder, version, epoch)
    (folder / f"pinnace-chart-{version}.tgz").write_bytes(chart(version, epoch))
    components = json.dumps(components_of(version), indent=2, sort_keys=True)
    (folder / f"pinnace-{version}.cdx.json").write_text(components + "\n")
    for architecture in architectures:
        build_image(
            folder / f"pinnace-image-{version}-{architecture}.tar",
            [f"pinnace:v{version}"],
            machine_named(architecture),
        )
    made = sorted(folder.iterdir())
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made]
    sums = folder / SUMS
    sums.write_text("".join(lines))
    return [*made, sums]


def prepare(folder: Path) -> None:
    """Make a folder, or remove only the files of a former release in it, which its checksums name.

    Raises:
        ReleaseError: it has other files; nothing was removed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sums = folder / SUMS
    former = {line.split("  ")[1] for line in sums.read_text().splitlines()} if sums.exists() else set()
    if others := {path.name for path in folder.iterdir()} - former - {SUMS}:
        raise ReleaseError(
            f"{folder} has files that are no release, such as {min(others)}: name another folder"
        )
    for path in folder.iterdir():
        path.unlink()


def check_committed() -> None:
    """Refuse a checkout with changes, which the version would not identify. Raises ReleaseError."""
    command = ["git", "status", "--porcelain", "--untracked-files=normal"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"not a checkout of git: {done.stderr.strip()}")
    if done.stdout:
        first = done.stdout.splitlines()[0][3:]
        raise ReleaseError(f"the checkout has changes, such as {first}: commit them, or say --uncommitted")


def tag_of_commit() -> str:
    """The tag of this commit that names a version; empty if it has none."""
    command = ["git", "tag", "--points-at", "HEAD", "--list", "v[0-9]*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.split()[0] if done.returncode == 0 and done.stdout.strip() else ""


def _version() -> str:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


def check_tag(tag: str, version: str) -> None:
    """Refuse a tag that names another version. Raises ReleaseError."""
    if tag != f"v{version}":
        raise ReleaseError(f"tag {tag} is not v{version}: change `version` in pyproject.toml, or the tag")


def check_is_new(version: str, cwd: Path = ROOT) -> None:
    """Refuse the version of a former release: two files of one name would differ. Raises ReleaseError.

    Only a clone that has the tags knows.
    """
    tags = ["git", "tag", "--list", f"v{version}", "--no-contains", "HEAD"]
    done = subprocess.run(tags, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode == 0 and done.stdout.strip():
        raise ReleaseError(f"v{version} is the tag of an earlier commit: raise `version` in pyproject.toml")


def _build(folder: Path, version: str, epoch: int) -> None:
    """Wheel and source archive, by the build backend of the lock file, with the manual pages."""
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    date = time.strftime("%Y-%m-%d", time.gmtime(epoch))
    shutil.rmtree(MANUAL, ignore_errors=True)
    try:
        for name, text in manual_pages(cli, version, date).items():
            page = MANUAL / f"man{name[-1]}" / name
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, encoding="utf-8")
        done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    finally:
        # Otherwise the next wheel of this checkout would contain them, whatever its version.
        shutil.rmtree(MANUAL, ignore_errors=True)
    if done.returncode:
        raise ReleaseError(f"the wheel could not be built: {done.stderr.strip()}")


def chart(version: str, epoch: int) -> bytes:
    """The chart as Helm packages it, with this version; files in order, without owners or own times."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in sorted(path for path in CHART.rglob("*") if path.is_file()):
            content = path.read_bytes()
            if path.name == "Chart.yaml":
                content = re.sub(rb"(?m)^(version|appVersion): .*$", rb"\1: " + version.encode(), content)
            member = tarfile.TarInfo(f"pinnace/{path.relative_to(CHART)}")
            member.size, member.mtime, member.mode = len(content), epoch, 0o644
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def components_of(version: str) -> JSONObject:
    """The components of an installed wheel, from the lock file: CycloneDX 1.5."""
    components: list[JSONObject] = []
    for line in (ROOT / "requirements" / "runtime.txt").read_text().splitlines():
        if found := _PINNED.match(line):
            name, pinned = found[1], found[2]
            purl = f"pkg:pypi/{name.lower()}@{pinned}"
            components.append(
                {
                    "type": "library",
                    "name": name,
                    "version": pinned,
                    "purl": purl,
                    "bom-ref": purl,
                    "hashes": [],
                }
            )
        if components and (digest := _HASH.search(line)):
            components[-1]["hashes"].append({"alg": "SHA-256", "content": digest[1]})
    own = {
        "type": "application",
        "name": "pinnace",
        "version": version,
        "purl": f"pkg:pypi/pinnace@{version}",
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
    }


def _epoch() -> int:
    """The time of the commit, so that the same commit gives the same files."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ReleaseError(f"no commit to take the time of: {done.stderr.strip()}")
    return int(done.stdout)


def main() -> int:
    """Make a release and say where it is."""
    parser = argparse.ArgumentParser(description="Make the files of a release.")
    parser.add_argument(
        "--tag", help="the tag that is released, which must be v and the version; default that of the commit"
    )
    parser.add_argument("--uncommitted", action="store_true", help="release a checkout with changes")
    parser.add_argument("--no-image", action="store_true", help="leave out the image")
    parser.add_argument(
        "--architecture",
        action="append",
        choices=sorted({*MACHINES, this_machine().architecture}),
        help="make an image for this architecture; can be repeated; default: this machine's",
    )
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist" / "release")
    arguments = parser.parse_args()
    try:
        if not arguments.uncommitted:
            check_committed()
        if tag := arguments.tag or tag_of_commit():
            check_tag(tag, _version())
        check_is_new(_version())
        wanted = arguments.architecture or [this_machine().architecture]
        made = make(arguments.folder, epoch=_epoch(), architectures=() if arguments.no_image else wanted)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    for path in made:
        print(f"{path.stat().st_size:>12} {path.name}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
