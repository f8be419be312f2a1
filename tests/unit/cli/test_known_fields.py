"""What is sent to a cluster with the definitions of an older Velero: the names that it has, or an error."""

from pathlib import Path
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.cli.main import run
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import BACKUPS, CONFIGMAPS, RESTORES, SCHEDULES, APIResource
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from tests.unit.cli.cluster import BACKUP_LOCATIONS, ServedCluster, connected

FORMER, PRESENT = "defaultVolumesToRestic", "defaultVolumesToFsBackup"
LATER = frozenset(
    {PRESENT, "snapshotMoveData", "orLabelSelectors", "existingResourcePolicy", "paused", "resourcePolicy"}
    | {"skipDefaultResourceModifier", "backupType", "deleteExtraFiles"}
)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    cluster = connected(monkeypatch, tmp_path)
    cluster.add(BACKUP_LOCATIONS, "default", spec={"default": True}, status={"phase": "Available"})
    return cluster


@pytest.fixture
def older(cluster: ServedCluster, monkeypatch: pytest.MonkeyPatch) -> ServedCluster:
    """A cluster whose definitions lack the fields of later versions, so that its API server drops them."""
    create = cluster.create

    async def pruning(
        resource: APIResource, body: JSONObject, namespace: str | None = None, **how: Any
    ) -> JSONObject:
        return await create(resource, {**body, "spec": _pruned(body["spec"])}, namespace, **how)

    monkeypatch.setattr(cluster, "create", pruning)
    return cluster


def _pruned(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    return {name: _pruned(value) for name, value in part.items() if name not in LATER}


@pytest.mark.found("X3")
@pytest.mark.parametrize("given", ["true", "false"])
def test_the_name_of_the_cluster_s_definition_is_written(
    cluster: ServedCluster, older: ServedCluster, given: str
) -> None:
    words = f"--default-volumes-to-fs-backup={given}"
    assert run(["backup", "create", "b", words]) == 0
    assert run(["schedule", "create", "s", "--schedule", "@daily", words]) == 0

    for spec in (older.stored(BACKUPS, "b")["spec"], older.stored(SCHEDULES, "s")["spec"]["template"]):
        assert (spec.get(FORMER), PRESENT in spec) == (given == "true", False)


@pytest.mark.found("X3")
@pytest.mark.parametrize("given", ["true", "false"])
def test_a_cluster_of_today_gets_the_name_of_today(cluster: ServedCluster, given: str) -> None:
    words = f"--default-volumes-to-fs-backup={given}"
    assert run(["backup", "create", "b", words]) == 0
    assert run(["schedule", "create", "s", "--schedule", "@daily", words]) == 0

    for spec in (cluster.stored(BACKUPS, "b")["spec"], cluster.stored(SCHEDULES, "s")["spec"]["template"]):
        assert (spec.get(PRESENT), FORMER in spec) == (given == "true", False)


@pytest.mark.found("X3")
@pytest.mark.parametrize(
    ("words", "resource", "field"),
    [
        ("backup create b --snapshot-move-data", BACKUPS, "spec.snapshotMoveData"),
        ("backup create b --or-selector a=b", BACKUPS, "spec.orLabelSelectors"),
        (
            "schedule create s --schedule @daily --snapshot-move-data",
            SCHEDULES,
            "spec.template.snapshotMoveData",
        ),
        ("schedule create s --schedule @daily --paused", SCHEDULES, "spec.paused"),
        (
            "restore create r --from-backup b --existing-resource-policy update",
            RESTORES,
            "spec.existingResourcePolicy",
        ),
        pytest.param(
            "restore create r --from-backup b --resource-policies-configmap p",
            RESTORES,
            "spec.resourcePolicy",
            marks=pytest.mark.spec("AFT-001"),
        ),
        (
            "restore create r --from-backup b --skip-default-resource-modifier",
            RESTORES,
            "spec.skipDefaultResourceModifier",
        ),
        (
            "restore create r --from-backup b --existing-volume-data-policy full --delete-extra-files",
            RESTORES,
            "spec.uploaderConfig.deleteExtraFiles",
        ),
        ("backup create b --backup-type full", BACKUPS, "spec.backupType"),
        (
            "nonadmin backup create b -n shop --backup-type full",
            NON_ADMIN_BACKUPS,
            "spec.backupSpec.backupType",
        ),
        (
            "nonadmin restore create r -n shop --from-backup b --existing-resource-policy update",
            NON_ADMIN_RESTORES,
            "spec.restoreSpec.existingResourcePolicy",
        ),
        ("schedule create s --schedule @daily --backup-type Full", SCHEDULES, "spec.template.backupType"),
    ],
)
def test_a_field_that_an_older_definition_would_drop_is_an_error_and_nothing_is_sent(
    older: ServedCluster,
    capsys: pytest.CaptureFixture[str],
    words: str,
    resource: APIResource,
    field: str,
) -> None:
    older.add(CONFIGMAPS, "p")
    if resource is NON_ADMIN_RESTORES:
        older.add(NON_ADMIN_BACKUPS, "b", namespace="shop")
    if resource is RESTORES:
        older.add(BACKUPS, "b", status={"phase": "Completed"})

    assert run(words.split()) == 1

    text = (
        f"the CustomResourceDefinition of {resource.name} in the cluster has no field {field}, and a server"
    )
    assert text in capsys.readouterr().err
    assert older.names(resource) == []


def test_values_that_ask_for_what_happens_anyway_are_left_to_any_definition(older: ServedCluster) -> None:
    assert run(["backup", "create", "b", "--snapshot-move-data=false"]) == 0
    assert older.names(BACKUPS) == ["b"]


@pytest.mark.found("X3")
def test_a_field_that_is_dropped_without_a_trial_is_said(
    older: ServedCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A webhook that declares side effects refuses each trial."""
    create = older.create

    async def refusing_trials(*given: Any, **how: Any) -> JSONObject:
        if how.get("dry_run"):
            raise Forbidden(403, message="no trials")
        return await create(*given, **how)

    monkeypatch.setattr(older, "create", refusing_trials)

    assert run(["backup", "create", "b", "--snapshot-move-data"]) == 0

    assert "WARNING: the cluster has dropped spec.snapshotMoveData" in capsys.readouterr().err
