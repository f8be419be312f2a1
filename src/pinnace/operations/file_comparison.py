"""Says which files of claims that exist a restore would change, for a dry run. (docs/adr/122)

    claim of a running pod ─────────────────────────────> the agent of its node compares
    claim that nothing uses ──> a pod mounts it, read-only ──────┘   └──> that pod is removed

The agent compares, as it will write: it sees the volume below the kubelet's directory, and has the password
of the repository. So the pod that mounts a claim reads nothing and may do nothing, in any namespace.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from hashlib import sha256
from typing import Final

import msgspec

from pinnace.aio.blocking import finish, not_interrupted
from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.timing import poll
from pinnace.api import labels
from pinnace.api.meta import ObjectReference
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.api.values.times import parse_time
from pinnace.csi.movement.objects import BLOCK, VOLUME, holding_container, holding_spec, why_pod_ended
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import DeadlineExceeded, Forbidden, KubeError, NotFound
from pinnace.kube.resources import EVENTS, PERSISTENT_VOLUME_CLAIMS, PODS
from pinnace.restore.collaborators import DataForClaim
from pinnace.volumes.comparison_request import COMMAND, LIMIT_SECONDS, MOST_ANSWER_BYTES, ComparisonRequest
from pinnace.volumes.node_agents import ROLE, NodeAgents, SeenAgents, server_image, why_no_image
from pinnace.volumes.pods.claim_users import users_of
from pinnace.volumes.pods.pod_claims import claim_name
from pinnace.volumes.uploader.comparing import FileComparison
from pinnace.volumes.uploader.output import Tail

AT_ONCE: Final = 4
MOUNT_SECONDS: Final = 180.0
"""How long a claim may take to be mounted: a disk is attached to a node, and an image may be pulled."""
REMOVAL_SECONDS: Final = 60.0
LIFE_SECONDS: Final = 900
"""How long a pod lives that nobody removes; longer than it can take until it is not needed any more."""
_ANSWER_SECONDS: Final = LIMIT_SECONDS + 90.0
_REQUEST_SECONDS: Final = 10.0
_SAID_BYTES: Final = 4096
_HOST_PODS: Final = "--host-pods"
_ENDED: Final = ("Succeeded", "Failed")
_ERROR_PREFIX: Final = "An error occurred: "


class ComparedClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim that exists, and its files.

    Attributes:
        files: None for a device, and after an error.
        is_device: whether the restore writes the whole device, so that there are no files to compare.
        error: why its files were not compared; empty if they were.
    """

    namespace: str
    claim: str
    files: FileComparison | None = None
    is_device: bool = False
    error: str = ""


class ComparedBackup(msgspec.Struct, frozen=True, kw_only=True):
    """The backup, and how a restore writes its data.

    Attributes:
        location: the name of its location.
        keep_unchanged, delete_extra: as in `Target`.
    """

    name: str
    location: str
    keep_unchanged: bool
    delete_extra: bool


class _NotCompared(Exception):
    """The files of one claim are not compared; the text says why."""


class FileComparisons:
    """Compares the files of claims.

    Args:
        namespace: the server's.
        tell: called with a text about a pod that could not be removed.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        backup: ComparedBackup,
        *,
        tell: Callable[[str], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._backup = backup
        self._tell = tell
        self._clock = clock
        self._agents = NodeAgents(client, namespace)
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def remove_left(self) -> None:
        """Remove the pods of commands that were killed: those for this backup, and all that are old.

        Call it first, as they use claims.

        Raises:
            KubeError
        """
        try:
            pods = await self._client.list_all(PODS, label_selector=labels.COMPARES_FILES)
        except Forbidden:
            return  # those in the way are removed by name, and all end by themselves
        before = self._clock.now() - timedelta(seconds=LIFE_SECONDS)
        own = labels.label_value(self._backup.name)
        for pod in pods:
            metadata = pod["metadata"]
            is_own = metadata["labels"][labels.COMPARES_FILES] == own
            has_ended = text(pod, "status", "phase") in _ENDED
            if is_own or has_ended or parse_time(metadata["creationTimestamp"]) < before:
                await self._remove(metadata["namespace"], metadata["name"])

    async def of(self, wanted: Iterable[DataForClaim]) -> list[ComparedClaim]:
        """Compare the files of claims. What fails for one claim is an error of that one."""
        seen = await self._agents.look()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._compared(seen, data)) for data in wanted]
        return sorted((task.result() for task in tasks), key=lambda found: (found.namespace, found.claim))

    async def _compared(self, seen: SeenAgents, data: DataForClaim) -> ComparedClaim:
        found = ComparedClaim(namespace=data.namespace, claim=data.claim)
        async with self._slots:
            try:
                claim = await self._client.get(PERSISTENT_VOLUME_CLAIMS, data.claim, data.namespace)
                if text(claim, "spec", "volumeMode") == BLOCK:
                    return msgspec.structs.replace(found, is_device=True)
                if (phase := text(claim, "status", "phase")) != "Bound":
                    raise _NotCompared(f"the claim is {phase or 'Pending'}, so that nothing can mount it")
                files = await self._files(seen, data, claim)
            except (_NotCompared, KubeError) as error:
                return msgspec.structs.replace(found, error=str(error))
        return msgspec.structs.replace(found, files=files)

    async def _files(self, seen: SeenAgents, data: DataForClaim, claim: JSONObject) -> FileComparison:
        agents = seen.ready()
        if not agents:
            raise _NotCompared(str(await self._agents.why_none()))
        users = users_of(data.claim, await self._client.list_all(PODS, data.namespace))
        running = [pod for pod in users if text(pod, "status", "phase") == "Running" and not _is_going(pod)]
        for pod in running:
            if (node := text(pod, "spec", "nodeName")) in agents:
                return await self._ask(agents[node], data, pod, _volume_of(pod, data.claim))
        if running:
            raise _NotCompared(await self._agents.why_none_on(text(running[0], "spec", "nodeName")))
        async with self._mounted(seen, data, claim) as pod:
            node = text(pod, "spec", "nodeName")
            if node not in agents:
                raise _NotCompared(f"no node agent is ready on the node {node}, where the volume is")
            return await self._ask(agents[node], data, pod, VOLUME)

    async def _ask(
        self, agent: JSONObject, data: DataForClaim, pod: JSONObject, volume: str
    ) -> FileComparison:
        """Have an agent compare the volume of a pod on its node. Raises _NotCompared, KubeError."""
        metadata, [container, *_] = pod["metadata"], objects(agent, "spec", "containers")
        wanted = ComparisonRequest(
            pod=ObjectReference(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"]),
            volume=volume,
            location=self._backup.location,
            namespace=data.saved_namespace,
            uploader=data.uploader,
            snapshot=data.snapshot,
            keep_unchanged=self._backup.keep_unchanged,
            delete_extra=self._backup.delete_extra,
        )
        given = [each for each in container.get("args") or () if str(each).startswith(f"{_HOST_PODS}=")]
        program = (container.get("command") or ["pinnace"])[0]
        command = [program, COMMAND, *given, "--request", msgspec.json.encode(wanted).decode()]
        answer, said, name = _Answer(), Tail(_SAID_BYTES), agent["metadata"]["name"]
        code = await self._client.exec(
            self._namespace,
            name,
            command,
            container=container["name"],
            stdout=answer.feed,
            stderr=said.feed,
            timeout_seconds=_ANSWER_SECONDS,
        )
        why = " ".join(said.text.removeprefix(_ERROR_PREFIX).split())
        if code:
            hint = "" if _ERROR_PREFIX in said.text else " (it may be of another version than this command)"
            raise _NotCompared(f"the node agent {self._namespace}/{name} did not compare it{hint}: {why}")
        try:
            return msgspec.json.decode(answer.data, type=FileComparison)
        except msgspec.DecodeError as error:
            raise _NotCompared(
                f"the answer of the node agent {self._namespace}/{name} cannot be read, as it may be of"
                f" another version: {error}"
            ) from error

    # --- The pod that mounts a claim ----------------------------------------------------------------------

    @asynccontextmanager
    async def _mounted(
        self, seen: SeenAgents, data: DataForClaim, claim: JSONObject
    ) -> AsyncIterator[JSONObject]:
        """A running pod that has the claim mounted, removed in any case. Raises _NotCompared, KubeError."""
        image = await server_image(self._client, self._namespace, seen.daemon_set)
        if not image:
            raise _NotCompared(why_no_image(self._namespace))
        body = self._pod(seen, data, claim, image)
        namespace, name = data.namespace, body["metadata"]["name"]
        await self._remove(namespace, name)
        try:
            making = self._client.create(PODS, body, namespace)
            made = await not_interrupted(making, grace_seconds=_REQUEST_SECONDS)
            yield await self._running(made)
        finally:
            try:
                limit = REMOVAL_SECONDS + _REQUEST_SECONDS
                await finish(self._remove(namespace, name), limit_seconds=limit)
            except (KubeError, TimeoutError) as error:
                self._left(namespace, name, str(error) or "the API server does not answer")

    def _pod(self, seen: SeenAgents, data: DataForClaim, claim: JSONObject, image: str) -> JSONObject:
        container = holding_container(image)
        container["volumeMounts"] = [{"name": VOLUME, "mountPath": "/volume", "readOnly": True}]
        spec = holding_spec(container, {"claimName": data.claim, "readOnly": True})
        spec["activeDeadlineSeconds"] = LIFE_SECONDS
        marks = (seen.daemon_set.pod_labels if seen.daemon_set is not None else None) or ROLE
        near = {
            "labelSelector": {"matchLabels": dict(marks)},
            "namespaces": [self._namespace],
            "topologyKey": labels.HOSTNAME,
        }
        spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
        # One name for each claim, so that what a killed command has left is found without listing pods.
        digest = sha256(claim["metadata"]["uid"].encode()).hexdigest()[:10]
        metadata = {
            "name": f"pinnace-compare-{digest}",
            "labels": {labels.COMPARES_FILES: labels.label_value(self._backup.name)},
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    async def _running(self, made: JSONObject) -> JSONObject:
        """The pod once it runs. Raises _NotCompared, KubeError."""
        metadata, last = made["metadata"], made

        async def is_running() -> bool:
            nonlocal last
            try:
                last = await self._client.get(PODS, metadata["name"], metadata["namespace"])
            except NotFound:
                last = {}
            if last.get("metadata", {}).get("uid") != metadata["uid"] or _is_going(last):
                raise _NotCompared(f"its pod {metadata['name']} was deleted by somebody else")
            if why := why_pod_ended(last):
                raise _NotCompared(f"its pod {metadata['name']} {why}")
            return text(last, "status", "phase") == "Running"

        if not await poll(is_running, clock=self._clock, timeout_seconds=MOUNT_SECONDS):
            why = await self._why_waiting(last)
            raise _NotCompared(f"it was not mounted within {MOUNT_SECONDS / 60:g} minutes: {why}")
        return last

    async def _why_waiting(self, pod: JSONObject) -> str:
        """Why a pod does not run, by its conditions and its last event, which do not outlive it."""
        for condition in objects(pod, "status", "conditions"):
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                return f"its pod is not scheduled: {text(condition, 'message') or 'no reason is given'}"
        metadata = pod["metadata"]
        selector = f"involvedObject.uid={metadata['uid']},type=Warning"
        with suppress(KubeError):
            events = await self._client.list_all(EVENTS, metadata["namespace"], field_selector=selector)
            if events:
                return max(events, key=_time_of).get("message") or "no reason is given"
        return f"its pod is {text(pod, 'status', 'phase') or 'Pending'}"

    def _left(self, namespace: str, name: str, why: str) -> None:
        self._tell(
            f"The pod {namespace}/{name}, which had a claim mounted for the dry run, was not removed: {why}."
            f" It ends by itself; remove it with: kubectl -n {namespace} delete pod/{name}"
        )

    async def _remove(self, namespace: str, name: str) -> None:
        """Delete a pod of a dry run, and wait until its volume is unmounted; others are left alone.

        Raises:
            KubeError: that is not known; DeadlineExceeded if it takes too long.
        """

        async def is_gone() -> bool:
            try:
                found = await self._client.get(PODS, name, namespace)
            except NotFound:
                return True
            if labels.COMPARES_FILES not in mapping(found, "metadata", "labels"):
                return True
            if not _is_going(found):
                with suppress(NotFound):
                    await self._client.delete(PODS, name, namespace, uid=found["metadata"]["uid"])
            return False

        if not await poll(is_gone, clock=self._clock, timeout_seconds=REMOVAL_SECONDS):
            raise DeadlineExceeded(
                f"the pod {namespace}/{name} was deleted, and its node did not end it within"
                f" {REMOVAL_SECONDS:g} seconds"
            )


class _Answer:
    """Keeps an answer up to its limit."""

    def __init__(self) -> None:
        self.data = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Take a part. Raises _NotCompared if it gets too long."""
        self.data += chunk
        if len(self.data) > MOST_ANSWER_BYTES:
            raise _NotCompared(f"the answer of the node agent is longer than {MOST_ANSWER_BYTES} bytes")


def _is_going(pod: JSONObject) -> bool:
    return "deletionTimestamp" in mapping(pod, "metadata")


def _volume_of(pod: JSONObject, claim: str) -> str:
    """The name of the volume of a pod that is a claim."""
    return next(
        text(volume, "name") for volume in objects(pod, "spec", "volumes") if claim_name(pod, volume) == claim
    )


def _time_of(event: JSONObject) -> str:
    return text(event, "lastTimestamp") or text(event, "eventTime")
