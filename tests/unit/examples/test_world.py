"""When the controllers are done, and when the world is at rest."""

import copy
from typing import Any

import pytest

from examples.compare import Key
from examples.world import fingerprint, unsettled
from pinnace.api.objects import JSONObject


def item(
    api_version: str, kind: str, name: str, *, metadata: JSONObject | None = None, **content: Any
) -> JSONObject:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "n", "uid": name, "generation": 2, **(metadata or {})},
        **content,
    }


def world(*items: JSONObject) -> dict[Key, JSONObject]:
    return {Key.of(each): each for each in items}


DEPLOYMENT = item(
    "apps/v1", "Deployment", "web", spec={"replicas": 2}, status={"observedGeneration": 2, "replicas": 2}
)
JOB = item("batch/v1", "Job", "j", spec={"parallelism": 2}, status={"active": 2, "startTime": "t"})
WAITING_CLASS = item("storage.k8s.io/v1", "StorageClass", "later", volumeBindingMode="WaitForFirstConsumer")
del WAITING_CLASS["metadata"]["namespace"]
ACCOUNT = item("v1", "ServiceAccount", "bot")


def token(uid: str, **data: str) -> JSONObject:
    annotations = {"kubernetes.io/service-account.name": "bot", "kubernetes.io/service-account.uid": uid}
    kind = "kubernetes.io/service-account-token"
    return item("v1", "Secret", "t", metadata={"annotations": annotations}, type=kind, data=data)


def claim(phase: str, storage_class: str) -> JSONObject:
    spec = {"storageClassName": storage_class}
    return item("v1", "PersistentVolumeClaim", "c", spec=spec, status={"phase": phase})


@pytest.mark.parametrize(
    ("items", "settled"),
    [
        pytest.param([DEPLOYMENT], True, id="deployment"),
        pytest.param(
            [DEPLOYMENT | {"status": {"observedGeneration": 1, "replicas": 2}}], False, id="unobserved"
        ),
        pytest.param([DEPLOYMENT | {"status": {"observedGeneration": 2}}], False, id="without-pods"),
        pytest.param([DEPLOYMENT | {"status": None}], False, id="no-status"),
        pytest.param([JOB], True, id="job"),
        pytest.param([JOB | {"status": {"startTime": "t", "active": 1}}], False, id="job-lacks-a-pod"),
        pytest.param(
            [JOB | {"status": {}, "spec": {"suspend": True, "parallelism": 1}}], True, id="suspended"
        ),
        pytest.param([claim("Bound", "now")], True, id="bound"),
        pytest.param([claim("Pending", "now")], False, id="unbound"),
        pytest.param([claim("Pending", "later"), WAITING_CLASS], True, id="waits-for-a-consumer"),
        pytest.param([token("bot", token="x"), ACCOUNT], True, id="token"),
        pytest.param([token("bot"), ACCOUNT], False, id="token-not-written"),
        pytest.param([token("former", token="x"), ACCOUNT], False, id="token-of-a-former-account"),
        pytest.param([token("bot", token="x")], False, id="token-without-account"),
        pytest.param(
            [item("v1", "ConfigMap", "c", metadata={"deletionTimestamp": "t"})], False, id="deleting"
        ),
        pytest.param([item("v1", "ConfigMap", "c")], True, id="nothing-to-wait-for"),
    ],
)
def test_unsettled(items: list[JSONObject], settled: bool) -> None:
    assert (unsettled(world(*items)) == []) is settled


def test_a_namespace_is_ready_with_its_account_and_certificate() -> None:
    namespace: JSONObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "uid": "n"}}
    account = item("v1", "ServiceAccount", "default")
    certificate = item("v1", "ConfigMap", "kube-root-ca.crt")
    assert unsettled(world(namespace, account)) == ["Namespace/n is not ready"]
    assert unsettled(world(namespace, account, certificate)) == []


def test_only_what_matters_changes_the_fingerprint() -> None:
    before = world(DEPLOYMENT)
    later = copy.deepcopy(before)
    (deployment,) = later.values()
    deployment["status"]["observedGeneration"] = 3
    deployment["metadata"]["resourceVersion"] = "9"
    assert fingerprint(before) == fingerprint(later)
    deployment["metadata"]["labels"] = {"a": "b"}
    assert fingerprint(before) != fingerprint(later)
