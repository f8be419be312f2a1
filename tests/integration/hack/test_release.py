"""The files of a release: complete, checked, and the same whenever they are made."""

import hashlib
import tarfile
import zipfile
from pathlib import Path

from hack import release

EPOCH = 1_772_366_400


def test_two_releases_of_one_commit_are_the_same_to_the_byte(tmp_path: Path) -> None:
    first = release.make(tmp_path / "a", epoch=EPOCH, architectures=())
    second = release.make(tmp_path / "b", epoch=EPOCH, architectures=())

    assert [path.name for path in first] == [path.name for path in second]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    suffixes = {path.name.split("-")[-1].lstrip("0123456789.") for path in first}
    assert suffixes == {"SHA256SUMS", "any.whl", "tar.gz", "tgz", "cdx.json"}
    for line in first[-1].read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((tmp_path / "a" / name).read_bytes()).hexdigest() == digest
    (wheel,) = (path for path in first if path.suffix == ".whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "pinnace/cli/main.py" in names
    assert any(name.endswith("entry_points.txt") for name in names)
    assert not release.MANUAL.exists()
    for page in ("man1/pinnace.1", "man1/pinnace-backup-create.1", "man7/pinnace-filters.7"):
        assert f"{wheel.name.removesuffix('-py3-none-any.whl')}.data/data/share/man/{page}" in names
    (source,) = (path for path in first if path.name.endswith(".tar.gz"))
    with tarfile.open(source) as archive:
        top = source.name.removesuffix(".tar.gz")
        assert f"{top}/build/man/man1/pinnace.1" in archive.getnames()
        assert f"{top}/hatch_build.py" in archive.getnames()
