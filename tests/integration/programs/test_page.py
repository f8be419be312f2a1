"""The examples of docs/python.md, run as they stand on a real cluster and a folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pinnace
from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, CONFIGMAPS

PAGE = Path(__file__).parents[3] / "docs/python.md"


@pytest.fixture
async def shop(client: KubeClient, namespace: str) -> str:
    """A namespace with two config maps, one of them of the label that the page selects."""
    for name, labels in (("settings", {"app": "web"}), ("other", {})):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}
        await client.create(CONFIGMAPS, body, namespace)
    return namespace


async def test_the_examples_of_the_page_do_what_they_say(
    control_plane: ControlPlane, client: KubeClient, shop: str, tmp_path: Path
) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 6
    printed = []
    for example in examples:
        code = example.replace('"shop"', repr(shop))
        for copy in ("copy", "small"):
            code = code.replace(f'"shop-{copy}"', repr(f"{shop}-{copy}"))
        ran = subprocess.run(  # noqa: ASYNC221 - nothing else runs in this loop
            [sys.executable, "-W", "error", "-c", code],
            cwd=tmp_path,
            env={**os.environ, "KUBECONFIG": str(control_plane.kubeconfig), "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        printed.append(ran.stdout)

    script, settings, filtered, administered, nightly, failing = printed
    assert script.startswith("shop-monday Completed ")
    assert script.splitlines()[1].startswith("shop-monday Completed 20")
    assert script.splitlines()[2].startswith("Completed 0 errors, ")
    assert "of about" in settings
    assert filtered == ""
    assert administered.startswith("healthy\nCustomResourceDefinition ")
    assert "BackupStorageLocation default applied\n" in administered
    location = await client.get(BACKUP_STORAGE_LOCATIONS, "default", "velero")
    assert location["spec"]["config"] == {"region": "eu-central-1"}
    assert nightly == "4 backups\n"
    assert failing.startswith("not possible as asked for: the restore is not valid:")
    copies = await client.list_all(CONFIGMAPS, f"{shop}-copy")
    assert {"settings", "other"} <= {found["metadata"]["name"] for found in copies}
    (smaller,) = [
        found
        for found in await client.list_all(CONFIGMAPS, f"{shop}-small")
        if found["metadata"]["name"] != "kube-root-ca.crt"
    ]
    assert smaller["metadata"]["name"] == "settings"
    assert smaller["metadata"]["annotations"] == {"size": "small"}
    summaries = await pinnace.list_backups_async(pinnace.Location(tmp_path / "backups"))
    found = {each.name: each for each in summaries}
    assert found["settings"].items == 1
    assert found["settings"].labels["reason"] == "upgrade"


async def test_a_name_that_is_taken_and_a_cluster_that_is_not_there(
    control_plane: ControlPlane, shop: str, tmp_path: Path
) -> None:
    location = pinnace.Location(tmp_path / "backups")
    cluster = pinnace.Cluster(kubeconfig=control_plane.kubeconfig)
    selection = pinnace.Selection(included_namespaces=[shop])
    result = await pinnace.backup_async("b", location, cluster=cluster, selection=selection)
    assert result.phase is pinnace.Phase.COMPLETED
    assert result.items >= 3

    with pytest.raises(pinnace.NameTaken, match="choose another name"):
        await pinnace.backup_async("b", location, cluster=cluster, selection=selection)
    with pytest.raises(pinnace.InvalidRequest, match="not valid"):
        await pinnace.backup_async(
            "c", location, cluster=cluster, selection=pinnace.Selection(included_resources=["cronfigs"])
        )
    with pytest.raises(pinnace.ClusterError, match="nowhere"):
        await pinnace.backup_async("c", location, cluster=pinnace.Cluster(kubeconfig="/nowhere"))

    summaries = await pinnace.list_backups_async(location)
    assert [summary.name for summary in summaries] == ["b"]
