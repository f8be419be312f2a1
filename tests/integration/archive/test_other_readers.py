"""The tarball read by programs and libraries that nobody here wrote.

Some read a gzip file of many members to the end of the first, without an error. (docs/adr/057)
"""

import asyncio
import hashlib
import random
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from pinnace.archive.deflate import inflate
from pinnace.archive.tarformat import MemberDirectory
from pinnace.archive.writer import BATCH_BYTES, ArchiveWriter
from tests.support.clock import FakeClock

pytestmark = pytest.mark.found("P5")

ITEMS = 1200
SECONDS = 120
GO_BUILD_SECONDS = 8

GO = """
package main

import ("archive/tar"; "compress/gzip"; "fmt"; "io"; "os")

func main() {
    unpacked, err := gzip.NewReader(os.Stdin)
    if err != nil { panic(err) }
    entries, reader := 0, tar.NewReader(unpacked)
    for {
        _, err := reader.Next()
        if err == io.EOF { break }
        if err != nil { panic(err) }
        entries++
    }
    fmt.Println(entries)
}
"""
JAVA = """
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.zip.GZIPInputStream;

public class Sum {
    public static void main(String[] arguments) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        GZIPInputStream unpacked = new GZIPInputStream(System.in);
        byte[] block = new byte[65536];
        for (int length; (length = unpacked.read(block)) >= 0;) digest.update(block, 0, length);
        System.out.println(HexFormat.of().formatHex(digest.digest()));
    }
}
"""
NODE = """
const sum = require("crypto").createHash("sha256");
process.stdin.pipe(require("zlib").createGunzip())
    .on("data", (block) => sum.update(block)).on("end", () => console.log(sum.digest("hex")));
"""


class Sample:
    """A tarball of several flushed parts, and what a reader must find in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            unpacked = b"".join(inflate(file))
        assert len(unpacked) > 3 * BATCH_BYTES
        self.checksum = hashlib.sha256(unpacked).hexdigest()
        self.entries = 2 * ITEMS + 1

    def read_by(self, *command: object, seconds: float = SECONDS) -> bytes:
        """What a program prints that gets the tarball as its input. Skips where there is no such program."""
        program = str(command[0])
        if shutil.which(program) is None:
            pytest.skip(f"there is no {program} here")
        with self.path.open("rb") as file:
            done = subprocess.run(
                list(map(str, command)), stdin=file, capture_output=True, timeout=seconds, check=False
            )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        assert done.stderr == b""
        return done.stdout

    def sum_by(self, *command: object) -> str:
        """The checksum of what a program decompresses."""
        return hashlib.sha256(self.read_by(*command)).hexdigest()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    path = tmp_path_factory.mktemp("sample") / "backup.tar.gz"
    asyncio.run(_write(path))
    return Sample(path)


async def _write(path: Path) -> None:
    heads = "resources/configmaps/v1-preferredversion/", "resources/configmaps/"
    directories = [MemberDirectory(f"{head}namespaces/shop/") for head in heads]
    numbers = random.Random(1)
    async with ArchiveWriter(path, clock=FakeClock()) as writer:
        for number in range(ITEMS):
            content = b'{"data":"%b"}' % numbers.randbytes(numbers.randrange(2000)).hex().encode()
            writer.add_copies(directories, f"item-{number}.json", b"", content)
            await writer.flush_if_full()


@pytest.mark.parametrize("mode", ["r|gz", "r:gz", "r|*"])
def test_python_finds_every_entry(sample: Sample, mode: str) -> None:
    with sample.path.open("rb") as file, tarfile.open(fileobj=file, mode=mode) as tar:  # type: ignore[call-overload]
        assert sum(1 for _ in tar) == sample.entries


@pytest.mark.parametrize(
    "command", [("tar", "-tzf", "-"), ("bsdtar", "-tf", "-"), ("busybox", "tar", "-tzf", "-")], ids=" ".join
)
def test_tar_programs_list_every_entry(sample: Sample, command: tuple[str, ...]) -> None:
    assert len(sample.read_by(*command).splitlines()) == sample.entries


@pytest.mark.parametrize(
    "command", [("gzip", "-dc"), ("pigz", "-dc"), ("busybox", "gunzip", "-c")], ids=" ".join
)
def test_gzip_programs_decompress_everything(sample: Sample, command: tuple[str, ...]) -> None:
    assert sample.sum_by(*command) == sample.checksum


def test_go_finds_every_entry(sample: Sample, tmp_path: Path) -> None:
    program = tmp_path / "entries.go"
    program.write_text(GO)
    try:
        printed = sample.read_by("go", "run", program, seconds=GO_BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        pytest.skip("Go has to compile its own packages first; they are there when this runs again")
    assert printed.decode().strip() == str(sample.entries)


def test_java_decompresses_everything(sample: Sample, tmp_path: Path) -> None:
    program = tmp_path / "Sum.java"
    program.write_text(JAVA)
    assert sample.read_by("java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", program).decode().strip() == (
        sample.checksum
    )


def test_node_decompresses_everything(sample: Sample) -> None:
    assert sample.read_by("node", "-e", NODE).decode().strip() == sample.checksum
