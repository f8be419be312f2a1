"""Hooks in pods that really run: around a backup, and after a restore into another namespace."""

import asyncio
import json
import resource
import time
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube import exec as kube_exec
from pinnace.kube.errors import ExecTimeout, KubeError, ServerFault
from pinnace.kube.exec import PROTOCOLS
from pinnace.kube.resources import PODS
from tests.support.cluster.applications import Application
from tests.support.cluster.crds import ensure_crds
from tests.support.cluster.pods import busybox_pod, exec_in_pod, run_pod
from tests.support.servers.sites import Site, running
from tests.support.waiting import eventually


def shell(script: str) -> str:
    return json.dumps(["/bin/sh", "-c", script])


def around_backup(**fields: str) -> dict[str, str]:
    """`pre_command`, `post_on_error`, ... as annotations."""
    found = {}
    for name, text in fields.items():
        phase, _, rest = name.partition("_")
        found[f"{phase}.hook.backup.velero.io/{rest.replace('_', '-')}"] = text
    return found


def after_restore(kind: str, **fields: str) -> dict[str, str]:
    return {f"{kind}.hook.restore.velero.io/{name.replace('_', '-')}": text for name, text in fields.items()}


def line_with(log: str, text: str) -> str:
    (line,) = [line for line in log.splitlines() if text in line]
    return line


# --- commands themselves ----------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_command_returns_its_output_and_exit_code_or_fails(
    application: Application, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_exec, "PROTOCOLS", (protocol,))
    client, namespace = application.client, application.namespace
    await application.run_pod(busybox_pod("p"))
    out, err = bytearray(), bytearray()

    async def run(*command: str, timeout_seconds: float = 30) -> int:
        return await client.exec(
            namespace,
            "p",
            command,
            container="main",
            stdout=out.extend,
            stderr=err.extend,
            timeout_seconds=timeout_seconds,
        )

    assert await run("sh", "-c", "printf 'für \"a b\"'; echo no >&2; exit 7") == 7
    assert (out.decode(), err.decode()) == ('für "a b"', "no\n")
    with pytest.raises(ServerFault, match=r"executable file not found|no such file"):
        await run("/bin/nosuch")
    begun = time.monotonic()
    with pytest.raises(ExecTimeout):
        await run("sleep", "3600", timeout_seconds=1)
    assert time.monotonic() - begun < 60
    with pytest.raises(KubeError, match="container nosuch is not valid"):
        await exec_in_pod(client, namespace, "p", "true", container="nosuch")


# --- around a backup --------------------------------------------------------------------------------------


async def test_hooks_run_around_a_pod_and_their_output_is_in_the_log(application: Application) -> None:
    annotations = around_backup(
        pre_command=shell("echo eingefroren für $HOSTNAME > /tmp/frozen; cat /tmp/frozen; echo careful >&2"),
        post_command=shell("mv /tmp/frozen /tmp/thawed && ls /tmp"),
    )
    await application.run_pod(busybox_pod("db"), **annotations)

    log = await application.back_up()

    assert application.backup["phase"] == "Completed"
    before, after = [line for line in log.splitlines() if "Output of hook" in line]
    assert "hookPhase=pre" in before
    assert 'stdout="eingefroren für db\\n"' in before
    assert 'stderr="careful\\n"' in before
    assert "hookPhase=post" in after
    assert 'stdout="thawed\\n"' in after
    await application.restore()
    assert application.restored["phase"] == "Completed"
    await application.compare("db")


@pytest.mark.spec("BKP-057")
async def test_a_pod_whose_pre_hook_must_succeed_and_fails_is_left_out(application: Application) -> None:
    must_succeed = around_backup(pre_command=shell("echo why >&2; exit 3"), pre_on_error="Fail")
    await application.run_pod(busybox_pod("a"), **must_succeed)
    await application.run_pod(
        busybox_pod("b"), **around_backup(pre_command="/bin/false", pre_on_error="Continue")
    )
    await application.run_pod(busybox_pod("c"))
    await application.run_pod(
        busybox_pod("d"), **around_backup(post_command="/bin/false", post_on_error="Fail")
    )

    log = await application.back_up()

    assert application.backup["phase"] == "PartiallyFailed"
    assert application.backup["errors"] == 5
    assert "command terminated with exit code 3" in log
    assert 'stderr="why\\n"' in log
    assert application.saved_pods() == ["b", "c", "d"]
    await application.restore()
    assert application.restored["phase"] == "Completed"
    await application.compare("b", "c", "d")


async def test_a_hook_that_hangs_times_out(application: Application) -> None:
    annotations = around_backup(
        pre_command=shell("echo begun; sleep 3600"), pre_timeout="5s", pre_on_error="Continue"
    )
    await application.run_pod(busybox_pod("p"), **annotations)

    log = await application.back_up()

    assert application.backup["phase"] == "PartiallyFailed"
    assert "timed out after 5s" in line_with(log, "Error executing hook")
    assert 'stdout="begun\\n"' in log
    await application.restore()
    await application.compare("p")


async def test_a_hook_that_prints_50_mb_harms_nothing(application: Application) -> None:
    count = 50_000_000
    script = f"echo first; head -c {count} /dev/zero | tr '\\0' x; echo; echo last"
    await application.run_pod(busybox_pod("p"), **around_backup(pre_command=shell(script), pre_timeout="2m"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    log = await application.back_up()

    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert application.backup["phase"] == "Completed", log[-5000:]
    output = line_with(log, "Output of hook")
    left_out = len("first\n") + count + len("\nlast\n") - 65536
    assert 'stdout="first\\nxxx' in output
    assert f"[... {left_out} bytes left out ...]" in output
    assert 'xxx\\nlast\\n"' in output
    assert grown_kib < 32 * 1024
    await application.restore()
    await application.compare("p")


async def test_a_pod_deleted_during_its_hook_is_saved_and_the_hook_fails(application: Application) -> None:
    client, namespace = application.client, application.namespace
    annotations = around_backup(
        pre_command=shell("touch /tmp/begun; sleep 3600"), pre_timeout="2m", pre_on_error="Continue"
    )
    await application.run_pod(busybox_pod("p"), **annotations)

    backing_up = asyncio.create_task(application.back_up())

    async def begun() -> bool:
        listed = await exec_in_pod(client, namespace, "p", "ls", "/tmp")
        return "begun" in listed

    await eventually(begun)
    await client.delete(PODS, "p", namespace)
    log = await backing_up

    assert application.backup["phase"] == "PartiallyFailed"
    error = line_with(log, "Error executing hook")
    assert "command terminated with exit code" in error or "ended before the command did" in error
    assert application.saved_pods() == ["p"]
    await application.restore()
    restored = await application.client.get(PODS, "p", application.copy)
    assert (
        restored["spec"]["containers"][0]["command"] == busybox_pod("p")["spec"]["containers"][0]["command"]
    )


@pytest.mark.found("X1")
async def test_hooks_of_the_spec_run_in_chosen_containers_and_not_in_ended_pods(
    application: Application,
) -> None:
    two = busybox_pod("two")
    second = {**two["spec"]["containers"][0], "name": "second"}
    two["spec"]["containers"].append(second)
    two["metadata"]["labels"] = {"app": "db"}
    await application.run_pod(two)
    ended = busybox_pod("ended", "exit 0")
    ended["metadata"]["labels"] = {"app": "done"}
    await application.client.create(PODS, ended, application.namespace)

    async def has_ended() -> bool:
        pod = await application.client.get(PODS, "ended", application.namespace)
        return bool(pod["status"]["phase"] == "Succeeded")

    await eventually(has_ended)

    def entry(name: str, app: str, **hook: Any) -> JSONObject:
        selector = {"matchLabels": {"app": app}}
        return {"name": name, "labelSelector": selector, "pre": [{"exec": hook}]}

    hooks = [
        entry("first", "db", command=["hostname"]),
        entry("chosen", "db", command=["sh", "-c", "echo in second"], container="second"),
        entry("none", "db", command=["true"], container="third", onError="Continue"),
        entry("late", "done", command=["true"], onError="Continue"),
    ]
    log = await application.back_up(hooks={"resources": hooks})

    assert "hookContainer=main" in line_with(log, 'stdout="two\\n"')
    assert "hookContainer=second" in line_with(log, 'stdout="in second\\n"')
    assert "no such container" in line_with(log, "hookName=none")
    assert "name=ended" in line_with(log, "The pre hooks of this pod are not run, as it has ended")
    assert "hookName=late" not in log
    assert application.backup["errors"] == 1
    await application.restore()
    await application.compare("two")


# --- after a restore --------------------------------------------------------------------------------------


@pytest.mark.spec("RST-095", "RST-097")
async def test_init_and_exec_hooks_run_in_restored_pods(application: Application) -> None:
    pod = busybox_pod(
        "p", volumes=[{"name": "data", "emptyDir": {}}], mounts={"data": "/data"}, restartPolicy="Never"
    )
    image = pod["spec"]["containers"][0]["image"]
    await application.run_pod(
        pod, **after_restore("post", command=shell("cat /data/from-init; echo exec >> /data/from-init"))
    )
    await application.back_up()
    init = {
        "name": "prepare",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", "echo init > /data/from-init"],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    group = {"name": "h", "postHooks": [{"init": {"initContainers": [init]}}]}

    log = await application.restore(hooks={"resources": [group]})

    assert application.restored["phase"] == "Completed"
    assert 'stdout="init\\n"' in line_with(log, "Output of hook")
    restored = await application.client.get(PODS, "p", application.copy)
    assert [each["name"] for each in restored["spec"]["initContainers"]] == ["prepare"]
    text = await exec_in_pod(application.client, application.copy, "p", "cat", "/data/from-init")
    assert text == "init\nexec\n"
    await application.compare("p")


@pytest.mark.spec("RST-096", "RST-101")
async def test_a_hook_that_had_to_succeed_is_an_error_and_ends_the_others(application: Application) -> None:
    await application.run_pod(
        busybox_pod("a"), **after_restore("post", command=shell("exit 4"), on_error="Fail")
    )
    # Its container cannot start in the copy: the config map that it needs is left out there.
    waiting = busybox_pod("b")
    waiting["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "needed"}}]
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "needed"}, "data": {"A": "b"}}
    path = f"/api/v1/namespaces/{application.namespace}/configmaps"
    await application.client.request("POST", path, body=json.dumps(data).encode())
    await application.run_pod(waiting, **after_restore("post", command="/bin/true", on_error="Fail"))
    await application.back_up()

    await application.restore(includedResources=["pods"])

    assert application.restored["phase"] == "PartiallyFailed"
    first, second = sorted(application.results()["errors"]["velero"])
    copy = application.copy
    assert first == (
        f"pod {copy}/a: Hook <from-annotation> in container main failed: command terminated with exit code 4"
    )
    assert second == (
        f"pod {copy}/b: Hook <from-annotation> in container main in pod {copy}/b not executed: "
        "a restore hook failed: context canceled"
    )


@pytest.mark.spec("RST-098", "API-037")
async def test_a_container_that_never_starts_ends_the_wait(application: Application) -> None:
    needy = busybox_pod("p")
    needy["spec"]["containers"][0]["envFrom"] = [{"secretRef": {"name": "needed"}}]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "needed"}}
    path = f"/api/v1/namespaces/{application.namespace}/secrets"
    await application.client.request("POST", path, body=json.dumps(secret).encode())
    annotations = after_restore("post", command="/bin/true", on_error="Fail", wait_timeout="30s")
    await application.run_pod(needy, **annotations)
    await application.back_up()

    await application.restore()

    (error,) = application.results()["errors"]["velero"]
    why = "the phase of the pod is Pending; main: CreateContainerConfigError"
    assert error.endswith(f"not executed: {why}: context deadline exceeded")
    await application.compare("p")


async def test_hooks_of_many_pods_run_in_order(application: Application) -> None:
    names = [f"p{number}" for number in range(4)]
    await asyncio.gather(
        *(run_pod(application.client, application.namespace, busybox_pod(name)) for name in names)
    )
    await application.back_up()
    commands = [["sh", "-c", f"echo {number} >> /tmp/order"] for number in range(3)]
    hooks: list[JSONObject] = [{"exec": {"command": command, "onError": "Fail"}} for command in commands]
    group = {"name": "h", "includedNamespaces": [application.copy], "postHooks": hooks}

    await application.restore(hooks={"resources": [group]})

    assert application.restored["phase"] == "Completed"
    for name in names:
        order = await exec_in_pod(application.client, application.copy, name, "cat", "/tmp/order")
        assert order.split() == ["0", "1", "2"]
    await application.compare(*names)


# --- with a server ----------------------------------------------------------------------------------------


async def test_a_server_runs_hooks_too(application: Application, tmp_path: Path) -> None:
    client = application.client
    annotations = around_backup(pre_command=shell("touch /tmp/frozen"))
    annotations |= after_restore("post", command=shell("touch /tmp/restored"), on_error="Fail")
    await application.run_pod(busybox_pod("p"), **annotations)
    await ensure_crds(client)
    site = Site(client, application.namespace, tmp_path)
    await site.add_folder(default=True)
    async with running(client, application.namespace, tmp_path):
        await site.reached("backupstoragelocations", "default", "Available")
        wanted = {"includedNamespaces": [application.namespace], "includedResources": ["pods"]}
        await site.create("backups", "b", spec=wanted)
        backup = await site.reached("backups", "b")
        mapping = {application.namespace: application.copy}
        await site.create("restores", "r", spec={"backupName": "b", "namespaceMapping": mapping})
        restore = await site.reached("restores", "r")
    assert backup["status"]["phase"] == "Completed"
    assert restore["status"]["phase"] == "Completed"
    assert await exec_in_pod(client, application.namespace, "p", "ls", "/tmp") == "frozen\n"
    assert await exec_in_pod(client, application.copy, "p", "ls", "/tmp") == "restored\n"
    await application.compare("p")
