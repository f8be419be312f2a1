"""A restore on trial: into namespaces made for it, which are removed afterwards in any case.

    scratch namespaces made, closed off ──> restored ──> pods waited for ──> everything removed
                       └───────────── error, cancellation ────────────────────────┘

The originals are out of reach by what the API server and the network enforce, not by what is in the backup:
pods get neither host paths nor the host's network (Pod Security `baseline`), nor network beyond the scratch
namespaces (a NetworkPolicy, where the network plugin honours it). Only kinds that pods need are restored,
each claim gets a new volume, and Services are reachable in the cluster only. (docs/adr/032)
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec
import orjson

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.timing import poll
from pinnace.api import kinds, labels, phases
from pinnace.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.phases import RestorePhase
from pinnace.api.values.counts import counted
from pinnace.api.values.times import parse_time
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.browse.checks import Check, CheckResult
from pinnace.csi.objects import delete_content
from pinnace.csi.snapshots import SNAPSHOTS, SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import Conflict, Forbidden, KubeError, NotFound
from pinnace.kube.resources import NAMESPACES, NETWORK_POLICIES, PERSISTENT_VOLUMES, PODS
from pinnace.operations.deletion import summary
from pinnace.operations.verification.readiness import WORKLOADS, WorkloadState, states

PREFIX: Final = "pinnace-verify"

TRIED: Final = kinds.group_resources(
    kinds.PODS,
    kinds.REPLICATION_CONTROLLERS,
    kinds.DEPLOYMENTS,
    kinds.REPLICA_SETS,
    kinds.STATEFUL_SETS,
    kinds.DAEMON_SETS,
    kinds.CONFIGMAPS,
    kinds.SECRETS,
    kinds.SERVICE_ACCOUNTS,
    kinds.SERVICES,
    kinds.PERSISTENT_VOLUME_CLAIMS,
    kinds.LIMIT_RANGES,
    kinds.ROLES,
    kinds.ROLE_BINDINGS,
)
"""The kinds that are restored: pods and what they need. Jobs are left out, as their work would be done twice;
so is what acts outside of its namespace: ingresses, custom resources, everything cluster-scoped."""

NEVER_TRIED: Final = frozenset({"kube-system", "kube-public", "kube-node-lease"})

_JOB_LABELS: Final = ("batch.kubernetes.io/job-name", "job-name")
_ISOLATED: Final = {
    "pod-security.kubernetes.io/enforce": "baseline",
    "pod-security.kubernetes.io/enforce-version": "latest",
}
_CLOSED: Final[JSONObject] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": PREFIX},
}
_ENFORCED_SECONDS: Final = 30.0
_REMOVAL_SECONDS: Final = 180.0
_POLL_SECONDS: Final = 2.0


class TrialImpossible(Exception):
    """The restore on trial cannot begin safely; nothing was restored. The text says why."""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a restore.

    Attributes:
        phase: the terminal phase; empty if it did not end in time.
        problems: errors and, first, why it failed or was refused.
        warnings: how many.
    """

    phase: str
    problems: Sequence[str] = ()
    warnings: int = 0


class Restorer(Protocol):
    """Makes a restore, in this process or by a server."""

    async def restore(self, restore: Restore, rules: JSONObject) -> Restored:
        """Make it, with these resource modifiers. Raises KubeError, StorageError and what the run refuses."""
        ...

    async def discard(self, name: str) -> Sequence[str]:
        """Remove the records of the restore, which must have ended; return the names of those that stay."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One restore on trial.

    Attributes:
        run: distinguishes this trial from others.
        namespaces: the namespaces of the backup that are restored.
        ready_seconds: how long pods may take to be ready.
        tell: called with a text about objects that could not be removed.
    """

    client: KubeClient
    discovery: Discovery
    restorer: Restorer
    backup: str
    run: str
    namespaces: Sequence[str]
    ready_seconds: float = 300.0
    tell: Callable[[str], None] = field(default=lambda text: None)
    clock: Clock = SYSTEM_CLOCK

    @property
    def name(self) -> str:
        """The name of the restore; the names of all scratch namespaces begin with it."""
        return f"{PREFIX}-{self.run}"

    @property
    def mapping(self) -> Mapping[str, str]:
        """The scratch namespace of each namespace."""
        return {
            namespace: f"{self.name}-{number}-{namespace}"[:63].rstrip("-")
            for number, namespace in enumerate(self.namespaces)
        }

    async def findings(self) -> list[Check]:
        """Try the restore, and remove it again.

        Raises:
            TrialImpossible: the cluster cannot keep it apart from the originals.
            KubeError, StorageError: the cluster or the location could not be used.
        """
        if not self.namespaces:
            return [
                Check(name="trial restore", result=CheckResult.NOT_CHECKED, details="no namespace to restore")
            ]
        async with self._scratch():
            restored = await self.restorer.restore(self._restore(), modifier_rules())
            found = [_finding_of(restored)]
            if restored.phase in phases.FINISHED:
                found += await self._came_up()
        return found

    def _restore(self) -> Restore:
        snapshots = SnapshotKinds.served(self.discovery)
        return Restore(
            metadata=ObjectMeta(
                name=self.name, labels={labels.VERIFICATION: labels.label_value(self.backup)}
            ),
            spec=RestoreSpec(
                backup_name=self.backup,
                included_namespaces=list(self.namespaces),
                included_resources=[*TRIED, *([] if snapshots is None else [SNAPSHOTS])],
                namespace_mapping=dict(self.mapping),
                include_cluster_resources=False,
                label_selector=LabelSelector(
                    match_expressions=[
                        LabelSelectorRequirement(key=key, operator="DoesNotExist") for key in _JOB_LABELS
                    ]
                ),
            ),
        )

    # --- Waiting ----------------------------------------------------------------------------------------

    async def _came_up(self) -> list[Check]:
        last: list[WorkloadState] = []

        async def all_up() -> bool:
            last[:] = await self._states()
            return all(state.is_up for state in last)

        await poll(
            all_up,
            clock=self.clock,
            timeout_seconds=self.ready_seconds,
            longest_pause_seconds=_POLL_SECONDS,
        )
        original = {scratch: namespace for namespace, scratch in self.mapping.items()}
        return [
            Check(
                name=f"{state.kind} {original[state.namespace]}/{state.name}",
                result=CheckResult.OK if state.is_up else CheckResult.BAD,
                details=state.detail,
            )
            for state in last
        ] or [Check(name="trial pods", result=CheckResult.OK, details="there are none in these namespaces")]

    async def _states(self) -> list[WorkloadState]:
        found: dict[str, list[JSONObject]] = {}
        for resource in WORKLOADS:
            found[resource.name] = [
                obj
                for namespace in self.mapping.values()
                for obj in await self.client.list_all(resource, namespace)
            ]
        return list(states(found))

    # --- Scratch namespaces -----------------------------------------------------------------------------

    @asynccontextmanager
    async def _scratch(self) -> AsyncIterator[None]:
        try:
            for namespace in self.mapping.values():
                await self._make(namespace)
            await self._check_enforcement(next(iter(self.mapping.values())))
            yield
        finally:
            await self._remove()

    async def _make(self, namespace: str) -> None:
        own_labels = {labels.VERIFICATION: labels.label_value(self.backup)}
        own = {**own_labels, f"{labels.VERIFICATION}-run": self.run}
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {**own, **_ISOLATED}},
        }
        await _to_its_end(self.client.create(NAMESPACES, body))
        peers = [{"namespaceSelector": {"matchLabels": {f"{labels.VERIFICATION}-run": self.run}}}]
        names = [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]
        spec = {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": peers}],
            "egress": [{"to": peers}, {"ports": names}],
        }
        await self.client.create(NETWORK_POLICIES, {**_CLOSED, "spec": spec}, namespace)

    async def _check_enforcement(self, namespace: str) -> None:
        """Ask the API server to refuse a pod with a host path, in a dry run. Raises TrialImpossible."""
        pod: JSONObject = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": PREFIX},
            "spec": {
                "containers": [{"name": "c", "image": "none"}],
                "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
            },
        }
        refusal = ""

        async def is_decided() -> bool:
            nonlocal refusal
            try:
                await self.client.create(PODS, pod, namespace, dry_run=True)
            except Forbidden as error:
                refusal = str(error)
                return "PodSecurity" in refusal
            refusal = ""
            return True

        # Without its service account, which a controller makes, no pod of a new namespace is admitted.
        await poll(is_decided, clock=self.clock, timeout_seconds=_ENFORCED_SECONDS)
        if "PodSecurity" not in refusal:
            reason = f" ({refusal})" if refusal else ""
            raise TrialImpossible(
                "the API server does not enforce Pod Security, so that restored pods could use directories of"
                f" the nodes together with the originals{reason}; Kubernetes 1.25 and later do"
            )

    async def _remove(self) -> None:
        """Remove everything; `tell` gets the names of objects that stay."""
        try:
            async with asyncio.timeout(2 * _REMOVAL_SECONDS):
                left = list(await self.restorer.discard(self.name))
                contents = await self._keep_snapshots()
                left += await self._release_volumes()
                for namespace in await self._made():
                    metadata = namespace["metadata"]
                    with suppress(NotFound, Conflict):
                        await self.client.delete(NAMESPACES, metadata["name"], uid=metadata["uid"])
                gone = await poll(
                    self._are_gone,
                    clock=self.clock,
                    timeout_seconds=_REMOVAL_SECONDS,
                    longest_pause_seconds=_POLL_SECONDS,
                )
                if not gone:
                    left.append("the namespaces are still being deleted")
                left += await self._remove_contents(contents)
        except (KubeError, TimeoutError) as error:
            left = [str(error) or "the API server took too long"]
        if left:
            self.tell(
                f"The restore on trial {self.name} was not removed entirely: {summary(left)}. Look with:"
                f" kubectl get namespaces -l {labels.VERIFICATION}-run={self.run}"
            )

    async def _are_gone(self) -> bool:
        return not await self._made()

    async def _made(self) -> list[JSONObject]:
        """The namespaces of this trial, and no others that may have their names."""
        return await self.client.list_all(NAMESPACES, label_selector=f"{labels.VERIFICATION}-run={self.run}")

    async def _keep_snapshots(self) -> list[str]:
        """The contents of restored CSI snapshots; none of them takes its snapshot along when it goes."""
        kinds = SnapshotKinds.served(self.discovery)
        if kinds is None:
            return []
        scratch, found = set(self.mapping.values()), []
        for content in await self.client.list_all(kinds.contents):
            if text(content, "spec", "volumeSnapshotRef", "namespace") in scratch:
                name = content["metadata"]["name"]
                found.append(name)
                if text(content, "spec", "deletionPolicy") != "Retain":
                    await self.client.patch(kinds.contents, name, {"spec": {"deletionPolicy": "Retain"}})
        return found

    async def _remove_contents(self, names: Sequence[str]) -> list[str]:
        kinds = SnapshotKinds.served(self.discovery)
        problems = []
        for name in names:
            assert kinds is not None, "they were listed"
            try:
                await delete_content(self.client, kinds, name)
            except KubeError as error:
                problems.append(f"VolumeSnapshotContent {name}: {error}")
        return problems

    async def _release_volumes(self) -> list[str]:
        """Let volumes that were provisioned for the trial go with their claims, whatever their class says.

        Returns:
            The others, which were there before, and may keep a copy of the data.
        """
        scratch = {each["metadata"]["name"]: each for each in await self._made()}
        found = list[str]()
        for volume in await self.client.list_all(PERSISTENT_VOLUMES):
            namespace = scratch.get(text(volume, "spec", "claimRef", "namespace"))
            if namespace is None:
                continue
            if not is_provisioned_for(namespace, volume):
                found.append(
                    f"PersistentVolume {volume['metadata']['name']}, which a claim of the trial took"
                )
            elif text(volume, "spec", "persistentVolumeReclaimPolicy") == "Retain":
                patch = {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}
                with suppress(NotFound, Conflict):
                    await self.client.patch(PERSISTENT_VOLUMES, volume["metadata"]["name"], patch)
        return found


def is_provisioned_for(namespace: JSONObject, volume: JSONObject) -> bool:
    """Whether a volume was made for a claim in a namespace, not taken by it: it is not older."""
    provisioned = labels.PV_PROVISIONED_BY in mapping(volume, "metadata", "annotations")
    made = [parse_time(text(each, "metadata", "creationTimestamp")) for each in (namespace, volume)]
    return provisioned and made[0] <= made[1]


async def _to_its_end(request: Coroutine[Any, Any, JSONObject]) -> None:
    """Wait for a request even when cancelled: what it creates must be there before it is removed."""
    task = asyncio.ensure_future(request)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def modifier_rules() -> JSONObject:
    """The resource modifiers of every trial, as the data of their ConfigMap."""

    def rule(resource: str, patch: JSONObject, **matches: str) -> JSONObject:
        conditions: JSONObject = {"groupResource": resource}
        if matches:
            conditions["matches"] = [
                {"path": f"/spec/{key}", "value": f'"{matches[key]}"'} for key in matches
            ]
        return {"conditions": conditions, "mergePatches": [{"patchData": orjson.dumps(patch).decode()}]}

    addresses = dict.fromkeys(("externalIPs", "loadBalancerIP", "healthCheckNodePort"))
    balanced = dict.fromkeys(
        (
            "externalTrafficPolicy",
            "allocateLoadBalancerNodePorts",
            "loadBalancerClass",
            "loadBalancerSourceRanges",
        )
    )
    inside = {"spec": {"type": "ClusterIP", **balanced}}
    bound = dict.fromkeys((labels.PV_BIND_COMPLETED, labels.PV_BOUND_BY_CONTROLLER))
    document = {
        "version": "v1",
        "resourceModifierRules": [
            rule(kinds.SERVICES.group_resource, {"metadata": {"annotations": None}, "spec": addresses}),
            rule(kinds.SERVICES.group_resource, inside, type="LoadBalancer"),
            rule(kinds.SERVICES.group_resource, inside, type="NodePort"),
            rule(
                kinds.PERSISTENT_VOLUME_CLAIMS.group_resource,
                {"metadata": {"annotations": bound}, "spec": {"volumeName": None}},
            ),
        ],
    }
    return {"rules.yaml": orjson.dumps(document).decode()}


def _finding_of(restored: Restored) -> Check:
    check = "trial restore"
    if restored.phase == RestorePhase.COMPLETED:
        detail = counted(restored.warnings, "warning") if restored.warnings else "completed"
        return Check(name=check, result=CheckResult.OK, details=detail)
    phase = restored.phase or "did not end in time"
    return Check(name=check, result=CheckResult.BAD, details=f"{phase}: {summary(restored.problems)}")
