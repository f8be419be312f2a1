"""What the commands of self-service answer to names that do not exist, and do before they delete."""

from pathlib import Path

import pytest

from pinnace.cli.main import run
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import NAMESPACES
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from tests.unit.cli.cluster import ServedCluster, connected

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    cluster = connected(monkeypatch, tmp_path)
    cluster.add(NON_ADMIN_BACKUPS, "weekly", "shop")
    return cluster


@pytest.mark.found("CF18")
def test_a_deletion_asks_only_about_what_exists(
    cluster: ServedCluster, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)

    assert run(["nonadmin", "backup", "delete", "weakly", "-n", "shop"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "did you mean weekly?" in shown.err

    assert run(["nonadmin", "backup", "delete", "weakly", "weekly", "-n", "shop"]) == 2
    assert "  backup weekly with all that is stored\n" in capsys.readouterr().out
    assert cluster.writes() == []


@pytest.mark.parametrize("verb", ["get", "describe", "logs", "delete --confirm"])
@pytest.mark.usefixtures("cluster")
def test_a_name_that_does_not_exist_is_answered_with_near_names(verb: str, capsys: Printed) -> None:
    assert run(["nonadmin", "backup", *verb.split(), "weakly", "-n", "shop"]) == 1

    assert '"weakly" not found; did you mean weekly?' in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["get", "describe", "logs", "delete --confirm"])
def test_a_namespace_that_does_not_exist_is_named(verb: str, cluster: ServedCluster, capsys: Printed) -> None:
    cluster.add(NAMESPACES, "shop")

    assert run(["nonadmin", "backup", *verb.split(), "weekly", "-n", "shpo"]) == 1

    assert "namespace shpo does not exist; did you mean shop?" in capsys.readouterr().err


def test_a_tenant_who_may_not_list_gets_the_plain_answer(cluster: ServedCluster, capsys: Printed) -> None:
    cluster.refuse("list", "nonadminbackups", Forbidden(403, reason="Forbidden"))

    assert run(["nonadmin", "backup", "describe", "weakly", "-n", "shop"]) == 1

    assert capsys.readouterr().err.endswith('"weakly" not found\n')


def test_a_tenant_who_may_do_nothing_is_told_what_it_takes(cluster: ServedCluster, capsys: Printed) -> None:
    message = 'nonadminbackups.oadp.openshift.io is forbidden: User "ann" cannot list'
    cluster.refuse("list", "nonadminbackups", Forbidden(403, reason="Forbidden", message=message))

    assert run(["nonadmin", "backup", "get", "-n", "shop"]) == 1

    assert capsys.readouterr().err.endswith(
        "That needs the role `edit` in the namespace (-n), and self-service, which an administrator sets up"
        " by `pinnace install --non-admin`\n"
    )


def test_a_restore_that_never_began_is_not_resumed_and_the_refusal_is_shown(
    cluster: ServedCluster, capsys: Printed
) -> None:
    refused = {"type": "Accepted", "status": "False", "message": "the backup is of another namespace"}
    cluster.add(NON_ADMIN_RESTORES, "again", "shop", status={"conditions": [refused]})

    assert run(["nonadmin", "restore", "resume", "again", "-n", "shop"]) == 1

    assert (
        "restore again cannot be resumed: it has not begun, as it was refused: the backup is of another"
        " namespace\n" in capsys.readouterr().err
    )
    assert cluster.writes() == []


def test_a_deletion_where_self_service_is_not_installed_says_so(
    cluster: ServedCluster, capsys: Printed
) -> None:
    cluster.unserved = {("nonadminbackups", "v1alpha1")}

    assert run(["nonadmin", "backup", "delete", "weekly", "-n", "shop", "--confirm"]) == 1

    assert "the cluster does not serve the kinds of self-service" in capsys.readouterr().err


@pytest.mark.usefixtures("cluster")
def test_a_description_of_nothing_says_where_it_looked(capsys: Printed) -> None:
    assert run(["nonadmin", "backup", "describe", "-n", "blog"]) == 0

    assert capsys.readouterr().err == "No backups in namespace blog; --namespace looks into another.\n"


def test_a_deletion_names_what_goes_before_it_asks(
    cluster: ServedCluster, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    monkeypatch.setattr("sys.stdin", None)

    assert run(["nonadmin", "backup", "delete", "weekly", "-n", "shop"]) == 2

    assert "To be deleted:\n  backup weekly with all that is stored\n" in capsys.readouterr().out
    assert cluster.writes() == []


def test_creating_with_o_name_creates_and_prints_the_name_alone(
    cluster: ServedCluster, capsys: Printed
) -> None:
    assert run(["nonadmin", "backup", "create", "b1", "-n", "shop", "-o", "name"]) == 0

    assert capsys.readouterr().out == "nonadminbackup.oadp.openshift.io/b1\n"
    assert cluster.names(NON_ADMIN_BACKUPS) == ["weekly", "b1"]
