"""The formats of `-o` and colours, as a user calls them."""

import sys
from pathlib import Path

import pytest

from pinnace.api.objects import JSONObject
from pinnace.cli.declaring.global_flags import GlobalFlags
from pinnace.cli.main import run
from pinnace.cli.output.printing import encode
from pinnace.cli.settings import resolve_settings
from pinnace.kube.resources import BACKUPS, velero
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_LOCATIONS, NON_ADMIN_RESTORES
from tests.unit.cli.cluster import ServedCluster, connected

STATUS = {
    "phase": "PartiallyFailed",
    "startTimestamp": "2021-08-11T10:00:00Z",
    "completionTimestamp": "2021-08-11T10:02:03Z",
    "progress": {"totalItems": 9, "itemsBackedUp": 7},
    "errors": 2,
}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    cluster = connected(monkeypatch, tmp_path)
    cluster.add(BACKUPS, "a", status=STATUS)
    cluster.add(BACKUPS, "b")
    return cluster


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(list(words)) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("cluster")
def test_wide_adds_columns_after_the_usual_ones(capsys: pytest.CaptureFixture[str]) -> None:
    plain = shown(capsys, "backup", "get").splitlines()
    wide = shown(capsys, "backup", "get", "-o", "wide").splitlines()
    assert wide[0].startswith(plain[0])
    assert wide[0].split()[-3:] == ["ITEMS", "DURATION", "AGE"]
    assert wide[1].split()[-3:-1] == ["7/9", "2m3s"]


@pytest.mark.usefixtures("cluster")
def test_paths_see_a_list_unless_one_name_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "backup", "get", "-o", "jsonpath={.items[*].metadata.name}") == "a b"
    assert shown(capsys, "backup", "get", "a", "-o", "jsonpath={.status.phase}") == "PartiallyFailed"
    columns = shown(capsys, "backup", "get", "-o", "custom-columns=N:.metadata.name,E:.status.errors")
    assert columns.split() == ["N", "E", "a", "2", "b", "<none>"]
    assert shown(capsys, "backup", "get", "-o", "name") == "backup.velero.io/a\nbackup.velero.io/b\n"


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ("jsonpath", "needs a value"),
        ("jsonpath={.a", "invalid -o jsonpath"),
        ("custom-columns=A", "invalid -o custom-columns"),
        ("json=x", "json takes no value"),
        ("xml", "jsonpath=TEMPLATE"),
    ],
)
def test_a_wrong_format_is_reported_before_anything_is_read(
    form: str, problem: str, cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backup", "get", "-o", form]) == 1
    assert problem in capsys.readouterr().err
    assert cluster.writes() == []


def test_create_with_name_creates_and_prints_nothing_else(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backup", "create", "c", "-o", "name"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "backup.velero.io/c\n"
    assert 'Backup request "c" submitted' in printed.err
    assert "c" in cluster.names(BACKUPS)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--dry-run=client"], "backup.velero.io/c created (dry run)\n"),
        (["--dry-run=client", "-o", "name"], "backup.velero.io/c\n"),
        (["-o", "jsonpath={.metadata.name}"], "c"),
    ],
)
def test_a_dry_run_sends_nothing(
    flags: list[str], text: str, cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(capsys, "backup", "create", "c", *flags) == text
    yaml = shown(capsys, "backup", "create", "c", "--dry-run=client", "-o", "yaml")
    assert yaml == shown(capsys, "backup", "create", "c", "-o", "yaml")
    assert cluster.writes() == []


@pytest.mark.usefixtures("cluster")
def test_phases_are_coloured_only_where_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = shown(capsys, "backup", "get")
    assert "\x1b" not in plain
    monkeypatch.setenv("CLICOLOR_FORCE", "1")
    coloured = shown(capsys, "backup", "get")
    assert "\x1b[31mPartiallyFailed\x1b[0m" in coloured
    assert coloured.replace("\x1b[31m", "").replace("\x1b[0m", "") == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(capsys, "backup", "get")


@pytest.mark.parametrize(
    ("flag", "environ", "colour"),
    [
        (None, {}, False),
        (None, {"CLICOLOR_FORCE": "1"}, True),
        (None, {"CLICOLOR_FORCE": "0"}, False),
        (None, {"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": "1"}, True),
        (False, {"CLICOLOR_FORCE": "1"}, False),
    ],
)
def test_which_setting_decides_about_colour(
    flag: bool | None, environ: dict[str, str], colour: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve_settings(GlobalFlags(colorized=flag), environ=environ).colour is colour


NOUNS = {
    ("backup",): BACKUPS,
    ("restore",): velero("restores"),
    ("schedule",): velero("schedules"),
    ("backup-location",): velero("backupstoragelocations"),
    ("snapshot-location",): velero("volumesnapshotlocations"),
    ("repo",): velero("backuprepositories"),
    ("nonadmin", "backup"): NON_ADMIN_BACKUPS,
    ("nonadmin", "restore"): NON_ADMIN_RESTORES,
    ("nonadmin", "storage-location"): NON_ADMIN_LOCATIONS,
}


@pytest.mark.parametrize("noun", NOUNS, ids=" ".join)
def test_every_get_accepts_all_formats(
    noun: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, resource = connected(monkeypatch, tmp_path), NOUNS[noun]
    for name in ("a", "b"):
        cluster.add(resource, name, spec={"x": name}, creationTimestamp="2021-08-11T10:00:00Z")
    get = (*noun, "get", "-n", "velero", "-o")

    plain, wide = (shown(capsys, *get, form).splitlines()[0].split("   ") for form in ("table", "wide"))
    assert len(wide) > len(plain)
    assert wide[-1].strip() == "AGE"
    kind = f"{resource.kind.lower()}.{resource.group}"
    assert shown(capsys, *get, "name").split() == [f"{kind}/a", f"{kind}/b"]
    assert shown(capsys, *get, "jsonpath={.items[*].spec.x}") == "a b"
    assert shown(capsys, *get, "jsonpath={.spec.x}", "a") == "a"
    assert shown(capsys, *get, "custom-columns=N:.metadata.name,X:.spec.x").split() == [
        "N",
        "X",
        "a",
        "a",
        "b",
        "b",
    ]
    for form in ("xml", "jsonpath", "custom-columns=N", "jsonpath={.a"):
        assert run([*get, form]) == 1
        assert "-o" in (said := capsys.readouterr().err) or "output format" in said


def test_plugin_get_accepts_templates_and_refuses_wide(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.plugins = [{"name": "a", "kind": "X"}, {"name": "b", "kind": "X"}]
    get = ("plugin", "get", "-o")
    assert shown(capsys, *get, "jsonpath={.status.plugins[*].name}") == "a b"
    assert shown(capsys, *get, "custom-columns=N:.metadata.name,K:.kind").split() == [
        "N",
        "K",
        "a",
        "X",
        "b",
        "X",
    ]
    assert run([*get, "wide"]) == 1
    assert "plugins have only a name and a kind" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_objects_that_are_nested_deeply_are_printed(form: str) -> None:
    obj: JSONObject = {}
    for _ in range(1000):
        obj = {"a": obj}
    limit = sys.getrecursionlimit()

    assert len(encode(obj, form).splitlines()) >= 1000
    assert sys.getrecursionlimit() == limit
