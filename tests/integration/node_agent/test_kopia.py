"""kopia under a real server and real node agents, alone, beside restic, and with data that Velero wrote."""

import asyncio
import base64
import json
import subprocess
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hack.cluster import binaries
from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.stores.s3 import S3Server
from pinnace.api.values.durations import Duration
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS, SECRETS
from pinnace.storage.open import open_object_store
from pinnace.volumes.uploader.passwords import SECRET_KEY, SECRET_NAME
from tests.support.cluster.pods import exec_in_pod
from tests.support.servers.sites import running
from tests.support.stores.golden import WHOLE_FOLDER, archive, upload
from tests.support.volumes.node_stages import PASSWORD, Stage, volume_pod
from tests.support.waiting import eventually

SHOW_RESTORED = "cd /data && sha256sum -c big.sum && stat -c %a {file} && readlink {link}"


def snapshots(stage: Stage, password: bytes = PASSWORD) -> list[dict[str, Any]]:
    """What the kopia program itself lists in the repository of the application's namespace."""
    folder = stage.folder / "bucket-default/kopia" / stage.app
    storage = {"type": "filesystem", "config": {"path": str(folder), "dirShards": []}}
    config = {"storage": storage, "caching": {}, "hostname": "default", "username": "default"}
    file = stage.folder / "asking.config"
    file.write_text(json.dumps(config))
    environment = {
        "HOME": str(stage.folder),
        "KOPIA_PASSWORD": password.decode(),
        "KOPIA_CONFIG_PATH": str(file),
    }
    program = binaries.locate(binaries.UPLOADER)["kopia"]
    line = [
        str(program),
        "--disable-file-logging",
        "--no-auto-maintenance",
        "snapshot",
        "list",
        "--all",
        "--json",
    ]
    found: list[dict[str, Any]] = json.loads(
        subprocess.run(line, env=environment, capture_output=True, check=True).stdout
    )
    return found


async def delete_backup(stage: Stage, name: str) -> None:
    """Delete a backup as a user does, and wait until it is gone."""
    await stage.site.create("deletebackuprequests", f"delete-{name}", spec={"backupName": name})
    await stage.site.gone("backups", name)


@pytest.mark.spec("KOP-008")
@pytest.mark.parametrize("uploader", ["kopia"])
async def test_the_second_backup_is_incremental_and_a_deleted_one_takes_only_its_snapshot(
    stage: Stage,
) -> None:
    await stage.run_pod(volume_pod("p", "data"), "data")
    await stage.fill("p", "head -c 3000000 /dev/urandom > /data/large")
    with stage.agent():
        first = await stage.back_up("b1")
        await stage.fill("p", "echo more > /data/more")
        before = await stage.content("p", "data")
        second = await stage.back_up("b2")
        assert (first["status"]["phase"], second["status"]["phase"]) == ("Completed", "Completed")
        saved = [(await stage.pod_volume_of("podvolumebackups", name))["status"] for name in ("b1", "b2")]
        assert saved[0]["incrementalBytes"] >= 3_000_000
        assert saved[1]["incrementalBytes"] < 1000
        assert saved[1]["progress"]["totalBytes"] == 3_000_005
        listed = await asyncio.to_thread(snapshots, stage)
        assert {each["id"] for each in listed} == {status["snapshotID"] for status in saved}

        await delete_backup(stage, "b1")

        listed = await asyncio.to_thread(snapshots, stage)
        assert [each["id"] for each in listed] == [saved[1]["snapshotID"]]
        await stage.delete_app()
        restore = await stage.restore(backup="b2")
        assert restore["status"]["phase"] == "Completed"
        await stage.pod("p")
        assert await stage.content("p", "data") == before
        await delete_backup(stage, "b2")
        assert await asyncio.to_thread(snapshots, stage) == []


@pytest.mark.parametrize("uploader", ["kopia"])
async def test_an_agent_killed_while_saving_leaves_no_snapshot_and_the_next_one_makes_one(
    stage: Stage,
) -> None:
    await stage.run_pod(volume_pod("p", "data"), "data")
    await stage.fill("p", "echo one > /data/file")
    stage.hold("create")
    with stage.agent() as agent:
        await stage.begin_backup()
        await stage.held()
        agent.stop(grace_seconds=0)
    stage.release()
    assert await asyncio.to_thread(snapshots, stage) == []
    with stage.agent():
        backup = await stage.site.reached("backups", "b")

    assert backup["status"]["phase"] == "Completed"
    pod_volume = (await stage.pod_volume_of("podvolumebackups", "b"))["status"]
    assert [each["id"] for each in await asyncio.to_thread(snapshots, stage)] == [pod_volume["snapshotID"]]


@pytest.mark.spec("KOP-009")
async def test_each_volume_is_restored_by_the_uploader_that_saved_it(quiet_stage: Stage) -> None:
    stage = quiet_stage
    await stage.run_pod(volume_pod("p", "data"), "data")
    contents = {}
    with stage.agent():
        for name in ("restic", "kopia"):
            async with running(stage.client, stage.site.namespace, stage.folder, uploader=name):
                await stage.fill("p", f"echo {name} > /data/file")
                contents[name] = await stage.content("p", "data")
                backup = await stage.back_up(name)
                assert backup["status"]["phase"] == "Completed", await stage.pod_volumes("podvolumebackups")
        # The server's own uploader is the other one each time.
        for name, other in (("restic", "kopia"), ("kopia", "restic")):
            async with running(stage.client, stage.site.namespace, stage.folder, uploader=other):
                copy = f"{stage.app}-{name}"
                restore = await stage.restore(name, backup=name, namespaceMapping={stage.app: copy})
                assert restore["status"]["phase"] == "Completed", await stage.pod_volumes("podvolumerestores")
                await stage.pod("p", namespace=copy)
                assert await stage.content("p", "data", namespace=copy) == contents[name]


async def is_synced(stage: Stage, backup: str) -> bool:
    found = await stage.client.list_all(stage.kind("backups"), stage.site.namespace)
    return backup in {obj["metadata"]["name"] for obj in found}


@pytest.fixture
async def s3_of_pods(node_cluster: NodeCluster, tmp_path: Path) -> AsyncIterator[S3Server]:
    """A server that nodes reach."""
    server = S3Server(tmp_path / "s3", address=node_cluster.network.gateway)
    await asyncio.to_thread(server.start)
    yield server
    await asyncio.to_thread(server.remove)


@pytest.mark.parametrize(
    ("version", "backup", "file", "link", "said"),
    [
        ("1.6.3", "files", "dir/deep.txt", "link", "/data/big.bin: OK 640 hello.txt"),
        ("1.16.2", "files", "dir/deep.txt", "link", "/data/big.bin: OK 640 hello.txt"),
        ("main-pod-volumes", "second", "new.bin", "folder/link", "big.bin: OK 600 ../notes.txt"),
    ],
    ids=["restic of 1.6.3", "kopia of 1.16.2", "kopia of main"],
)
async def test_volume_data_of_velero_comes_back_in_a_pod(
    quiet_stage: Stage,
    node_client: KubeClient,
    s3_of_pods: S3Server,
    version: str,
    backup: str,
    file: str,
    link: str,
    said: str,
) -> None:
    if archive(version) is None:
        pytest.skip(f"velero-{version}.tar.gz is not in tests/golden, nor in ${WHOLE_FOLDER}")
    stage, namespace = quiet_stage, quiet_stage.site.namespace
    bucket = await asyncio.to_thread(s3_of_pods.create_bucket, "golden")
    config = {
        **bucket.location_config,
        "bucket": "golden",
        "credentialsFile": str(s3_of_pods.credentials_file),
    }
    store = open_object_store("aws", config)
    try:
        await upload(version, stage.folder / "golden", store)
    finally:
        await store.close()
    data = {SECRET_KEY: base64.b64encode(b"static-passw0rd").decode()}
    # The one of old Velero, which the stage has made with another password.
    await node_client.patch(SECRETS, SECRET_NAME, {"data": data}, namespace)
    password = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "velero-repo-credentials", "namespace": namespace},
        "data": data,
    }
    await node_client.create(SECRETS, password, namespace)
    rules = """\
version: v1
resourceModifierRules:
- conditions: {groupResource: pods}
  patches:
  - {operation: replace, path: /spec/containers/0/command/2, value: sleep 3600}
"""
    # The pod of that backup would write its files again, over those that are restored.
    modifier = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "idle"},
        "data": {"rules.yaml": rules},
    }
    await node_client.create(CONFIGMAPS, modifier, namespace)
    await stage.site.add_bucket(bucket, "golden", objectStorage={"bucket": "golden"})
    period = Duration.seconds(1)
    async with running(node_client, namespace, stage.folder, uploader="kopia", backup_sync_period=period):
        await stage.site.reached("backupstoragelocations", "golden", "Available")
        await eventually(partial(is_synced, stage, backup))
        copy = f"{stage.app}-files"
        with stage.agent():
            restore = await stage.restore(
                backup=backup,
                namespaceMapping={"files": copy},
                resourceModifier={"kind": "configmap", "name": "idle"},
            )

            assert restore["status"]["phase"] == "Completed"
            await stage.pod("keeper", namespace=copy)
            shown = SHOW_RESTORED.format(file=file, link=link)
            assert (await exec_in_pod(node_client, copy, "keeper", "sh", "-c", shown)).split() == said.split()
