"""An installation of `pinnace install`: server and agent in pods with few rights, and a bucket."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.stores.s3 import S3Server
from pinnace.api import kinds, labels
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIGMAPS,
    EVENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    known,
    velero,
)
from tests.support.cluster.csi_cluster import CLASS, CSICluster
from tests.support.cluster.pods import busybox_pod, exec_in_pod
from tests.support.servers.sites import Site
from tests.support.volumes.node_stages import FILES, PASSWORD, PINNACE, Stage, add_local_volume, volume_pod
from tests.support.waiting import eventually

COMMAND_SECONDS = 240.0
ENFORCE = "pod-security.kubernetes.io/enforce"
READER = "dry-runner"
QUOTAS = known(kinds.RESOURCE_QUOTAS)


async def run(*words: str | Path, **environment: str) -> tuple[int, str]:
    """The exit code and the output of a program."""
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **environment},
    )
    try:
        async with asyncio.timeout(COMMAND_SECONDS):
            output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return process.returncode, output.decode()


@pytest.fixture
def features() -> str:
    """The features of the installation; a test may give others as its parameter."""
    return ""


@pytest.fixture
async def installed(
    node_cluster: NodeCluster,
    node_client: KubeClient,
    node_namespace: str,
    agent_image: str,
    s3_of_pods: S3Server,
    uploader: str,
    features: str,
    tmp_path: Path,
) -> AsyncIterator[Stage]:
    """An installation that is ready."""
    server = f"{node_namespace}-server"
    bucket = s3_of_pods.create_bucket("backups")
    password = tmp_path / "password"
    password.write_bytes(PASSWORD)
    config = ",".join(f"{name}={value}" for name, value in bucket.location_config.items())
    assert s3_of_pods.ca_file is not None
    words = [
        *("install", "-n", server, "--image", agent_image, "--use-restic", "--minimal-rbac", "--wait"),
        *(
            f"--uploader-type={uploader}",
            "--provider",
            "aws",
            "--bucket",
            bucket.name,
            "--prefix",
            "some/where",
        ),
        *("--backup-location-config", config, "--secret-file", str(s3_of_pods.credentials_file)),
        *("--cacert", str(s3_of_pods.ca_file), "--restic-password-file", str(password)),
        *("--velero-pod-cpu-request=10m", "--restic-pod-cpu-request=10m", "--use-volume-snapshots=false"),
        *("--repo-maintenance-job-configmap", "jobs"),
        *(("--features", features) if features else ()),
    ]
    kubeconfig = str(node_cluster.control_plane.kubeconfig)
    try:
        await create_settings_of_jobs(node_client, server)
        code, said = await run(PINNACE, *words, KUBECONFIG=kubeconfig)
        assert code == 0, said
        yield Stage(node_cluster, Site(node_client, server, tmp_path), node_namespace, tmp_path)
    finally:
        for resource, name in (
            (NAMESPACES, server),
            (CLUSTER_ROLE_BINDINGS, f"velero-{server}"),
            (CLUSTER_ROLES, f"velero-{server}"),
        ):
            try:
                await node_client.delete(resource, name)
            except NotFound:
                continue


async def create_settings_of_jobs(client: KubeClient, namespace: str) -> None:
    """Create the namespace of an installation, with a ConfigMap for its maintenance Jobs."""
    await client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    )
    settings = {"global": json.dumps({"podResources": {"cpuRequest": "10m"}})}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "jobs"}, "data": settings}
    await client.create(CONFIGMAPS, body, namespace)


@pytest.fixture
async def s3_of_pods(node_cluster: NodeCluster, tmp_path: Path) -> AsyncIterator[S3Server]:
    """A server that pods reach, by https with an authority of its own."""
    server = S3Server(tmp_path / "s3", tls=True, address=node_cluster.network.gateway)
    await asyncio.to_thread(server.start)
    yield server
    await asyncio.to_thread(server.remove)


@pytest.mark.spec("PVL-061")
async def test_an_installation_of_pods_alone_backs_up_and_restores(
    installed: Stage, s3_of_pods: S3Server
) -> None:
    stage = installed
    await stage.run_pod(volume_pod("p", "data", "more"), "data,more")
    await stage.fill("p", "echo one > /data/file; mkdir /more/deep; echo two > /more/deep/file")
    before = [await stage.content("p", volume) for volume in ("data", "more")]

    backup = await stage.back_up()
    assert backup["status"]["phase"] == "Completed", await what_happened(stage, backup)
    await stage.delete_app()
    restore = await stage.restore()

    assert restore["status"]["phase"] == "Completed", await what_happened(stage, restore)
    restored = await stage.pod("p")
    assert [await stage.content("p", volume) for volume in ("data", "more")] == before
    [helper] = restored["spec"]["initContainers"]
    assert helper["command"] == ["pinnace", "restore-helper"]
    mounts = [mount["mountPath"] for mount in helper["volumeMounts"] if "/restores" in mount["mountPath"]]
    assert mounts == ["/restores/data", "/restores/more"]
    assert 'restic_pod_volume_backup_dequeue_count{node="' in await metrics_of_agent(stage)
    pod_volumes = await stage.pod_volumes("podvolumebackups")
    await check_password(s3_of_pods, pod_volumes["data"]["spec"]["repoIdentifier"])
    await check_maintenance(stage)


@pytest.mark.spec("AFT-151")
@pytest.mark.parametrize("uploader", ["restic", "kopia"])
async def test_a_dry_run_says_which_files_a_restore_into_a_claim_changes(
    installed: Stage, uploader: str
) -> None:
    """First the pod of the claim runs; then nothing uses it, and only a pod with few rights is admitted."""
    stage, client, app = installed, installed.client, installed.app
    await add_local_volume(stage, f"kept-{app}", claimRef={"namespace": app, "name": "claim"})
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        },
    }
    await client.create(PERSISTENT_VOLUME_CLAIMS, claim, app)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
    await stage.run_pod(busybox_pod("p", mounts={"data": "/data"}, volumes=volumes), "data")
    await stage.fill("p", f"{FILES}chmod 700 /data/deep")
    backup = await stage.back_up()
    assert backup["status"]["phase"] == "Completed", await what_happened(stage, backup)
    await stage.fill(
        "p",
        "cd /data; echo other > one; rm deep/two; chmod 640 deep/large; ln -sfn /elsewhere dangling;"
        " mkdir more; echo extra > more/file; ln -s /etc more/link",
    )
    expected = {
        "created": ["deep/two"],
        "overwritten": ["dangling", "deep/large", "one"],
        "removed": ["more", "more/file", "more/link"],
        "extra": [],
        "notCompared": [],
    }

    code, in_use = await dry_run(stage)

    assert code == 3, in_use
    assert [each["files"] for each in in_use["files"]] == [expected]
    assert [pod["metadata"]["name"] for pod in await client.list_all(PODS, app)] == ["p"]
    before = await states(stage)
    await stage.delete_pod("p")
    await client.patch(NAMESPACES, app, {"metadata": {"labels": {ENFORCE: "restricted"}}})

    await interrupted_dry_run(stage, signal.SIGINT)
    assert await client.list_all(PODS, app) == []
    await interrupted_dry_run(stage, signal.SIGKILL)
    assert len(await client.list_all(PODS, app)) == 1, "the next command finds it"

    code, unused = await dry_run(stage)

    assert code == 0, unused
    assert unused["files"] == in_use["files"]
    assert unused["files"][0]["counts"]["same"] == 3
    assert await client.list_all(PODS, app) == []
    events = await client.list_all(EVENTS, app)
    started = [each["involvedObject"]["name"] for each in events if each["reason"] == "Started"]
    assert [name for name in started if name.startswith("pinnace-compare-")] != []
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    await client.create(QUOTAS, {**quota, "spec": {"hard": {"pods": "0"}}}, app)

    code, refused = await dry_run(stage)

    assert code == 1, refused
    assert "exceeded quota: none" in refused["files"][0]["error"]
    await client.delete(QUOTAS, "none", app)
    await client.patch(NAMESPACES, app, {"metadata": {"labels": {ENFORCE: None}}})
    restore = await stage.restore(
        existingVolumeDataPolicy="incremental", uploaderConfig={"deleteExtraFiles": True}
    )
    assert restore["status"]["phase"] == "Completed", await what_happened(stage, restore)
    await stage.pod("p")
    after = await states(stage)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed == {*expected["created"], *expected["overwritten"], "more/file", "more/link"}


@pytest.mark.parametrize(("uploader", "features"), [("kopia", "EnableCSI")])
async def test_a_dry_run_says_which_files_a_restore_of_moved_data_into_a_claim_changes(
    csi_storage: CSICluster, installed: Stage, uploader: str, features: str
) -> None:
    """The user has only the rights that the page of the node agent names."""
    stage, client, app = installed, installed.client, installed.app
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Mi"}},
            "storageClassName": CLASS,
        },
    }
    await client.create(PERSISTENT_VOLUME_CLAIMS, claim, app)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
    pod = busybox_pod("p", mounts={"data": "/data"}, volumes=volumes)
    await stage.run_pod(pod)
    # The tests' driver keeps only in its snapshots which files are executable.
    await stage.fill("p", "cd /data; mkdir deep; echo one > one; echo two > deep/two; echo three > three")
    backup = await stage.back_up(snapshotMoveData=True)
    assert backup["status"]["phase"] == "Completed", await what_happened(stage, backup)
    await stage.fill("p", "cd /data; echo other > one; rm -r deep; echo extra > extra")
    before = await states(stage)
    await stage.delete_pod("p")

    async with rights_of_a_dry_run(stage):
        code, found = await dry_run(stage, user=READER)

    assert code == 0, found
    [compared] = found["files"]
    changed = {name for names in compared["files"].values() for name in names}
    assert compared["files"]["created"] == ["deep", "deep/two"]
    assert changed == {"deep", "deep/two", "one", "extra"}
    assert compared["counts"]["same"] == 1
    assert await client.list_all(PODS, app) == []
    restore = await stage.restore(
        existingVolumeDataPolicy="incremental", uploaderConfig={"deleteExtraFiles": True}
    )
    assert restore["status"]["phase"] == "Completed", await what_happened(stage, restore)
    await stage.pod("p")
    after = await states(stage)
    assert {name for name in before | after if before.get(name) != after.get(name)} == changed - {"deep"}
    await stage.delete_pod("p")  # the kubelet gives its volume back while the driver runs


@asynccontextmanager
async def rights_of_a_dry_run(stage: Stage) -> AsyncIterator[None]:
    """The user `READER` may read the cluster, ask the server, and compare files."""
    client, server, group = stage.client, stage.site.namespace, "rbac.authorization.k8s.io"
    user = [{"kind": "User", "apiGroup": group, "name": READER}]
    rules = {
        server: [
            {
                "apiGroups": ["velero.io"],
                "resources": ["downloadrequests", "serverstatusrequests"],
                "verbs": ["create", "delete"],
            },
            {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
        ],
        stage.app: [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "delete"]}],
    }
    reads = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    name, role = f"{READER}-{stage.app}", f"{group}/v1"
    metadata = {"name": name}

    def binding(kind: str, of: str) -> JSONObject:
        reference = {"apiGroup": group, "kind": of, "name": name}
        return {
            "apiVersion": role,
            "kind": kind,
            "metadata": metadata,
            "roleRef": reference,
            "subjects": user,
        }

    made = {"apiVersion": role, "kind": "ClusterRole", "metadata": metadata, "rules": reads}
    await client.create(CLUSTER_ROLES, made)
    await client.create(CLUSTER_ROLE_BINDINGS, binding("ClusterRoleBinding", "ClusterRole"))
    for namespace, given in rules.items():
        made = {"apiVersion": role, "kind": "Role", "metadata": metadata, "rules": given}
        await client.create(known(kinds.ROLES), made, namespace)
        await client.create(known(kinds.ROLE_BINDINGS), binding("RoleBinding", "Role"), namespace)
    try:
        yield
    finally:
        await client.delete(CLUSTER_ROLE_BINDINGS, name)
        await client.delete(CLUSTER_ROLES, name)


def dry_run_words(stage: Stage) -> list[str]:
    """A dry run of the restore that is made later."""
    return [
        *("restore", "create", "-n", stage.site.namespace, "--from-backup", "b", "--dry-run", "-o", "json"),
        *("--existing-volume-data-policy", "incremental", "--delete-extra-files", "--compare-files"),
    ]


async def dry_run(stage: Stage, *, user: str = "") -> tuple[int, JSONObject]:
    """The exit code and the result of a dry run by the administrator, or by another user."""
    config = yaml.safe_load(stage.cluster.control_plane.kubeconfig.read_text())
    if user:
        config["users"][0]["user"]["as"] = user
    kubeconfig = stage.folder / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(yaml.safe_dump(config))
    code, said = await run(PINNACE, *dry_run_words(stage), KUBECONFIG=str(kubeconfig))
    _, brace, document = said.partition("\n{")
    assert brace, said
    found: JSONObject = json.loads(f"{{{document}")
    return code, found


async def interrupted_dry_run(stage: Stage, number: signal.Signals) -> None:
    """A dry run that gets a signal as soon as it has created its pod."""

    async def has_a_pod() -> bool:
        return bool(await stage.client.list_all(PODS, stage.app, label_selector=labels.COMPARES_FILES))

    process = await asyncio.create_subprocess_exec(
        PINNACE,
        *dry_run_words(stage),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "KUBECONFIG": str(stage.cluster.control_plane.kubeconfig)},
    )
    try:
        await eventually(has_a_pod)
        process.send_signal(number)
        async with asyncio.timeout(COMMAND_SECONDS):
            assert await process.wait() == (-signal.SIGKILL if number is signal.SIGKILL else 130)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def states(stage: Stage) -> dict[str, str]:
    """Type, permissions, owner, size, time and target of what the claim holds but directories, by name."""
    script = (
        "cd /data; find . -path ./.velero -prune -o ! -type d -exec stat -c '%n|%N %F %a %u:%g %s %y' {} +"
    )
    shown = await exec_in_pod(stage.client, stage.app, "p", "sh", "-c", script)
    found = dict(line.partition("|")[::2] for line in shown.splitlines())
    return {name.removeprefix("./"): state for name, state in found.items()}


async def check_maintenance(stage: Stage) -> None:
    """A repository that is due is maintained by the pod of a Job, with the server's image and rights."""
    client, namespace, kind = stage.client, stage.site.namespace, velero("backuprepositories")
    [repository] = await client.list_all(kind, namespace)
    name = repository["metadata"]["name"]
    due = {"status": {"lastMaintenanceTime": "2021-01-01T00:00:00Z"}}
    await client.patch(kind, name, due, namespace)
    for server in await client.list_all(PODS, namespace, label_selector="deploy=velero"):
        await client.delete(PODS, server["metadata"]["name"], namespace)  # a server looks when it starts

    async def is_noted() -> bool:
        return bool((await client.get(kind, name, namespace))["status"].get("recentMaintenance"))

    await eventually(is_noted)
    [done] = (await client.get(kind, name, namespace))["status"]["recentMaintenance"]
    assert done["result"] == "Succeeded", done
    [pod] = await client.list_all(PODS, namespace, label_selector=labels.REPOSITORY_NAME)
    [container] = pod["spec"]["containers"]
    assert (pod["status"]["phase"], container["resources"]["requests"]["cpu"]) == ("Succeeded", "10m")
    assert container["args"][0] == "repo-maintenance"


async def what_happened(stage: Stage, obj: JSONObject) -> str:
    """The status of an object, the restarts of server and agent, and their logs."""
    namespace, told = stage.site.namespace, [str(obj["status"])]
    for pod in await stage.client.list_all(PODS, namespace):
        name, path = pod["metadata"]["name"], f"/api/v1/namespaces/{namespace}/pods"
        for container in pod["status"].get("containerStatuses") or []:
            ended = container["restartCount"] and container.get("lastState")
            told.append(f"{name}: {container['restartCount']} restarts {ended or ''}")
            for previous in ("true", "false") if container["restartCount"] else ("false",):
                params = {"container": container["name"], "tailLines": "60", "previous": previous}
                log = await stage.client.request("GET", f"{path}/{name}/log", params=params, accept="*/*")
                told.append(log.decode(errors="replace"))
    return "\n".join(told)


async def metrics_of_agent(stage: Stage) -> str:
    namespace = stage.site.namespace
    pods = await stage.client.list_all(PODS, namespace, label_selector="name=node-agent")
    [name] = [pod["metadata"]["name"] for pod in pods]
    url = "http://127.0.0.1:8085/metrics"
    return await exec_in_pod(
        stage.client, namespace, name, "wget", "-q", "-O", "-", url, container="node-agent"
    )


async def check_password(s3: S3Server, repository: str) -> None:
    """The repository opens with the password of the installation, and with no other."""
    restic = shutil.which("restic")
    assert restic is not None
    for password, opens in ((PASSWORD.decode(), True), ("static-passw0rd", False)):
        code, said = await run(
            *(restic, "-r", repository, "--cacert", str(s3.ca_file), "--no-cache", "snapshots", "--json"),
            RESTIC_PASSWORD=password,
            AWS_SHARED_CREDENTIALS_FILE=str(s3.credentials_file),
            AWS_DEFAULT_REGION=s3.region,
        )
        assert (code == 0) is opens, said
