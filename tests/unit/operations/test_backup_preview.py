"""What a preview counts is what the backup then holds, and hooks and volumes are only noted."""

from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest

from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, PODS, SECRETS
from pinnace.operations.backup_preview import BackupPreview, BackupPreviewSettings, preview_backup
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.backup.fakes import a_backup, discovery_of, run_backup, thing, two_a_page

HOOK = {"pre.hook.backup.velero.io/command": '["/bin/freeze", "-y"]'}


def cluster() -> ScriptedCluster:
    found = two_a_page().add_all(NAMESPACES, "ns", "other").add_all(CONFIGMAPS, "ns/a", "ns/b", "other/c")
    found.add_all(SECRETS, "ns/s", labels={"a": "b"})
    mounts = [{"name": "scratch", "mountPath": "/scratch"}]
    spec = {
        "containers": [{"name": "main", "volumeMounts": mounts}],
        "volumes": [{"name": "scratch", "emptyDir": {}}, {"name": "unused", "emptyDir": {}}],
    }
    pod = thing(PODS, "p", "ns", annotations=HOOK, spec=spec, status={"phase": "Running"})
    return found.put_all(PODS, pod)


async def foresee(spec: dict[str, Any], **settings: Any) -> BackupPreview:
    client = cast(KubeClient, cluster())
    return await preview_backup(client, discovery_of(), a_backup(**spec), BackupPreviewSettings(**settings))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"included_namespaces": ["ns"]},
        {"excluded_resources": ["secrets"]},
        {"included_namespaces": ["other"], "included_resources": ["cm"]},
        {"included_resources": ["deploymnets"]},
    ],
)
async def test_the_items_are_those_of_the_backup(tmp_path: Path, spec: dict[str, Any]) -> None:
    preview = await foresee(spec)
    outcome = await run_backup(tmp_path, cluster(), a_backup(**spec))

    made = Counter(
        (parts[0], parts[1] if len(parts) == 3 else "")
        for parts in (item.split("/") for item in outcome.items)
    )
    assert {place: counted.items for place, counted in preview.counts.items()} == made
    assert all(counted.size_bytes > 20 for counted in preview.counts.values())
    assert preview.errors == outcome.errors


async def test_hooks_and_volumes_are_noted() -> None:
    preview = await foresee({"default_volumes_to_restic": True}, saves_pod_volumes=True)

    assert preview.notes.hooks == [("ns/p", "/bin/freeze -y")]
    assert preview.notes.volumes == [("ns/p/scratch", "from its files")]


async def test_what_is_not_shown_is_a_warning() -> None:
    preview = await foresee({}, plugin_actions=["example.io/change"], features=["EnableCSI"])

    assert preview.warnings == 2
    assert "The action example.io/change of a plugin was not run" in preview.log
    assert "CSI snapshots are not taken" in preview.log


async def test_an_unknown_kind_is_the_error_of_the_backup() -> None:
    preview = await foresee({"included_resources": ["deploymnets"]})

    assert preview.errors == 1
    assert "did you mean" in preview.log
