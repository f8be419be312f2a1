"""What the tenants' `create` commands ask for. (docs/spec: NAC 6)"""

import json
from pathlib import Path
from typing import Any

import pytest

from pinnace.cli.main import run

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "c", "namespace": "shop"}}],
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
}


@pytest.fixture(autouse=True)
def _without_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(KUBECONFIG))
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.setenv("HOME", str(tmp_path))


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["nonadmin", *arguments, "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["metadata"]["namespace"] == "shop"
    return found


def test_every_flag_of_a_backup_reaches_the_request(capsys: pytest.CaptureFixture[str]) -> None:
    flags = [
        "--exclude-cluster-scoped-resources=persistentvolumes",
        "--include-namespace-scoped-resources=pods,secrets",
        "--exclude-namespace-scoped-resources=events",
        "--or-selector=a=b or c=d",
        "--ordered-resources=pods=shop/a,shop/b",
        "--csi-snapshot-timeout=5m",
        "--item-operation-timeout=1h",
        "--parallel-files-upload=3",
        "--snapshot-move-data",
        "--data-mover=velero",
        "--default-volumes-to-fs-backup",
    ]

    found = printed(capsys, "backup", "create", "b", *flags)["spec"]["backupSpec"]

    assert found == {
        "excludedClusterScopedResources": ["persistentvolumes"],
        "includedNamespaceScopedResources": ["pods", "secrets"],
        "excludedNamespaceScopedResources": ["events"],
        "orLabelSelectors": [{"matchLabels": {"a": "b"}}, {"matchLabels": {"c": "d"}}],
        "orderedResources": {"pods": "shop/a,shop/b"},
        "csiSnapshotTimeout": "5m0s",
        "itemOperationTimeout": "1h0m0s",
        "uploaderConfig": {"parallelFilesUpload": 3},
        "snapshotMoveData": True,
        "datamover": "velero",
        "defaultVolumesToFsBackup": True,
    }


def test_every_flag_of_a_restore_reaches_the_request(capsys: pytest.CaptureFixture[str]) -> None:
    flags = [
        "--from-backup=b",
        "--existing-resource-policy=update",
        "--item-operation-timeout=1h",
        "--write-sparse-files",
        "--parallel-files-download=2",
        "--include-cluster-resources=false",
        "--object=deployments/web",
        "--object=cm/shop/settings",
        "--with-dependencies",
    ]

    made = printed(capsys, "restore", "create", "r", *flags)

    chosen = json.loads(made["metadata"]["annotations"]["pinnace.io/objects"])
    namespace = made["metadata"]["namespace"]
    assert chosen == {"objects": [f"deployments/{namespace}/web", "cm/shop/settings"], "dependencies": True}
    assert made["spec"]["restoreSpec"] == {
        "backupName": "b",
        "existingResourcePolicy": "update",
        "itemOperationTimeout": "1h0m0s",
        "uploaderConfig": {"writeSparseFiles": True, "parallelFilesDownload": 2},
        "includeClusterResources": False,
    }


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--include-resources=pods", "--include-namespace-scoped-resources=pods"], "Resources"),
        (["--selector=a=b", "--or-selector=c=d"], "labelSelector as well as orLabelSelectors"),
    ],
    ids=["both kinds of filters", "both kinds of selectors"],
)
def test_contradictory_filters_are_refused_before_anything_is_sent(
    flags: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["nonadmin", "backup", "create", "b", *flags]) != 0
    assert text in capsys.readouterr().err
