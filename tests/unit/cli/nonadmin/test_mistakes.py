"""What the commands of self-service answer to names that do not exist, and do before they delete."""

from pathlib import Path

import pytest

from pinnace.cli.main import run
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS
from tests.unit.cli.fake_cluster import FakeCluster, connected

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCluster:
    cluster = connected(monkeypatch, tmp_path)
    cluster.add(NON_ADMIN_BACKUPS, "weekly", "shop")
    return cluster


@pytest.mark.parametrize("verb", ["get", "describe", "logs"])
@pytest.mark.usefixtures("cluster")
def test_a_name_that_does_not_exist_is_answered_with_near_names(verb: str, capsys: Printed) -> None:
    assert run(["nonadmin", "backup", verb, "weakly", "-n", "shop"]) == 1

    assert "did you mean weekly?" in capsys.readouterr().err


@pytest.mark.usefixtures("cluster")
def test_a_description_of_nothing_says_where_it_looked(capsys: Printed) -> None:
    assert run(["nonadmin", "backup", "describe", "-n", "blog"]) == 0

    assert capsys.readouterr().err == "No backups in namespace blog; --namespace looks into another.\n"


def test_a_deletion_names_what_goes_before_it_asks(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.setattr("sys.stdin", None)

    assert run(["nonadmin", "backup", "delete", "weekly", "-n", "shop"]) == 2

    assert "To be deleted:\n  backup weekly with all that is stored\n" in capsys.readouterr().out
    assert cluster.writes() == []


def test_creating_with_o_name_creates_and_prints_the_name_alone(
    cluster: FakeCluster, capsys: Printed
) -> None:
    assert run(["nonadmin", "backup", "create", "b1", "-n", "shop", "-o", "name"]) == 0

    assert capsys.readouterr().out == "nonadminbackup.oadp.openshift.io/b1\n"
    assert cluster.names(NON_ADMIN_BACKUPS) == ["weekly", "b1"]
