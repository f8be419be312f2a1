"""`restore create --namespace-selector`, with the backups of a real server of Velero as a location."""

import json
from pathlib import Path

import pytest

from pinnace.cli.main import run
from tests.support.stores import golden
from tests.support.stores.indexed_backups import rewrite

Printed = pytest.CaptureFixture[str]
PART = "app.kubernetes.io/part-of=shop"


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = golden.unpack("main", tmp_path)
    monkeypatch.setenv("PINNACE_LOCATION", str(found))
    return found


def create(*words: str) -> int:
    return run(["restore", "create", "r", *words, "-o", "json"])


def test_the_restore_names_the_namespaces_whose_objects_have_the_labels(
    bucket: Path, capsys: Printed
) -> None:
    for selector, lists, names in (
        (PART, [], ["shop", "shop-data", "shop-ops"]),
        (f"{PART},team notin (data)", [], ["shop", "shop-ops"]),
        (PART, ["--include-namespaces", "shop-*"], ["shop-data", "shop-ops"]),
        (PART, ["--exclude-namespaces", "shop-data,other"], ["shop", "shop-ops"]),
        ("!team,golden", [], ["files"]),
    ):
        assert create("--from-backup", "everything", "--namespace-selector", selector, *lists) == 0
        made = json.loads(capsys.readouterr().out)
        assert made["spec"]["includedNamespaces"] == names


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ["--from-backup", "everything", "--namespace-selector", "team=z"],
            "no included namespace of backup",
        ),
        (["--from-schedule", "s", "--namespace-selector", "team"], "needs --from-backup"),
        (["--from-backup", "none", "--namespace-selector", "team"], "none"),
        (["--from-backup", "everything", "--namespace-selector", "a in"], "--namespace-selector"),
    ],
)
def test_a_selector_that_chooses_nothing_makes_no_restore(
    bucket: Path, capsys: Printed, words: list[str], error: str
) -> None:
    assert create(*words) != 0
    out, err = capsys.readouterr()
    assert (out, error in err) == ("", True)


def test_namespaces_without_an_object_in_the_backup_are_said(bucket: Path, capsys: Printed) -> None:
    tarball = bucket / "backups" / "everything" / "everything.tar.gz"
    rewrite(tarball, lambda name, data: None if name.endswith("/shop-ops.json") else (name, data))

    assert create("--from-backup", "everything", "--namespace-selector", PART) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["spec"]["includedNamespaces"] == ["shop", "shop-data"]
    assert "no Namespace object, and so no labels, of shop-ops: not restored" in err
