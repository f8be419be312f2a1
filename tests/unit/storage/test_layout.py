"""Keys, names and prefixes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.storage.errors import InvalidLocation, StorageError
from pinnace.storage.layout import (
    TOP_LEVEL_DIRECTORIES,
    Layout,
    check_name,
    clean_bucket,
    clean_prefix,
    directory_names,
    invalid_directories_message,
)


@pytest.mark.spec("STO-001")
@pytest.mark.parametrize(
    ("prefix", "root"), [("", ""), ("prefix", "prefix/"), ("/prefix/", "prefix/"), ("a/b", "a/b/")]
)
def test_root_prefix_and_keys(prefix: str, root: str) -> None:
    layout = Layout(clean_prefix(prefix))

    assert layout.root == root
    assert layout.backup_metadata("b1") == f"{root}backups/b1/velero-backup.json"
    assert layout.target("BackupContents", "b1") == f"{root}backups/b1/b1.tar.gz"
    assert layout.pod_volume_backups("b1") == f"{root}backups/b1/b1-podvolumebackups.json.gz"
    assert layout.restore_metadata("r1") == f"{root}restores/r1/velero-restore.json"


@pytest.mark.spec("STO-041")
@pytest.mark.parametrize(
    ("prefix", "root"), [("a//b", "a/b/"), ("//", ""), ("a/./b/../c", "a/c/"), ("../a", "a/"), (".", "")]
)
def test_prefix_is_cleaned_once(prefix: str, root: str) -> None:
    assert clean_prefix(prefix) == root


@given(st.text(alphabet="ab./", max_size=20))
def test_a_clean_prefix_stays_as_it_is(prefix: str) -> None:
    cleaned = clean_prefix(prefix)

    assert clean_prefix(cleaned) == cleaned
    assert all(segment not in ("", ".", "..") for segment in cleaned.split("/")[:-1])
    assert cleaned == "" or cleaned.endswith("/")


@pytest.mark.spec("STO-002")
def test_bucket() -> None:
    assert clean_bucket("/bucket/") == "bucket"
    with pytest.raises(InvalidLocation) as caught:
        clean_bucket("invalid/bucket")
    assert str(caught.value) == (
        "backup storage location's bucket name \"invalid/bucket\" must not contain a '/' "
        "(if using a prefix, put it in the 'Prefix' field instead)"
    )


@pytest.mark.spec("STO-022")
@pytest.mark.parametrize("name", ["my-backup", "b-cool-20170913154901-20170913154902"])
@pytest.mark.parametrize("prefix", ["", "velero-backups/"])
def test_download_targets(name: str, prefix: str) -> None:
    layout = Layout(clean_prefix(prefix))
    backup, restore = f"{prefix}backups/{name}/{name}", f"{prefix}restores/{name}/restore-{name}"

    assert layout.target("BackupContents", name) == f"{backup}.tar.gz"
    assert layout.target("BackupLog", name) == f"{backup}-logs.gz"
    assert layout.target("BackupVolumeSnapshots", name) == f"{backup}-volumesnapshots.json.gz"
    assert layout.target("BackupResourceList", name) == f"{backup}-resource-list.json.gz"
    assert layout.target("RestoreLog", name) == f"{restore}-logs.gz"
    assert layout.target("RestoreResults", name) == f"{restore}-results.gz"
    with pytest.raises(StorageError, match='unsupported download target kind "foo"'):
        layout.target("foo", name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../b1", "a\\b", "a\nb", "a\0b", "x" * 254])
def test_names_that_could_lead_elsewhere(name: str) -> None:
    layout = Layout("")
    for use in (check_name, layout.backup_directory, layout.restore_directory, layout.backup_metadata):
        with pytest.raises(StorageError, match="cannot be the name"):
            use(name)
    with pytest.raises(StorageError, match="cannot be the name"):
        layout.target("BackupLog", name)


@pytest.mark.spec("STO-009")
@pytest.mark.parametrize(
    ("directories", "message"),
    [
        (sorted(TOP_LEVEL_DIRECTORIES), None),
        ([], None),
        (["backups", "a"], "Backup store contains invalid top-level directories: [a]"),
        (["a", "b", "c"], "Backup store contains invalid top-level directories: [a b c]"),
        (["a", "b", "c", "d"], "Backup store contains 4 invalid top-level directories: [a b c ...]"),
        (list("abcde"), "Backup store contains 5 invalid top-level directories: [a b c ...]"),
    ],
)
def test_invalid_directories(directories: list[str], message: str | None) -> None:
    assert invalid_directories_message(directories) == message


def test_directory_names() -> None:
    assert directory_names("p/backups/", ["p/backups/b1/", "p/backups//"]) == ["b1", ""]
