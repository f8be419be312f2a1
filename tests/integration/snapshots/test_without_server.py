"""Snapshots in backups and restores by commands without a server."""

import json
from pathlib import Path

import pytest
import yaml

from hack.cluster.control_plane import ControlPlane
from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from tests.e2e.without_server.command import Pinnace
from tests.integration.snapshots.apps import FILE, CSIApp, FolderApp
from tests.integration.snapshots.bench import PLUGIN_MODULE
from tests.support.cluster.snapshot_crds import remove_snapshot_crds
from tests.support.waiting import eventually

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def pinnace(tmp_path: Path, control_plane: ControlPlane) -> Pinnace:
    location = tmp_path / "own"
    environ = {"PINNACE_PLUGINS": PLUGIN_MODULE, "PYTHONPATH": str(CHECKOUT)}
    return Pinnace(
        tmp_path, kubeconfig=control_plane.kubeconfig, location=str(location), secrets=(), environ=environ
    )


async def test_csi_snapshots_are_taken_and_restored_by_commands(csi_app: CSIApp, pinnace: Pinnace) -> None:
    feature, namespace = ("--features", "EnableCSI"), csi_app.namespace
    resources = csi_app.of()["includedResources"]

    made = await pinnace(
        *feature,
        *("backup", "create", "b1", "--include-namespaces", namespace),
        *("--include-resources", ",".join(resources)),
    )
    assert made.code == 0, made.err + made.out
    assert await csi_app.snapshots() == []
    (handle,) = csi_app.storage.storage
    assert await _looked_at(pinnace, csi_app) == (0, "not checked")
    assert await _looked_at(pinnace, csi_app, "--ask-drivers") == (0, "ok")
    await eventually(lambda: _has_no_contents(csi_app))
    assert csi_app.storage.storage == {handle}
    await csi_app.lose()
    restored = await pinnace(*feature, "restore", "create", "r1", "--from-backup", "b1")

    assert restored.code == 0, restored.err + restored.out
    claim = await csi_app.claim()
    assert claim["spec"]["dataSource"]["name"].startswith("velero-data-")

    refused = await pinnace("--kubeconfig", "/nowhere", "backup", "delete", "b1", "--confirm")

    assert refused.code == 1
    assert f"CSI snapshot {handle} of {csi_app.driver} can be deleted only through a cluster" in refused.err
    assert csi_app.storage.storage == {handle}

    deleted = await pinnace("--namespace", namespace, "backup", "delete", "b1", "--confirm")

    assert (deleted.code, deleted.out) == (0, 'Backup "b1" deleted\n'), deleted.err

    async def is_gone() -> bool:
        return not csi_app.storage.storage

    await eventually(is_gone)


@pytest.mark.found("S2", "S4")
@pytest.mark.parametrize("left", ["nothing", "a snapshot that the driver finished"])
async def test_a_snapshot_that_was_not_made_in_time_goes_with_its_backup_at_the_latest(
    csi_app: CSIApp, pinnace: Pinnace, left: str
) -> None:
    csi_app.storage.makes_handles = False
    made = await pinnace(
        *("--features", "EnableCSI", "backup", "create", "b1", "--include-namespaces", csi_app.namespace),
        *("--include-resources", ",".join(csi_app.of()["includedResources"])),
        *("--csi-snapshot-timeout", "1s"),
    )
    assert made.code != 0
    assert "was not made within" in made.err + made.out
    assert await csi_app.snapshots() == []
    csi_app.storage.makes_handles = True
    await eventually(lambda: _has_no_contents(csi_app))
    assert csi_app.storage.storage == set()
    if left != "nothing":  # as if the machine had been lost before it could delete it
        await csi_app.add_snapshot({labels.BACKUP_NAME: "b1"})

    deleted = await pinnace("--namespace", csi_app.namespace, "backup", "delete", "b1", "--confirm")

    assert (deleted.code, deleted.out) == (0, 'Backup "b1" deleted\n'), deleted.err
    assert await csi_app.snapshots() == []
    await eventually(lambda: _has_no_contents(csi_app))
    assert csi_app.storage.storage == set()


@pytest.mark.found("S2")
async def test_a_user_who_may_not_look_for_left_snapshots_is_warned(
    csi_app: CSIApp, pinnace: Pinnace, control_plane: ControlPlane, tmp_path: Path
) -> None:
    csi_app.storage.makes_handles = False
    await pinnace(
        *("--features", "EnableCSI", "backup", "create", "b1", "--include-namespaces", csi_app.namespace),
        *("--include-resources", ",".join(csi_app.of()["includedResources"])),
        *("--csi-snapshot-timeout", "1s"),
    )
    csi_app.storage.makes_handles = True

    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    for user in config["users"]:
        user["user"]["as"] = "nobody-at-all"
    few_rights = tmp_path / "few-rights.yaml"
    few_rights.write_text(yaml.safe_dump(config))

    deleted = await pinnace("--kubeconfig", str(few_rights), "backup", "delete", "b1", "--confirm")

    assert deleted.code == 0, deleted.err
    assert "could not be asked for VolumeSnapshots that an unfinished run" in deleted.err
    assert "velero.io/backup-name=b1" in deleted.err


async def test_a_csi_snapshot_that_is_gone_makes_its_backup_unsound(
    csi_app: CSIApp, pinnace: Pinnace
) -> None:
    made = await pinnace(
        *("--features", "EnableCSI", "backup", "create", "b1", "--include-namespaces", csi_app.namespace),
        *("--include-resources", ",".join(csi_app.of()["includedResources"])),
    )
    assert made.code == 0, made.err + made.out
    csi_app.storage.storage.clear()

    assert await _looked_at(pinnace, csi_app, "--ask-drivers") == (1, "BAD")
    await eventually(lambda: _has_no_contents(csi_app))


async def _has_no_contents(csi_app: CSIApp) -> bool:
    return not await csi_app.contents()


async def _looked_at(pinnace: Pinnace, csi_app: CSIApp, *flags: str) -> tuple[int, str]:
    """The exit code, and what was found of the CSI snapshots."""
    namespace = ("--namespace", csi_app.namespace)
    done = await pinnace(*namespace, "backup", "verify", "b1", *flags, "-o", "json")
    (found,) = json.loads(done.out)
    (result,) = [each["result"] for each in found["checks"] if each["check"] == "CSI snapshots in storage"]
    return done.code, result


async def test_native_snapshots_are_taken_where_they_are_asked_for(
    folder_app: FolderApp, pinnace: Pinnace, tmp_path: Path
) -> None:
    namespace, snapshots = folder_app.bench.namespace, tmp_path / "provider/snapshots"
    create = ("--namespace", namespace, "backup", "create", "--include-namespaces", namespace)
    selected = ("--selector", f"app={namespace}")

    plain = await pinnace(*create, "b0", *selected)
    assert plain.code == 0, plain.err + plain.out
    assert not snapshots.exists()
    asked = await pinnace(*create, "b1", *selected, "--snapshot-volumes")

    assert asked.code == 0, asked.err + asked.out
    assert len(list(snapshots.iterdir())) == 1
    verified = await pinnace("--namespace", namespace, "backup", "verify", "b1")
    assert verified.code == 0, verified.err
    assert "the plugin of snapshot location here cannot be asked" in verified.out
    await folder_app.lose()
    restored = await pinnace("--namespace", namespace, "restore", "create", "r1", "--from-backup", "b1")
    assert restored.code == 0, restored.err + restored.out
    volume = await folder_app.volume_of(namespace)
    assert (Path(volume["spec"]["hostPath"]["path"]) / FILE).read_text() == "as it was"


@pytest.mark.found("E-F7")
async def test_without_the_kinds_of_snapshots_a_backup_saves_all_and_warns_of_the_claim(
    client: KubeClient, namespace: str, pinnace: Pinnace
) -> None:
    await remove_snapshot_crds(client)
    volume = f"pv-{namespace}"
    spec: JSONObject = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    of_csi = {"csi": {"driver": "d.example.com", "volumeHandle": "v"}, "capacity": {"storage": "1Gi"}}
    body: JSONObject = {"metadata": {"name": volume}, "spec": {**spec, **of_csi}}
    await client.create(PERSISTENT_VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", **body})
    try:
        wanted = {"volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}
        body = {"metadata": {"name": "data"}, "spec": {**spec, **wanted}}
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **body}
        await client.create(PERSISTENT_VOLUME_CLAIMS, claim, namespace)
        bound = {"status": {"phase": "Bound"}}
        await client.patch(PERSISTENT_VOLUME_CLAIMS, "data", bound, namespace, subresource="status")

        flags = ("--features", "EnableCSI")
        made = await pinnace(*flags, "backup", "create", "b1", "--include-namespaces", namespace)

        assert made.code == 0, made.err + made.out
        assert "0 errors, 1 warning" in made.out
        assert "the cluster does not serve volumesnapshots.snapshot.storage.k8s.io" in made.out + made.err
        shown = await pinnace("backup", "show", "b1", "persistentvolumeclaims/data", "-n", namespace)
        assert shown.code == 0, shown.err
    finally:
        await client.delete(PERSISTENT_VOLUMES, volume)
