"""`backup explain-filters` with the filters of flags: they are those of `backup create`."""

import json
from pathlib import Path
from typing import Any

import pytest

from pinnace.cli.main import run
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES
from tests.unit.backup.fakes import discovery_of
from tests.unit.cli.cluster import ServedCluster, connected

Printed = pytest.CaptureFixture[str]
OBJECTS = ["configmaps/a1/c", "configmaps/b1/c"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    cluster = connected(monkeypatch, tmp_path)

    async def load(_client: object) -> Discovery:
        return discovery_of([CONFIGMAPS, NAMESPACES])

    monkeypatch.setattr(Discovery, "load", load)
    for name, labels in {"a1": {"team": "a"}, "b1": {"team": "b"}}.items():
        cluster.add(NAMESPACES, name, labels=labels)
        cluster.add(CONFIGMAPS, "c", namespace=name)
    return cluster


def explained(capsys: Printed, *words: str) -> dict[str, dict[str, Any]]:
    assert run(["backup", "explain-filters", *OBJECTS, *words, "-o", "json"]) == 0
    return {each["object"]: each for each in json.loads(capsys.readouterr().out)}


@pytest.mark.parametrize(
    ("words", "saved"),
    [
        ("--namespace-selector team=a", [True, False]),
        ("--namespace-selector team --exclude-namespaces a*", [False, True]),
        ("--include-namespaces b1", [False, True]),
    ],
)
def test_namespaces_are_chosen_as_by_a_backup(
    cluster: ServedCluster, capsys: Printed, words: str, saved: list[bool]
) -> None:
    found = explained(capsys, *words.split())
    assert [found[name]["saved"] for name in OBJECTS] == saved


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--namespace-selector team=z", "no included namespace has the labels team=z"),
        ("--namespace-selector team=a --backup b", "give either --backup, or filters"),
        ("-l a=b --or-selector c=d", "but not both"),
        ("--include-namespaces a1 --exclude-namespaces a1", "a1"),
    ],
)
def test_filters_that_no_backup_can_have_are_refused(
    cluster: ServedCluster, capsys: Printed, words: str, error: str
) -> None:
    assert run(["backup", "explain-filters", *OBJECTS, *words.split()]) != 0
    assert error in capsys.readouterr().err
