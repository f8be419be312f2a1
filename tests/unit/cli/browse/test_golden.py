"""Every backup of real Velero and of earlier versions: listed, described, verified without a false alarm."""

import json
from pathlib import Path
from typing import Any

import pytest

from pinnace.browse.failed_items import FailedItems, LogErrors
from pinnace.cli.main import run
from tests.support.stores import golden
from tests.support.stores.indexed_backups import rewrite

Printed = pytest.CaptureFixture[str]

WITH_ERRORS = {
    ("1.6.3", "everything"): ["v1/Pod shop-ops/toolbox"],
    ("main", "everything"): [
        "v1/PersistentVolumeClaim shop-data/data-database-0",
        "v1/PersistentVolumeClaim shop-data/data-database-1",
        "v1/PersistentVolumeClaim shop-data/search-index",
        "v1/Pod shop-data/database-0",
        "v1/Pod shop-data/database-1",
    ],
    ("main", "partly"): ["v1/Pod files/keeper"],
}
"""The items that Velero lists though it could not save them; the first five are named."""


@pytest.fixture(params=(*golden.VERSIONS, *golden.LATER, *golden.EARLIER))
def version(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def bucket(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bucket as location, which all commands of the test use; there is no cluster."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = golden.unpack(version, tmp_path)
    monkeypatch.setenv("PINNACE_LOCATION", str(folder))
    return folder


def names_in(bucket: Path) -> list[str]:
    return sorted(path.name for path in bucket.glob("backups/*"))


def verified(capsys: Printed, *words: str) -> dict[str, dict[str, tuple[str, str]]]:
    """The result and the details of each check, by backup."""
    run(["backup", "verify", *words, "-o", "json"])
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return {
        each["backup"]: {one["check"]: (one["result"], one["details"]) for one in each["checks"]}
        for each in found
    }


@pytest.mark.found("G1")
@pytest.mark.found("G2")
def test_every_backup_is_listed_described_verified_and_deleted(
    bucket: Path, version: str, capsys: Printed
) -> None:
    names = names_in(bucket)
    assert run(["backup", "get", "-o", "name"]) == 0
    assert sorted(line.rpartition("/")[2] for line in capsys.readouterr().out.splitlines()) == names
    before = golden.files_of(bucket)

    for name in names:
        for words in (["describe", name, "--details"], ["logs", name], ["ls", name, "--summary"]):
            assert run(["backup", *words]) == 0, (name, words, capsys.readouterr())
        assert f"Name:         {name}" in capsys.readouterr().out

    found = verified(capsys, "--all")

    assert sorted(found) == names
    problems = {
        (name, check): details
        for name, checks in found.items()
        for check, (result, details) in checks.items()
        if result == "BAD"
    }
    failed = {("failed", "metadata"): "the phase is Failed"} if version == "main" else {}
    assert problems == failed
    for name in names:
        if "resource list = content" not in found[name]:
            assert found[name]["index"] == ("ok", "117 checksums"), "which is compared with all of them"
            continue
        result, details = found[name]["resource list = content"]
        missing = WITH_ERRORS.get((version, name), [])
        more = f"; {len(missing)} failed while they were backed up: {'; '.join(missing)}" if missing else ""
        assert (result, details.partition(" items")[2]) == ("ok", more)
    assert golden.files_of(bucket) == before

    for name in names:
        code = run(["backup", "delete", name, "--confirm"])
        refused = capsys.readouterr().err
        if code:  # volume data outside of the folder, which nothing here may leave behind in silence
            assert f"backup {name} is not deleted, as data of its volumes would be left behind: " in refused
            assert run(["backup", "delete", name, "--confirm", "--force"]) == 0, capsys.readouterr()
    assert names_in(bucket) == []


@pytest.mark.found("G2")
@pytest.mark.parametrize("version", ["main"], indirect=True)
def test_an_item_that_is_missing_without_an_error_of_its_own_is_reported(
    bucket: Path, capsys: Printed
) -> None:
    def lost(name: str, data: bytes) -> tuple[str, bytes] | None:
        return None if name.endswith("/namespaces/files/made-up.json") else (name, data)

    check = "resource list = content"
    rewrite(bucket / "backups/partly/partly.tar.gz", lost)
    assert verified(capsys, "partly")["partly"][check] == (
        "BAD",
        "v1/Secret files/made-up is listed, but not in the tarball",
    )

    # A backup that says that it has no errors has none that would excuse a loss.
    metadata = bucket / "backups/everything/velero-backup.json"
    metadata.write_bytes(metadata.read_bytes().replace(b'"PartiallyFailed"', b'"Completed"'))
    result, details = verified(capsys, "everything")["everything"][check]
    assert result == "BAD"
    assert "v1/Pod shop-data/database-0 is listed, but not in the tarball" in details


@pytest.mark.found("G2")
@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('level=error msg="Error" backup=velero/b name=web', True),
        ('level=error msg="Error" backup=velero/b name="web"', True),
        ('level=error msg="Error" backup=velero/b name=web namespace=shop', True),
        ('level=error msg="Error" backup=velero/b name=web namespace=other', False),
        ('level=error msg="Error" backup=velero/b name=web-2', False),
        ('level=warning msg="Error" backup=velero/b name=web', False),
        ('{"level":"error","msg":"Error","name":"web","namespace":"shop","backup":"velero/b"}', True),
        ('{"level":"error","msg":"Error","name":"other","backup":"shop/web"}', False),
        ('level=error msg="Error" backup=shop/web', False),
        ('level=error msg="PVC shop/web has no volume" backup=velero/b', True),
        ('level=error msg="PVC shop/web: no volume" backup=velero/b', True),
        ('level=error msg="PVC shop/web.2 has no volume" backup=velero/b', False),
        ('level=error msg="Error" logSource="pkg/shop/web.go:2"', False),
    ],
)
def test_an_error_is_an_item_s_own_if_it_names_it(line: str, named: bool) -> None:
    failed = FailedItems()
    log = LogErrors(failed)
    for at in range(0, len(line), 7):
        log.feed(line[at : at + 7].encode())
    log.finish()
    assert failed.has("shop/web") is named
