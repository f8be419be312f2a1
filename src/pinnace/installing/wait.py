"""`install --wait`: waits until all workloads are ready, or the timeout is reached. (docs/spec: CLI 11.3)"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import parse_time
from pinnace.installing.errors import InstallError
from pinnace.installing.observer import InstallObserver
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import DAEMON_SETS, DEPLOYMENTS, APIResource
from pinnace.nonadmin import manifests

POLL_SECONDS = 1.0
OBSERVATIONS: Final = 5
"""How often in a row a workload must be ready: a server that crashes at its start looks ready in between."""
STEADY: Final = timedelta(seconds=10)

NOT_PROCESSED: Final = "no controller has processed it yet"

DEPLOYMENT_SECONDS = 180.0
DAEMON_SET_SECONDS = 60.0

Judge = Callable[[JSONObject, datetime], str]
"""Returns why an object is not ready; empty if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wait:
    what: str
    resource: APIResource
    judge: Judge
    seconds: float


async def wait_for_workloads(
    client: KubeClient, made: Sequence[JSONObject], observer: InstallObserver
) -> None:
    """Wait for the objects that run pods. Raises InstallError that says what is missing."""
    waits = {
        "Deployment": _Wait(
            what="deployment", resource=DEPLOYMENTS, judge=deployment_lacks, seconds=DEPLOYMENT_SECONDS
        ),
        "DaemonSet": _Wait(
            what="node agent daemonset",
            resource=DAEMON_SETS,
            judge=daemon_set_lacks,
            seconds=DAEMON_SET_SECONDS,
        ),
    }
    for obj in made:
        if obj["kind"] in waits:
            wait, name = waits[obj["kind"]], obj["metadata"]["name"]
            what = f"self-service {wait.what}" if name == manifests.DEPLOYMENT else wait.what
            observer.say(f"Waiting for Pinnace {what} to be ready.")
            await _until_ready(client, wait, name, obj["metadata"]["namespace"])


async def _until_ready(client: KubeClient, wait: _Wait, name: str, namespace: str) -> None:
    seen, lack = 0, "its state is not known"
    try:
        async with asyncio.timeout(wait.seconds):
            while True:
                try:
                    lack = wait.judge(await client.get(wait.resource, name, namespace), SYSTEM_CLOCK.now())
                except NotFound:
                    lack = "it does not exist"
                seen = 0 if lack else seen + 1
                if seen == OBSERVATIONS:
                    return
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        text = f"timed out waiting for the condition: {wait.resource.kind} {name}: "
        text += lack or "it was not ready for long enough"
        if wait.resource == DEPLOYMENTS:
            text = f"{text.rstrip('.')}. `kubectl logs deploy/{name} -n {namespace}` may say why"
        raise InstallError(text) from None
    except KubeError as error:
        raise InstallError(f"error waiting for {wait.resource.kind} {name}: {error}") from error


def deployment_lacks(obj: JSONObject, now: datetime) -> str:
    """Why a Deployment is not ready: it must be Available for a while, with pods of its last change only.

    After a change it stays Available with its old pods until the new ones are available.
    """
    status = obj.get("status") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions") or []}
    available, replicas = conditions.get("Available", {}), status.get("replicas", 0)
    if available.get("status") != "True":
        reasons = [
            f"{condition.get('reason')}: {condition.get('message')}"
            for condition in conditions.values()
            if condition.get("status") == "False"
        ]
        text = f"{status.get('availableReplicas', 0)} of {replicas} pods are available"
        return "; ".join([text, *reasons])
    if _is_not_processed(obj):
        return NOT_PROCESSED
    updated = status.get("updatedReplicas", 0)
    if updated < replicas or status.get("unavailableReplicas", 0):
        return f"the change is under way: {updated} of {replicas} pods are new"
    since = now - parse_time(available["lastTransitionTime"])
    return "" if since > STEADY else "it has just become available"


def daemon_set_lacks(obj: JSONObject, _now: datetime) -> str:
    """Why a DaemonSet is not ready: each of its nodes must have an available pod of its last change.

    Without nodes it is ready at once.
    """
    status = obj.get("status") or {}
    if _is_not_processed(obj):
        return NOT_PROCESSED
    wanted, available = status.get("desiredNumberScheduled", 0), status.get("numberAvailable", 0)
    if available != wanted:
        return f"{available} of {wanted} pods are available"
    updated = status.get("updatedNumberScheduled", 0)
    return "" if updated == wanted else f"the change is under way: {updated} of {wanted} pods are new"


def _is_not_processed(obj: JSONObject) -> bool:
    """Whether the status is still that of the object before its last change."""
    status, metadata = obj.get("status") or {}, obj.get("metadata") or {}
    return bool(status.get("observedGeneration", 0) < metadata.get("generation", 0))
