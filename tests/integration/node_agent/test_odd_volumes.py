"""Volumes that are not mounted, that belong to their pod, or that the waiting container may not enter."""

import gzip
import json
import subprocess
from typing import Any

import pytest

from pinnace.api.labels import POD_VOLUME_TIMEOUT
from pinnace.api.objects import JSONObject
from pinnace.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PODS
from tests.support.cluster.csi_cluster import CLASS
from tests.support.cluster.pods import busybox_pod
from tests.support.servers.sites import running
from tests.support.volumes.node_stages import Stage, add_helper_config, add_local_volume, volume_pod

TEMPLATE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "20Mi"}}}
EVERYTHING: dict[str, Any] = {"defaultVolumesToFsBackup": True}
FILL = "echo one > /eph/file; mkdir /eph/folder; echo two > /eph/folder/file"
RESTRICTED = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def results_of(stage: Stage, kind: str, name: str) -> dict[str, list[str]]:
    """The warnings and errors of a backup or restore, of all namespaces together."""
    prefix = "restore-" if kind == "restores" else ""
    path = stage.folder / "bucket-default" / kind / name / f"{prefix}{name}-results.gz"
    found = json.loads(gzip.decompress(path.read_bytes()))
    return {half: [text for texts in told.values() for text in _texts(texts)] for half, told in found.items()}


def _texts(found: Any) -> list[str]:
    """The texts in one part of the results, which may have a level for namespaces."""
    if isinstance(found, dict):
        return [text for texts in found.values() for text in _texts(texts)]
    return list(found or ())


def errors_of(stage: Stage, restore: str) -> list[str]:
    return results_of(stage, "restores", restore)["errors"]


# --- Volumes that no node has mounted ---------------------------------------------------------------------


@pytest.mark.found("V01")
async def test_a_claim_that_no_container_mounts_is_a_warning_and_the_others_are_saved(stage: Stage) -> None:
    for name in ("used", "unused"):
        await add_claim(stage, name)
    volumes: list[JSONObject] = [
        {"name": "v", "persistentVolumeClaim": {"claimName": "used"}},
        {"name": "nomount", "persistentVolumeClaim": {"claimName": "unused"}},
        {"name": "empty", "emptyDir": {}},
    ]
    await stage.run_pod(busybox_pod("p", mounts={"v": "/v"}, volumes=volumes))
    with stage.agent():
        backup = await stage.back_up(**EVERYTHING)

    assert (backup["status"]["phase"], backup["status"]["warnings"]) == ("Completed", 2)
    assert list(await stage.pod_volumes("podvolumebackups")) == ["v"]
    warnings = results_of(stage, "backups", "b")["warnings"]
    for name in ("nomount", "empty"):
        told = f"Volume {name} is not saved from its files: no container of the pod mounts it"
        assert any(told in warning for warning in warnings)


@pytest.mark.found("V25")
@pytest.mark.parametrize("uploader", ["restic", "kopia"])
async def test_a_volume_that_was_unmounted_below_its_pod_is_no_empty_volume(stage: Stage) -> None:
    """The pod still has its data, and the node has an empty directory in its place."""
    await add_claim(stage, "c")
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    pod = await stage.run_pod(busybox_pod("p", mounts={"v": "/v"}, volumes=volumes))
    await stage.fill("p", "echo precious > /v/file")
    with stage.agent():
        first = await stage.back_up("first", **EVERYTHING)
        [saved] = (await stage.pod_volumes("podvolumebackups")).values()
        unmount(stage, saved["status"]["path"])
        second = await stage.back_up("second", **EVERYTHING)

    assert first["status"]["phase"] == "Completed"
    assert second["status"]["phase"] == "PartiallyFailed", second["status"]
    status = (await stage.pod_volume_of("podvolumebackups", "second"))["status"]
    assert status["phase"] == "Failed"
    assert f"{saved['status']['path']} is no mount point" in status["message"]
    assert pod["metadata"]["uid"] in status["message"]


async def add_claim(stage: Stage, name: str) -> None:
    """A claim with a volume of the node, which the kubelet mounts within one file system."""
    await add_local_volume(stage, f"{name}-{stage.app}", claimRef={"namespace": stage.app, "name": name})
    spec = {**TEMPLATE, "storageClassName": ""}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
    await stage.client.create(PERSISTENT_VOLUME_CLAIMS, body, stage.app)


def unmount(stage: Stage, path: str) -> None:
    node = stage.cluster.nodes[0]
    subprocess.run(["nsenter", f"--target={node.pid}", "--mount", "--", "umount", path], check=True)


# --- Generic ephemeral volumes ----------------------------------------------------------------------------


def ephemeral_pod(storage_class: str) -> JSONObject:
    template = {"spec": {**TEMPLATE, "storageClassName": storage_class}}
    volumes = [{"name": "eph", "ephemeral": {"volumeClaimTemplate": template}}]
    return busybox_pod("p", mounts={"eph": "/eph"}, volumes=volumes)


@pytest.mark.found("V02")
@pytest.mark.parametrize("uploader", ["kopia"])
async def test_a_generic_ephemeral_volume_comes_back_with_its_files_and_its_pod_runs(stage: Stage) -> None:
    target = f"{stage.app}-again"
    for namespace in (stage.app, target):
        await add_local_volume(stage, f"v-{namespace}", claimRef={"namespace": namespace, "name": "p-eph"})
    await stage.run_pod(ephemeral_pod(""))
    await stage.fill("p", FILL)
    before = await stage.content("p", "eph")
    with stage.agent():
        backup = await stage.back_up(**EVERYTHING)
        assert backup["status"]["phase"] == "Completed", results_of(stage, "backups", "b")

        restore = await stage.restore(namespaceMapping={stage.app: target})

        assert restore["status"]["phase"] == "Completed", errors_of(stage, "r")
        await owns_its_claim(stage, target)
        assert await stage.content("p", "eph", namespace=target) == before


@pytest.mark.found("V02")
@pytest.mark.parametrize("spec", [{}, {"snapshotMoveData": True}], ids=["snapshot", "moved"])
@pytest.mark.usefixtures("csi_storage")
async def test_a_generic_ephemeral_volume_comes_back_from_a_snapshot(
    quiet_stage: Stage, spec: dict[str, Any]
) -> None:
    stage, target = quiet_stage, f"{quiet_stage.app}-again"
    options: dict[str, Any] = {
        "uploader": "kopia",
        "features": frozenset({"EnableCSI"}),
        "operation_poll_seconds": 1.0,
    }
    async with running(stage.client, stage.site.namespace, stage.folder, **options):
        await stage.site.reached("backupstoragelocations", "default", "Available")
        await stage.run_pod(ephemeral_pod(CLASS))
        await stage.fill("p", FILL)
        before = await stage.content("p", "eph")
        with stage.agent():
            backup = await stage.back_up(**spec)
            assert backup["status"]["phase"] == "Completed", results_of(stage, "backups", "b")

            restore = await stage.restore(namespaceMapping={stage.app: target})

            assert restore["status"]["phase"] == "Completed", errors_of(stage, "r")
            await owns_its_claim(stage, target)
            assert await stage.content("p", "eph", namespace=target) == before


async def owns_its_claim(stage: Stage, namespace: str) -> None:
    pod = await stage.pod("p", namespace=namespace)
    claim = await stage.client.get(PERSISTENT_VOLUME_CLAIMS, "p-eph", namespace)
    [owner] = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Pod", pod["metadata"]["uid"], True)


# --- The container that waits -----------------------------------------------------------------------------


@pytest.mark.found("U1", "V08")
async def test_a_pod_comes_back_into_a_namespace_with_pod_security_restricted(stage: Stage) -> None:
    await stage.client.patch(
        NAMESPACES, stage.app, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    )
    pod = volume_pod("p", "data", securityContext={"fsGroup": 1000})
    pod["spec"]["containers"][0]["securityContext"] = RESTRICTED
    await stage.run_pod(pod, "data")
    await stage.fill("p", "echo one > /data/file")
    before = await stage.content("p", "data")
    with stage.agent():
        await stage.back_up()
        await stage.delete_app()
        restore = await stage.restore()

        assert restore["status"]["phase"] == "Completed", errors_of(stage, "r")
        made = await stage.pod("p")
    assert made["spec"]["initContainers"][0]["securityContext"] == RESTRICTED
    assert await stage.content("p", "data") == before


@pytest.mark.found("V08b")
@pytest.mark.parametrize("uploader", ["kopia"])
@pytest.mark.parametrize("level", ["container", "pod"])
async def test_the_container_that_waits_enters_a_volume_that_only_its_user_may_enter(
    stage: Stage, level: str
) -> None:
    pod = private_pod("1000")
    where = pod["spec"]["containers"][0] if level == "container" else pod["spec"]
    where["securityContext"] = {"runAsUser": 1000}
    pod["spec"]["initContainers"][0]["securityContext"] = {"runAsUser": 0}
    await stage.run_pod(pod, "data")
    await stage.fill("p", "echo one > /data/file")
    before = await stage.content("p", "data")
    with stage.agent():
        await stage.back_up()
        await stage.delete_app()
        restore = await stage.restore()

        assert restore["status"]["phase"] == "Completed", errors_of(stage, "r")
        await stage.pod("p")
    assert await stage.content("p", "data") == before


@pytest.mark.found("V03")
@pytest.mark.parametrize("uploader", ["kopia"])
async def test_a_volume_that_the_container_may_not_enter_is_an_error_with_a_way_out(stage: Stage) -> None:
    await stage.run_pod(private_pod("0"), "data")
    await stage.fill("p", "echo one > /data/file")
    before = await stage.content("p", "data")
    with stage.agent():
        await stage.back_up()
        await stage.delete_app()
        annotations = {POD_VOLUME_TIMEOUT: "3m"}
        await stage.site.create("restores", "r", spec={"backupName": "b"}, annotations=annotations)
        restore = await stage.site.reached("restores", "r")

        assert restore["status"]["phase"] == "PartiallyFailed"
        [error] = errors_of(stage, "r")
        assert error.startswith(f"the pod {stage.app}/p does not start: its volumes have their data")
        assert "Permission denied" in error
        assert (await stage.pod_volumes("podvolumerestores"))["data"]["status"]["phase"] == "Completed"

        await add_helper_config(stage, secCtx="{runAsUser: 0, capabilities: {add: [DAC_READ_SEARCH]}}")
        await stage.client.delete(PODS, "p", stage.app)
        await stage.delete_app()
        again = await stage.restore("again")

        assert again["status"]["phase"] == "Completed", errors_of(stage, "again")
        await stage.pod("p")
    assert await stage.content("p", "data") == before


def private_pod(owner: str) -> JSONObject:
    """A pod with a volume that only this user may enter."""
    pod = volume_pod("p", "data")
    own = busybox_pod("x", f"chown {owner} /data; chmod 0700 /data", mounts={"data": "/data"})
    pod["spec"]["initContainers"] = [{**own["spec"]["containers"][0], "name": "own"}]
    return pod
