"""The ConfigMaps that flags of `install` name are looked at before anything is sent."""

from pathlib import Path
from typing import Any

import pytest

from pinnace.cli.main import run
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import CONFIGMAPS
from tests.unit.cli.cluster import ServedCluster, connected

AGENT = "--node-agent-configmap"
REPOSITORY = "--backup-repository-configmap"
MAINTENANCE = "--repo-maintenance-job-configmap"
ALL = ("install", "--dry-run", "--provider", "aws", "--bucket", "b", "--no-secret", "--image", "i:1",
       "--use-node-agent")  # fmt: skip


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    return connected(monkeypatch, tmp_path)


@pytest.mark.found("S11")
@pytest.mark.parametrize("dry", [True, False], ids=["dry run", "for real"])
@pytest.mark.parametrize("flag", [AGENT, REPOSITORY, MAINTENANCE])
def test_a_config_map_that_is_not_there_is_an_error_that_says_how_to_make_it(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, flag: str, dry: bool
) -> None:
    cluster.add(CONFIGMAPS, "settings", "elsewhere", data={"a": "{}"})
    words = [word for word in ALL if dry or word != "--dry-run"]

    assert run([*words, f"{flag}=settings"]) == 1

    said = capsys.readouterr()
    assert f"{flag}=settings: namespace velero has no ConfigMap of that name" in said.err
    assert "`kubectl -n velero create configmap settings --from-file=FILE`" in said.err
    assert "installed" not in said.out
    assert cluster.writes() == []


@pytest.mark.found("S11")
@pytest.mark.parametrize(
    ("flag", "data", "reason"),
    [
        (AGENT, {"a": "{}"}, ""),
        (AGENT, {"a": "{"}, "cannot be used: "),
        (AGENT, {}, "it must have exactly one key"),
        (AGENT, {"a": '{"loadConcurrency": {"globalConfig": "many"}}'}, "cannot be used: "),
        (REPOSITORY, {"kopia": '{"cacheLimitMB": 100}'}, ""),
        (REPOSITORY, {"kopia": "no JSON"}, "it is not valid JSON"),
        (REPOSITORY, {"kopia": '{"cacheLimitMB": "much"}'}, "cacheLimitMB must be a number"),
        (MAINTENANCE, {"global": '{"keepLatestMaintenanceJobs": 2}'}, ""),
        (MAINTENANCE, {"global": "no JSON"}, "global: "),
    ],
)
def test_a_config_map_that_its_reader_could_not_use_is_an_error(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, flag: str, data: dict[str, Any], reason: str
) -> None:
    cluster.add(CONFIGMAPS, "settings", data=data)

    assert run([*ALL, flag, "settings"]) == bool(reason)

    said = capsys.readouterr().err
    assert (f"{flag}=settings: the ConfigMap in namespace velero cannot be used" in said) == bool(reason)
    assert reason in said


def test_a_config_map_that_may_not_be_read_and_a_cluster_that_is_not_there_are_warnings_of_a_dry_run(
    capsys: pytest.CaptureFixture[str],
    cluster: ServedCluster,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    cluster.refuse("get", "configmaps", Forbidden(403, message="you may not"))
    assert run([*ALL, AGENT, "settings"]) == 0
    assert f"WARNING: {AGENT}: not checked: you may not" in capsys.readouterr().err

    monkeypatch.undo()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert run([*ALL, AGENT, "settings"]) == 0
    assert f"WARNING: {AGENT}: not checked, as the cluster cannot be asked: " in capsys.readouterr().err
    assert run([*(word for word in ALL if word != "--dry-run"), AGENT, "settings"]) == 1
