"""Which files of claims a restore changes: the agents that are asked, and the pods that mount claims."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import format_time
from pinnace.kube.errors import APIStatusError, Forbidden
from pinnace.kube.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
)
from pinnace.operations import file_comparison
from pinnace.operations.file_comparison import (
    LIFE_SECONDS,
    ComparedBackup,
    ComparedClaim,
    FileComparisons,
)
from pinnace.restore.collaborators import DataForClaim
from pinnace.volumes.comparison_request import ComparisonRequest
from pinnace.volumes.uploader.comparing import FileComparison, FileFate
from tests.support.clock import LeapingClock
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.cluster.scripted_objects import HOME
from tests.support.tasks import settled

ANSWER = FileComparison(counts={FileFate.CREATED: 1}, names={FileFate.CREATED: ["a"]})
NODE = {"nodeName": "n1"}


class AgentCluster(ScriptedCluster):
    """A cluster whose node agent answers.

    Attributes:
        asked: pod, command and container of each command.
        hangs, removals: what commands, and deletions, wait for.
        reply: gives the exit code, the output and the error output.
    """

    def __init__(self, clock: LeapingClock) -> None:
        super().__init__(clock)
        self.asked: list[tuple[str, Sequence[str], str]] = []
        self.reply: Callable[[], tuple[int, bytes, bytes]] = lambda: (0, msgspec.json.encode(ANSWER), b"")
        self.hangs: asyncio.Event | None = None
        self.removals: asyncio.Event | None = None

    async def delete(self, *place: Any, **options: Any) -> JSONObject:
        if self.removals is not None:
            await self.removals.wait()
        return await super().delete(*place, **options)

    async def exec(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str,
        stdout: Callable[[bytes], None],
        stderr: Callable[[bytes], None],
        timeout_seconds: float | None,
    ) -> int:
        self.asked.append((f"{namespace}/{pod}", command, container))
        if self.hangs is not None:
            await self.hangs.wait()
        code, output, said = self.reply()
        stdout(output)
        stderr(said)
        return code

    @property
    def comparison(self) -> ComparisonRequest:
        [(_, command, _)] = self.asked
        return msgspec.json.decode(command[-1], type=ComparisonRequest)


class World:
    """A node with a ready agent, and the claim `shop/data`.

    Attributes:
        told: what was said of pods that stay.
        pods: all pods that were made.
    """

    def __init__(self) -> None:
        self.clock = LeapingClock()
        self.cluster = AgentCluster(self.clock)
        self.told: list[str] = []
        self.pods: list[JSONObject] = []
        self.status: JSONObject = {"phase": "Running"}
        self.finalizers: list[str] = []
        self.cluster.add(NAMESPACES, "shop", None)
        self.cluster.add(PERSISTENT_VOLUME_CLAIMS, "data", "shop", status={"phase": "Bound"})
        containers = [{"name": "velero", "image": "registry/pinnace:1"}]
        self.cluster.add(DEPLOYMENTS, "velero", HOME, spec={"template": {"spec": {"containers": containers}}})
        self.agent("agent-1", "n1")
        self.cluster.on_create = self._made
        backup = ComparedBackup(name="b1", location="default", keep_unchanged=True, delete_extra=False)
        self.comparisons = FileComparisons(
            self.cluster.client, HOME, backup, tell=self.told.append, clock=self.clock
        )

    def agent(self, name: str, node: str, **container: Any) -> None:
        selector = {"matchLabels": {"name": "node-agent"}}
        if self.cluster.peek(DAEMON_SETS, "node-agent") is None:
            self.cluster.add(DAEMON_SETS, "node-agent", HOME, spec={"selector": selector})
        self.cluster.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": HOME, "labels": {"name": "node-agent"}},
                "spec": {
                    "nodeName": node,
                    "containers": [{"name": "node-agent", "command": ["pinnace"], **container}],
                },
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            }
        )

    def user(self, node: str) -> None:
        """A running pod that uses the claim."""
        volumes = [{"name": "files", "persistentVolumeClaim": {"claimName": "data"}}]
        spec = {"nodeName": node, "volumes": volumes}
        self.cluster.add(PODS, "db-0", "shop", spec=spec, status={"phase": "Running"})

    def _made(self, obj: JSONObject) -> None:
        if obj["kind"] == "Pod":
            self.pods.append(obj)
            key = obj["metadata"]["name"], "shop"
            metadata = {**obj["metadata"], "finalizers": self.finalizers}
            spec = {**obj["spec"], **NODE}
            self.cluster.change(PODS, *key, metadata=metadata, spec=spec, status=self.status)

    async def compared(self, *claims: str) -> list[ComparedClaim]:
        return await self.comparisons.of(
            DataForClaim(
                namespace="shop", claim=claim, uploader="kopia", snapshot="k1", saved_namespace="old-shop"
            )
            for claim in claims or ("data",)
        )

    @property
    def shop(self) -> list[str]:
        """The names of the pods of the namespace."""
        return [
            pod["metadata"]["name"] for pod in self.cluster.of(PODS) if pod["metadata"]["namespace"] == "shop"
        ]


@pytest.fixture
def world() -> World:
    return World()


async def test_the_claim_of_a_running_pod_is_compared_without_another_pod(world: World) -> None:
    world.user("n1")

    [found] = await world.compared()

    assert found == ComparedClaim(namespace="shop", claim="data", files=ANSWER)
    assert world.pods == []
    request = world.cluster.comparison
    assert (request.pod.name, request.pod.uid, request.volume) == ("db-0", "uid-db-0", "files")
    assert (request.namespace, request.location, request.snapshot) == ("old-shop", "default", "k1")
    assert (request.keep_unchanged, request.delete_extra) == (True, False)


async def test_a_claim_that_nothing_uses_is_mounted_read_only_by_a_pod_with_few_rights_that_is_removed(
    world: World,
) -> None:
    [found] = await world.compared()

    assert found.files == ANSWER
    [pod] = world.pods
    spec, [container] = pod["spec"], pod["spec"]["containers"]
    assert spec["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}
    ]
    assert container["volumeMounts"] == [{"name": "data", "mountPath": "/volume", "readOnly": True}]
    assert container["image"] == "registry/pinnace:1"
    assert container["securityContext"]["runAsNonRoot"] is True
    assert spec["automountServiceAccountToken"] is False
    assert spec["activeDeadlineSeconds"] == LIFE_SECONDS
    [near] = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert (near["namespaces"], near["labelSelector"]) == ([HOME], {"matchLabels": {"name": "node-agent"}})
    assert world.cluster.comparison.pod.name == pod["metadata"]["name"]
    assert (world.shop, world.told) == ([], [])


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            {
                "phase": "Pending",
                "containerStatuses": [
                    {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "denied"}}}
                ],
            },
            "cannot start: ImagePullBackOff: denied",
        ),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "message": "no node fits"}],
            },
            "it was not mounted within 3 minutes: its pod is not scheduled: no node fits",
        ),
        ({"phase": "Pending"}, "it was not mounted within 3 minutes: disk is attached elsewhere"),
        ({"phase": "Failed", "message": "evicted"}, "ended: evicted"),
    ],
    ids=["image", "scheduling", "mount", "ended"],
)
async def test_a_pod_that_does_not_run_is_the_error_of_its_claim_and_is_removed(
    world: World, status: JSONObject, said: str
) -> None:
    world.status = status

    def event(obj: JSONObject) -> None:
        world._made(obj)
        of_pod = {"uid": obj["metadata"]["uid"], "name": obj["metadata"]["name"]}
        members = {"type": "Warning", "message": "disk is attached elsewhere"}
        world.cluster.add(EVENTS, "e", "shop", involvedObject=of_pod, **members)

    world.cluster.on_create = lambda obj: event(obj) if obj["kind"] == "Pod" else None

    [found] = await world.compared()

    assert said in found.error
    assert (found.files, world.shop, world.cluster.asked) == (None, [], [])


async def test_what_fails_for_one_claim_leaves_the_others(world: World) -> None:
    world.cluster.add(
        PERSISTENT_VOLUME_CLAIMS, "raw", "shop", spec={"volumeMode": "Block"}, status={"phase": "Bound"}
    )
    world.cluster.add(PERSISTENT_VOLUME_CLAIMS, "lost", "shop", status={"phase": "Lost"})

    found = await world.compared("data", "raw", "lost", "gone")

    assert [(each.claim, each.is_device, each.files) for each in found] == [
        ("data", False, ANSWER),
        ("gone", False, None),
        ("lost", False, None),
        ("raw", True, None),
    ]
    assert "the claim is Lost" in found[2].error
    assert '"gone" not found' in found[1].error


async def test_a_pod_that_is_refused_is_the_error_of_its_claim(world: World) -> None:
    refusal = Forbidden(403, reason="Forbidden", message="exceeded quota: few")
    world.cluster.refuse("create", "pods", refusal)

    [found] = await world.compared()

    assert "exceeded quota: few" in found.error
    assert world.told == []


@pytest.mark.parametrize("node", ["n2", ""], ids=["of the pod", "of all"])
async def test_a_node_without_a_ready_agent_is_named(world: World, node: str) -> None:
    world.user("n2")
    if not node:
        world.cluster.change(PODS, "agent-1", HOME, status={"phase": "Running"})

    [found] = await world.compared()

    expected = "no node agent runs on the node n2" if node else "none of the pods of the DaemonSet"
    assert expected in found.error
    assert world.pods == []


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ((1, b"", b"An error occurred: no such snapshot\n"), "did not compare it: no such snapshot"),
        ((2, b"", b"Error: no such command"), "it may be of another version than this command"),
        ((0, b"<html>", b""), "cannot be read"),
        ((0, b'{"counts":{"created":"many"},"names":{}}', b""), "cannot be read"),
    ],
    ids=["error", "unknown command", "no JSON", "other JSON"],
)
async def test_an_agent_that_does_not_answer_is_the_error_of_the_claim(
    world: World, reply: tuple[int, bytes, bytes], said: str
) -> None:
    world.cluster.reply = lambda: reply

    [found] = await world.compared()

    assert said in found.error
    assert world.shop == []


async def test_the_agent_is_called_as_its_own_container_is(world: World) -> None:
    world.cluster.vanish(PODS, "agent-1", HOME)
    arguments = ["node-agent", "--host-pods=/var/pods", "--log-level=debug"]
    world.agent("agent-2", "n1", command=["/opt/pinnace"], args=arguments)

    await world.compared()

    [(pod, command, container)] = world.cluster.asked
    assert (pod, container) == (f"{HOME}/agent-2", "node-agent")
    assert list(command[:4]) == ["/opt/pinnace", "compare-files", "--host-pods=/var/pods", "--request"]


async def test_the_pod_is_removed_when_the_command_is_interrupted(world: World) -> None:
    world.cluster.hangs = asyncio.Event()
    comparing = asyncio.create_task(world.compared())
    await settled()
    assert len(world.shop) == 1

    comparing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await comparing

    assert (world.shop, world.told) == ([], [])


async def test_a_pod_that_cannot_be_removed_is_told_with_the_command_for_it(world: World) -> None:
    world.cluster.refuse("delete", "pods", APIStatusError(500, message="etcd is full"))

    [found] = await world.compared()

    assert found.files == ANSWER
    [told] = world.told
    assert "etcd is full" in told
    assert f"kubectl -n shop delete pod/{world.shop[0]}" in told


@pytest.mark.parametrize("hangs", [True, False], ids=["server", "node"])
async def test_a_removal_that_does_not_end_is_told_after_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    monkeypatch.setattr(file_comparison, "REMOVAL_SECONDS", 0.01)
    monkeypatch.setattr(file_comparison, "_REQUEST_SECONDS", 0.01)
    if hangs:
        world.cluster.removals = asyncio.Event()
    else:
        world.finalizers = ["a/finalizer"]

    [found] = await world.compared()

    assert found.files == ANSWER
    [told] = world.told
    assert ("does not answer" if hangs else "its node did not end it") in told


async def test_pods_that_killed_commands_have_left_are_removed_and_no_others(world: World) -> None:
    now = world.clock.now()

    def add(name: str, age_seconds: float, phase: str = "Running", **marks: str) -> None:
        world.cluster.add(PODS, name, "shop", labels=marks, status={"phase": phase})
        made = format_time(now - timedelta(seconds=age_seconds))
        metadata = world.cluster.stored(PODS, name, "shop")["metadata"]
        world.cluster.change(PODS, name, "shop", metadata={**metadata, "creationTimestamp": made})

    add("of-this-backup", 1, **{labels.COMPARES_FILES: "b1"})
    add("of-another", 1, **{labels.COMPARES_FILES: "b2"})
    add("old", LIFE_SECONDS + 1, **{labels.COMPARES_FILES: "b2"})
    add("ended", 1, "Failed", **{labels.COMPARES_FILES: "b2"})
    add("application", LIFE_SECONDS + 1)

    await world.comparisons.remove_left()

    assert sorted(world.shop) == ["application", "of-another"]


async def test_a_pod_that_was_left_for_the_claim_itself_is_replaced(world: World) -> None:
    """Whoever may not list the pods of all namespaces finds it by its name."""
    await world.compared()
    name = world.pods[0]["metadata"]["name"]
    world.cluster.add(PODS, name, "shop", labels={labels.COMPARES_FILES: "b2"}, status={"phase": "Failed"})
    world.cluster.refuse("list", ("pods", "", ""), Forbidden(403, reason="Forbidden", message="no"))
    world.cluster.asked.clear()

    await world.comparisons.remove_left()
    [found] = await world.compared()

    assert found.files == ANSWER
    assert world.shop == []
