"""The action that lets pods wait for their volumes."""

import asyncio
import copy
import logging

import pytest

from pinnace import __version__
from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.catalogue.pod_volumes import SavedPodVolumes, pod_volumes
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import APIResource
from pinnace.plugins.builtin.restore.config import ActionError
from pinnace.plugins.builtin.restore.helper_container import configured_image, helper_container
from pinnace.plugins.builtin.restore.init_hooks import AddInitContainers
from pinnace.plugins.builtin.restore.pod_volumes import WaitForPodVolumes
from pinnace.plugins.protocols import RestoreItemInput

UID = "uid-of-the-restore"
DEFAULTS = {
    "requests": {"cpu": "100m", "memory": "128Mi"},
    "limits": {"cpu": "100m", "memory": "128Mi"},
}


class Cluster:
    """PodVolumeBackups, the ConfigMap of the action, and workloads by name."""

    def __init__(self, *orders: JSONObject, configs: int = 1, config: dict[str, str] | None = None) -> None:
        self.orders = list(orders)
        self.configs = [{"metadata": {"name": f"c{number}"}, "data": config} for number in range(configs)]
        self.later: list[JSONObject] = []
        self.workloads = {"velero": "registry.example.com/pinnace:v1"}
        self.selectors: list[str] = []

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        await asyncio.sleep(0)  # as a request, which lets other tasks run
        if name not in self.workloads:
            raise NotFound(404, message="not found")
        return {"spec": {"template": {"spec": {"containers": [{"image": self.workloads[name]}]}}}}

    async def list_all(
        self, resource: APIResource, namespace: str | None = None, *, label_selector: str = ""
    ) -> list[JSONObject]:
        assert namespace == "velero"
        self.selectors.append(label_selector)
        if resource.name == "configmaps":
            if label_selector == "velero.io/plugin-config,velero.io/pod-volume-restore=RestoreItemAction":
                return self.later
            assert label_selector == "velero.io/plugin-config,velero.io/restic=RestoreItemAction"
            return self.configs
        raise AssertionError(f"nothing asks for {resource.name}")

    @property
    def saved(self) -> SavedPodVolumes:
        return SavedPodVolumes(pod_volumes(self.orders))


def saved(
    volume: str, *, snapshot: str = "2fa3b4c5", pod: str = "p", namespace: str = "ns", uploader: str = ""
) -> JSONObject:
    return {
        "metadata": {"name": f"b-{volume}"},
        "spec": {
            "pod": {"name": pod, "namespace": namespace},
            "volume": volume,
            "uploaderType": uploader,
        },
        "status": {"snapshotID": snapshot},
    }


def a_pod(*init_containers: str, **annotations: str) -> JSONObject:
    spec: JSONObject = {"containers": [{"name": "main"}], "volumes": []}
    if init_containers:
        spec["initContainers"] = [{"name": name, "image": "old"} for name in init_containers]
    metadata: JSONObject = {"name": "p", "namespace": "ns", "annotations": annotations}
    return {"metadata": metadata, "spec": spec}


def with_projected(pod: JSONObject, name: str) -> JSONObject:
    pod["spec"]["volumes"].append({"name": name, "projected": {}})
    return pod


def restore_of(backup: str = "b") -> Restore:
    return Restore(metadata=ObjectMeta(name="r", uid=UID), spec=RestoreSpec(backup_name=backup))


async def run(
    cluster: Cluster, pod: JSONObject, *, filled: bool = True, original: str = "ns", backup: str = "b"
) -> list[JSONObject]:
    """The init containers that a pod comes out with."""
    action = WaitForPodVolumes(cluster, "velero", cluster.saved if filled else None)
    from_backup = {"metadata": {"name": "p", "namespace": original}}
    given = RestoreItemInput(item=pod, item_from_backup=from_backup, restore=restore_of(backup))
    output = await action.execute(given)
    found: list[JSONObject] = output.item["spec"].get("initContainers", [])
    return found


def names(containers: list[JSONObject]) -> list[str]:
    return [container["name"] for container in containers]


@pytest.mark.spec("PVL-059", "PVL-060")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((), ["restic-wait"]),
        (("a", "b"), ["restic-wait", "a", "b"]),
        (("restic-wait", "a"), ["restic-wait", "a"]),
        (("a", "restic-wait"), ["restic-wait", "a"]),
        (("restore-wait", "a"), ["restic-wait", "a"]),
        (("restic-wait", "a", "restic-wait"), ["restic-wait", "a"]),
    ],
)
async def test_the_container_is_the_first_and_the_only_one_that_waits(
    before: tuple[str, ...], after: list[str]
) -> None:
    containers = await run(Cluster(saved("data")), a_pod(*before))

    assert names(containers) == after
    assert containers[0]["image"] == "registry.example.com/pinnace:v1"
    assert containers[0]["args"] == [UID]


@pytest.mark.parametrize("name", ["restic-wait", "restore-wait"])
@pytest.mark.parametrize("filled", [True, False])
async def test_the_container_of_an_earlier_restore_is_removed(filled: bool, name: str) -> None:
    cluster = Cluster() if filled else Cluster(saved("data"))

    assert names(await run(cluster, a_pod("a", name), filled=filled)) == ["a"]
    untouched = a_pod()
    assert await run(cluster, untouched, filled=filled) == []
    assert "initContainers" not in untouched["spec"]


@pytest.mark.spec("PVL-061", "PVL-062", "PVL-063", "PVL-064")
@pytest.mark.parametrize(
    ("orders", "pod", "original", "mounted"),
    [
        (
            [saved("vol-2"), saved("vol-1")],
            a_pod(**{f"{labels.POD_SNAPSHOT_PREFIX}x": "1"}),
            "ns",
            ["vol-1", "vol-2"],
        ),
        ([], a_pod(**{f"{labels.POD_SNAPSHOT_PREFIX}myvol": ""}), "ns", ["myvol"]),
        ([saved("data", namespace="original-ns")], a_pod(), "original-ns", ["data"]),
        ([saved("data", namespace="ns")], a_pod(), "original-ns", []),
        ([saved("data", pod="q")], a_pod(), "ns", []),
        (
            [saved("token"), saved("none", snapshot="")],
            with_projected(a_pod(), "token"),
            "ns",
            [],
        ),
    ],
    ids=["saved-wins", "annotation", "mapped", "other-namespace", "other-pod", "projected-and-empty"],
)
async def test_a_pod_waits_for_its_volumes_with_data_in_the_backup(
    orders: list[JSONObject], pod: JSONObject, original: str, mounted: list[str]
) -> None:
    containers = await run(Cluster(*orders), pod, original=original)

    mounts = [mount for container in containers for mount in container["volumeMounts"]]
    assert mounts == [{"name": name, "mountPath": f"/restores/{name}"} for name in mounted]


async def test_no_pod_waits_for_the_data_of_another_uploader() -> None:
    cluster = Cluster(saved("a", uploader="other"))
    pod = a_pod(**{"snapshot.velero.io/a": "an id of old"})

    assert await run(cluster, pod) == []

    cluster.orders.append(saved("b", uploader="restic"))
    [container] = await run(cluster, pod)
    assert container["name"] == "restic-wait"


@pytest.mark.spec("RST-103")
async def test_the_container_stands_before_those_of_init_hooks() -> None:
    """In the order in which actions run."""
    pod = a_pod("restic-wait", "own", **{labels.INIT_RESTORE_HOOK_CONTAINER_IMAGE: "hook"})
    given = RestoreItemInput(item=pod, item_from_backup=pod, restore=restore_of())
    hooked = await AddInitContainers().execute(given)

    containers = await run(Cluster(saved("data")), hooked.item)

    assert [container["image"] for container in containers[1:]] == ["hook", "old"]
    assert containers[0]["name"] == "restic-wait"


# --- The image --------------------------------------------------------------------------------------------


@pytest.mark.spec("API-020", "PVL-065")
@pytest.mark.parametrize(
    ("given", "image"),
    [
        ("", None),
        ("my-image", None),
        ("myregistry.io/my-image", f"myregistry.io/my-image:v{__version__}"),
        ("myregistry.io:34567/my-image", f"myregistry.io:34567/my-image:v{__version__}"),
        ("myregistry.io:34567/my-image:my-tag", "myregistry.io:34567/my-image:my-tag"),
    ],
)
def test_a_configured_image_is_used_if_it_is_valid(given: str, image: str | None) -> None:
    assert configured_image({"image": given}) == image


@pytest.mark.parametrize(
    ("config", "workloads", "image", "command"),
    [
        ({}, {"velero": "r/p:1", "restic": "r/p:2"}, "r/p:1", ["pinnace", "restore-helper"]),
        ({}, {"restic": "r/p:2"}, "r/p:2", ["pinnace", "restore-helper"]),
        ({}, {}, "velero/velero-restic-restore-helper:v1.6.3", ["/velero-restic-restore-helper"]),
        ({"image": "r/own:1"}, {"velero": "r/p:1"}, "r/own:1", ["/velero-restic-restore-helper"]),
        ({"image": "r/own:1", "command": "/x y"}, {}, "r/own:1", ["/x y"]),
        ({"image": "own"}, {"velero": "r/p:1"}, "r/p:1", ["pinnace", "restore-helper"]),
    ],
)
async def test_image_and_command_are_configured_or_those_of_the_server(
    config: dict[str, str], workloads: dict[str, str], image: str, command: list[str]
) -> None:
    cluster = Cluster(saved("data"), config=config)
    cluster.workloads = workloads

    [container] = await run(cluster, a_pod())

    assert (container["image"], container["command"]) == (image, command)


async def test_pods_restored_side_by_side_all_get_the_image_of_the_server() -> None:
    cluster = Cluster(saved("data"))
    action, restore = WaitForPodVolumes(cluster, "velero", cluster.saved), restore_of()

    async def image() -> str:
        pod = a_pod()
        given = RestoreItemInput(item=pod, item_from_backup=a_pod(), restore=restore)
        [container] = (await action.execute(given)).item["spec"]["initContainers"]
        return str(container["image"])

    assert set(await asyncio.gather(image(), image(), image())) == {"registry.example.com/pinnace:v1"}


async def test_the_config_map_of_velero_1_10_and_later_is_taken_in_place_of_the_older_one() -> None:
    cluster = Cluster(saved("data"), config={"image": "r/old:1", "cpuLimit": "1"})
    cluster.later = [{"metadata": {"name": "l"}, "data": {"image": "r/later:1"}}]

    [container] = await run(cluster, a_pod())

    assert (container["image"], container["command"]) == ("r/later:1", ["/velero-restore-helper"])
    assert container["resources"]["limits"]["cpu"] == "100m"


@pytest.mark.spec("API-020")
async def test_two_config_maps_are_an_error() -> None:
    with pytest.raises(ActionError, match=r"found more than one ConfigMap matching .*: \[c0 c1\]"):
        await run(Cluster(saved("data"), configs=2), a_pod())


# --- The container ----------------------------------------------------------------------------------------


RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
    "runAsNonRoot": True,
    "runAsUser": 1000,
}


def container_of(pod_spec: JSONObject | None = None, /, **config: str) -> JSONObject:
    return helper_container(
        config, pod_spec or {}, image="i", command=["c"], restore_uid=UID, volumes=["b", "a"]
    )


def test_the_container_as_a_whole() -> None:
    assert container_of() == {
        "name": "restic-wait",
        "image": "i",
        "command": ["c"],
        "args": [UID],
        "env": [
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "resources": DEFAULTS,
        "securityContext": RESTRICTED,
        "volumeMounts": [
            {"name": "b", "mountPath": "/restores/b"},
            {"name": "a", "mountPath": "/restores/a"},
        ],
    }


@pytest.mark.spec("PVL-066", "PVL-067")
@pytest.mark.parametrize(
    ("quantities", "resources"),
    [
        ("200m,,,", DEFAULTS),
        ("0,0,0,0", {}),
        ("100m,128Mi,0,256Mi", {"requests": DEFAULTS["requests"], "limits": {"memory": "256Mi"}}),
        ("100m,invalid,200m,256Mi", DEFAULTS),
        ("100m,512Mi,200m,256Mi", DEFAULTS),
        ("50m,64Mi,,", {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": DEFAULTS["limits"]}),
    ],
)
def test_valid_resources_of_the_config_map_are_used(
    quantities: str, resources: JSONObject, caplog: pytest.LogCaptureFixture
) -> None:
    keys = ("cpuRequest", "memRequest", "cpuLimit", "memLimit")

    found = container_of(**dict(zip(keys, quantities.split(","), strict=True)))["resources"]

    assert found == resources
    assert bool(caplog.records) is (resources == DEFAULTS)


@pytest.mark.spec("PVL-068")
@pytest.mark.parametrize(
    ("user", "group", "escalation", "context", "logged"),
    [
        (
            "1001",
            "999",
            "false",
            {"runAsUser": 1001, "runAsGroup": 999, "allowPrivilegeEscalation": False},
            0,
        ),
        ("1001", "x", "true", {"runAsUser": 1001}, 1),
        ("1_0", "1", "true", RESTRICTED, 1),
        ("", "5", "T", {"runAsGroup": 5, "allowPrivilegeEscalation": True}, 0),
        ("7", "", "yes", {"runAsUser": 7}, 1),
    ],
)
def test_a_security_context_is_used_up_to_the_first_invalid_value(
    user: str, group: str, escalation: str, context: JSONObject, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    given = {
        "secCtxRunAsUser": user,
        "secCtxRunAsGroup": group,
        "secCtxAllowPrivilegeEscalation": escalation,
    }

    assert container_of(**given)["securityContext"] == context
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * logged


FIRST = {"runAsUser": 7, "capabilities": {"drop": ["ALL"]}}
WHOLE = """
runAsNonRoot: true
runAsUser: 1001
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
seLinuxOptions: {level: "s0:c1,c2"}
"""


def spec_of(first: JSONObject | None = None, **of_pod: object) -> JSONObject:
    """A pod whose first container has this security context, and the pod that one."""
    containers: list[JSONObject] = [{"name": "main"}, {"name": "other", "securityContext": {"runAsUser": 8}}]
    if first is not None:
        containers[0]["securityContext"] = first
    return {"containers": containers, "securityContext": of_pod}


@pytest.mark.spec("AFT-172")
@pytest.mark.found("U1", "V08", "V08b")
@pytest.mark.parametrize(
    ("config", "pod_spec", "context"),
    [
        (
            {"secCtx": WHOLE},
            spec_of(FIRST, runAsUser=9),
            {
                **{key: RESTRICTED[key] for key in RESTRICTED if key != "runAsUser"},
                "runAsUser": 1001,
                "seLinuxOptions": {"level": "s0:c1,c2"},
            },
        ),
        (
            {"secCtx": "runAsUser: 3", "secCtxRunAsUser": "4", "secCtxRunAsGroup": "5"},
            spec_of(FIRST),
            {"runAsUser": 3, "runAsGroup": 5},
        ),
        ({"secCtxRunAsUser": "4"}, spec_of(FIRST), {"runAsUser": 4}),
        ({}, spec_of(FIRST, runAsUser=9), FIRST),
        (
            {},
            spec_of(None, runAsUser=1000620000, runAsGroup=6),
            {**RESTRICTED, "runAsUser": 1000620000, "runAsGroup": 6},
        ),
        ({}, spec_of(None, runAsGroup=6), {**RESTRICTED, "runAsGroup": 6}),
        (
            {},
            spec_of(None, runAsUser=0),
            {**{key: RESTRICTED[key] for key in RESTRICTED if key != "runAsNonRoot"}, "runAsUser": 0},
        ),
        (
            {},
            spec_of(None, runAsUser=0, runAsNonRoot=False),
            {**RESTRICTED, "runAsUser": 0, "runAsNonRoot": False},
        ),
        ({}, spec_of(), RESTRICTED),
        ({}, {"containers": "odd", "securityContext": ["odd"]}, RESTRICTED),
    ],
    ids=[
        "configured whole",
        "whole over single keys",
        "single key",
        "first container",
        "user and group of the pod",
        "group of the pod",
        "root",
        "root, said twice",
        "nothing said",
        "odd",
    ],
)
def test_the_security_context_is_configured_or_that_of_the_pod(
    config: dict[str, str], pod_spec: JSONObject, context: JSONObject, caplog: pytest.LogCaptureFixture
) -> None:
    before = copy.deepcopy(pod_spec)

    found = container_of(pod_spec, **config)["securityContext"]
    assert found == context
    assert not caplog.records

    found["capabilities"] = "changed later by another action"
    assert pod_spec == before


@pytest.mark.found("U1")
@pytest.mark.parametrize(
    "given",
    ["runAsUser: many", "runAsUzer: 1", "[]", "a: b: c", "capabilities: {dropp: [ALL]}", "runAsUser: '1'"],
)
def test_a_whole_security_context_that_is_not_valid_is_logged_and_not_used(
    given: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert container_of(spec_of(FIRST), secCtx=given)["securityContext"] == FIRST

    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert "secCtx" in record.getMessage()


async def test_the_container_gets_the_security_context_of_the_pod_that_it_is_added_to() -> None:
    pod = a_pod()
    pod["spec"]["containers"][0]["securityContext"] = {"runAsUser": 1000}

    [container] = await run(Cluster(saved("data")), pod)

    assert container["securityContext"] == {"runAsUser": 1000}


@pytest.mark.found("DOC16")
async def test_a_pod_on_a_windows_node_gets_no_container_that_cannot_run_there() -> None:
    pod = a_pod()
    pod["spec"]["nodeSelector"] = {"kubernetes.io/os": "windows"}

    assert await run(Cluster(saved("data")), pod) == []
