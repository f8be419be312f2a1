"""The reader, on valid archives of this program and of other writers."""

import asyncio
import json
import os
import shutil
import tarfile
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pinnace.archive.paths import item_path
from pinnace.archive.reader import ArchiveIndex, MissingItem
from tests.unit.archive.helpers import entries, run, store, tar_bytes, typed, write_archive

LONG_NAME = "n" * 253


def items(*paths: str) -> list[tuple[str, bytes]]:
    return [(path, json.dumps({"path": path}).encode()) for path in paths]


async def opened(path: Path, *, with_versions: bool = False) -> ArchiveIndex:
    return await ArchiveIndex.open(path, path.parent, with_versions=with_versions)


async def test_own_archive_reads_back(tmp_path: Path) -> None:
    members = items(
        "resources/pods/v1-preferredversion/namespaces/ns/p.json",
        "resources/pods/namespaces/ns/p.json",
        f"resources/customresourcedefinitions.apiextensions.k8s.io/cluster/{LONG_NAME}.json",
        "resources/namespaces/cluster/ns.json",
    )
    with await opened(await write_archive(tmp_path / "a.tar.gz", members)) as index:
        assert index.resources == ["customresourcedefinitions.apiextensions.k8s.io", "namespaces", "pods"]
        assert index.namespaces("pods") == ["ns"]
        assert index.namespaces("namespaces") == [""]
        assert json.loads(index.read("pods", "ns", "p")) == {"path": "resources/pods/namespaces/ns/p.json"}
        assert index.names("customresourcedefinitions.apiextensions.k8s.io", "") == [LONG_NAME]
        assert index.namespace_manifest("ns") == members[-1][1]
        assert index.namespace_manifest("other") is None
        assert (index.format_version, index.has_resources_dir, index.warnings) == ("1.1.0", True, [])


async def test_version_copies_are_kept_only_on_demand(tmp_path: Path) -> None:
    path = await write_archive(
        tmp_path / "a.tar.gz",
        items(
            "resources/jobs.batch/v1-preferredversion/namespaces/ns/j.json",
            "resources/jobs.batch/v2/namespaces/ns/j.json",
            "resources/jobs.batch/namespaces/ns/j.json",
        ),
    )
    with await opened(path) as index:
        assert index.version_dirs("jobs.batch") == ["v1-preferredversion", "v2"]
        with pytest.raises(MissingItem, match=r"v2/namespaces/ns/j\.json: not in the archive"):
            index.read("jobs.batch", "ns", "j", "v2")
    with await ArchiveIndex.open(path, tmp_path, with_other_versions=True) as index:
        assert json.loads(index.read("jobs.batch", "ns", "j", "v2"))["path"].endswith(
            "v2/namespaces/ns/j.json"
        )
        with pytest.raises(MissingItem):
            index.read("jobs.batch", "ns", "j", "v1-preferredversion")
    with await opened(path, with_versions=True) as index:
        assert json.loads(index.read("jobs.batch", "ns", "j", "v2"))["path"].startswith(
            "resources/jobs.batch/v2/"
        )
        assert index.namespaces("jobs.batch", "v2") == ["ns"]
        assert index.names("jobs.batch", "ns", "v2") == ["j"]


async def test_names_come_in_order_of_their_file_names(tmp_path: Path) -> None:
    names = ["a", "a-b", "b", "a.b", "B", "a0"]
    path = await write_archive(
        tmp_path / "a.tar.gz", items(*(f"resources/pods/cluster/{name}.json" for name in names))
    )
    with await opened(path) as index:
        assert index.names("pods", "") == ["B", "a-b", "a.b", "a", "a0", "b"]
        assert index.names("pods", "") == [
            file.removesuffix(".json") for file in sorted(f"{name}.json" for name in names)
        ]


@pytest.mark.parametrize("tar_format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
async def test_archives_of_other_writers_are_read(tmp_path: Path, tar_format: int) -> None:
    directory = typed("resources/", tarfile.DIRTYPE)
    long_path = f"resources/widgets.example.com/namespaces/{'s' * 60}/{'n' * 90}.json"
    tar = tar_bytes(
        [(long_path, b"{}"), (directory, b""), ("./resources/pods/cluster/p.json", b"{1}")], tar_format
    )
    with await opened(store(tmp_path / "a.tar.gz", tar)) as index:
        assert index.names("widgets.example.com", "s" * 60) == ["n" * 90]
        assert index.read("pods", "", "p") == b"{1}"
        assert index.warnings == []


async def test_an_archive_of_gnu_tar_is_read(tmp_path: Path) -> None:
    if not shutil.which("tar"):
        pytest.skip("no tar program here")
    tree = tmp_path / "tree"
    for path in ("metadata/version", f"resources/pods/namespaces/ns/{LONG_NAME[:240]}.json"):
        (tree / path).parent.mkdir(parents=True)
        (tree / path).write_text("{}")
    for flavour in ("gnu", "pax", "posix"):
        target = tmp_path / f"{flavour}.tar.gz"
        await asyncio.to_thread(run, "tar", f"--format={flavour}", "-C", tree, "-czf", target, ".")
        with await opened(target) as index:
            assert index.names("pods", "ns") == [LONG_NAME[:240]]
            assert index.warnings == []


@pytest.mark.spec("BEY-009")
async def test_links_and_devices_are_ignored_and_traversal_refused(tmp_path: Path) -> None:
    odd: list[tuple[tarfile.TarInfo | str, bytes]] = [
        (typed("resources/pods/cluster/link.json", tarfile.SYMTYPE, "/etc/passwd"), b""),
        (typed("resources/pods/cluster/hard.json", tarfile.LNKTYPE, "resources/pods/cluster/p.json"), b""),
        (typed("resources/pods/cluster/pipe.json", tarfile.FIFOTYPE), b""),
        (typed("resources/pods/cluster/device.json", tarfile.CHRTYPE), b""),
        ("resources/pods/cluster/p.json", b"{}"),
    ]
    with await opened(store(tmp_path / "a.tar.gz", tar_bytes(odd))) as index:
        assert index.names("pods", "") == ["p"]
        assert len(index.warnings) == 4
        assert index.warnings[0] == "resources/pods/cluster/link.json: neither file nor directory, ignored"
    assert entries(tmp_path) == ["a.tar.gz"]


async def test_stray_files_are_warnings(tmp_path: Path) -> None:
    path = await write_archive(
        tmp_path / "a.tar.gz", items("resources/stray", "resources/pods/namespaces/stray.json", "notes.txt")
    )
    with await opened(path) as index:
        assert [warning.split(":")[0] for warning in index.warnings] == [
            "resources/stray",
            "resources/pods/namespaces/stray.json",
            "notes.txt",
        ]
        assert index.namespaces("pods") == []


async def test_without_resources_and_with_an_empty_directory(tmp_path: Path) -> None:
    with await opened(await write_archive(tmp_path / "a.tar.gz", [])) as index:
        assert (index.has_resources_dir, index.resources) == (False, [])
    tar = tar_bytes([(typed("resources", tarfile.DIRTYPE), b"")])
    with await opened(store(tmp_path / "b.tar.gz", tar)) as index:
        assert (index.has_resources_dir, index.resources) == (True, [])


async def test_old_archive_without_version_directories(tmp_path: Path) -> None:
    tar = tar_bytes([("metadata/version", b"1"), ("resources/pods/namespaces/ns/p.json", b"{}")])
    with await opened(store(tmp_path / "a.tar.gz", tar), with_versions=True) as index:
        assert index.format_version == "1"
        assert index.version_dirs("pods") == []
        assert index.read("pods", "ns", "p") == b"{}"


async def test_spool_is_private_nameless_and_freed(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    path = await write_archive(tmp_path / "a.tar.gz", items("resources/pods/cluster/p.json"))
    index = await ArchiveIndex.open(path, spool, with_versions=False)
    descriptor = index._descriptor
    status = os.fstat(descriptor)
    assert (status.st_mode & 0o777, status.st_nlink) == (0o600, 0)
    assert entries(spool) == []
    index.close()
    index.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


async def test_index_of_many_items_is_small(tmp_path: Path) -> None:
    count = 5_000
    path = await write_archive(
        tmp_path / "a.tar.gz",
        (
            (
                item_path(
                    "configmaps", version, f"namespace-{number % 50}", f"config-map-{number:06d}-with-a-name"
                ),
                b"{}",
            )
            for number in range(count)
            for version in ("v1-preferredversion", None)
        ),
    )
    tracemalloc.start()
    try:
        with await opened(path) as index:
            used = tracemalloc.get_traced_memory()[0]
            assert len(index.namespaces("configmaps")) == 50
    finally:
        tracemalloc.stop()
    assert used / count < 200  # bytes an item: 100,000 items stay far below 25 MB


NAME = st.text(st.sampled_from("ab-.0Z"), min_size=1, max_size=110).filter(lambda name: name.strip("."))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    keys=st.sets(
        st.tuples(
            st.sampled_from(["pods", "deployments.apps"]),
            st.sampled_from([None, "v1-preferredversion", "v2"]),
            st.just("") | NAME,
            NAME,
        ),
        max_size=12,
    ),
    seed=st.binary(max_size=2000),
)
def test_round_trip_and_agreement_with_tarfile(
    tmp_path: Path, keys: set[tuple[str, str | None, str, str]], seed: bytes
) -> None:
    path = tmp_path / "property.tar.gz"
    path.unlink(missing_ok=True)
    contents = {key: seed + repr(key).encode() for key in keys}
    asyncio.run(write_archive(path, [(item_path(*key), data) for key, data in contents.items()]))

    with asyncio.run(opened(path, with_versions=True)) as index, tarfile.open(path) as tar:
        for key, data in contents.items():
            group_resource, version, namespace, name = key
            assert index.read(group_resource, namespace, name, version) == data
            assert tar.extractfile(item_path(*key)).read() == data  # type: ignore[union-attr]
        found = {
            (resource, version or None, namespace, name)
            for resource in index.resources
            for version in ["", *index.version_dirs(resource)]
            for namespace in index.namespaces(resource, version)
            for name in index.names(resource, namespace, version)
        }
    assert found == keys
