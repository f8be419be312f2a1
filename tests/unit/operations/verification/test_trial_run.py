"""A restore on trial from its namespaces to their removal, in a scripted cluster."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from pinnace.api.labels import PV_PROVISIONED_BY
from pinnace.api.objects import JSONObject
from pinnace.api.velero.restore import Restore
from pinnace.browse.checks import CheckResult
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError, status_error
from pinnace.operations.verification.trial import Restored, Trial, TrialImpossible
from tests.support.clock import LeapingClock
from tests.support.cluster.scripted_cluster import ScriptedCluster

SCRATCH = "pinnace-verify-r1-0-shop"
REFUSED_BY_POLICY = status_error(403, {"message": "violates PodSecurity: hostPath volumes"})


class TrialStage:
    """A cluster that enforces Pod Security, and a restorer that a test scripts.

    Attributes:
        restored: how the restore ends.
        making: what the restore makes in the cluster.
        told: what the user is told about the removal.
    """

    def __init__(self) -> None:
        self.clock = LeapingClock()
        self.cluster = ScriptedCluster(self.clock)
        self.cluster.refuse("create", "pods", REFUSED_BY_POLICY)
        self.cluster.add("namespaces", "shop")
        self.restored = Restored(phase="Completed")
        self.making: Callable[[], object] = lambda: None
        self.told: list[str] = []
        self.asked: list[Restore] = []
        self.left: list[str] = []

    @property
    def trial(self) -> Trial:
        return Trial(
            client=self.cluster.client,
            discovery=Discovery(()),
            restorer=self,
            backup="b1",
            run="r1",
            namespaces=["shop"],
            ready_seconds=60,
            tell=self.told.append,
            clock=self.clock,
        )

    async def restore(self, restore: Restore, rules: JSONObject) -> Restored:
        self.asked.append(restore)
        self.making()
        return self.restored

    async def discard(self, name: str) -> Sequence[str]:
        return self.left

    async def results(self) -> list[tuple[str, CheckResult, str]]:
        return [(each.name, each.result, each.details) for each in await self.trial.findings()]

    def workload(self, ready: int) -> None:
        self.cluster.add("deployments", "web", SCRATCH, spec={"replicas": 2}, status={"readyReplicas": ready})


@pytest.fixture
def stage() -> TrialStage:
    return TrialStage()


async def test_a_trial_restores_into_closed_namespaces_that_go_afterwards(stage: TrialStage) -> None:
    seen: list[JSONObject] = []

    def make() -> None:
        seen.append(stage.cluster.stored("namespaces", SCRATCH, None))
        seen.append(stage.cluster.stored("networkpolicies.networking.k8s.io", "pinnace-verify", SCRATCH))
        stage.workload(2)

    stage.making = make

    found = await stage.results()

    assert found == [
        ("trial restore", CheckResult.OK, "completed"),
        ("Deployment shop/web", CheckResult.OK, "2 of 2 pods are ready"),
    ]
    namespace, policy = seen
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "baseline"
    peers = [{"namespaceSelector": {"matchLabels": {"pinnace.io/verification-run": "r1"}}}]
    assert policy["spec"]["ingress"] == [{"from": peers}]
    assert policy["spec"]["egress"][0] == {"to": peers}
    (asked,) = stage.asked
    assert asked.spec.namespace_mapping == {"shop": SCRATCH}
    assert asked.spec.include_cluster_resources is False
    assert (stage.cluster.names("namespaces"), stage.told) == (["shop"], [])


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (None, "together with the originals; Kubernetes"),
        (status_error(403, {"message": "exceeded quota: pods"}), r"\(.*exceeded quota: pods.*\); Kubernetes"),
    ],
    ids=["admits host paths", "refuses for another reason"],
)
async def test_without_pod_security_nothing_is_restored(
    stage: TrialStage, refusal: KubeError | None, said: str
) -> None:
    stage.cluster.relent("pods")
    if refusal is not None:
        stage.cluster.refuse("create", "pods", refusal)

    with pytest.raises(TrialImpossible, match=f"does not enforce Pod Security.*{said}"):
        await stage.trial.findings()

    assert stage.asked == []
    assert stage.cluster.names("namespaces") == ["shop"]


async def test_a_workload_that_does_not_come_up_in_time_is_bad(stage: TrialStage) -> None:
    stage.making = lambda: stage.workload(1)

    found = await stage.results()

    assert found[1] == ("Deployment shop/web", CheckResult.BAD, "1 of 2 pods are ready")
    assert 60 <= stage.clock.monotonic() < 65


@pytest.mark.parametrize(
    ("restored", "result", "details"),
    [
        (Restored(phase="Completed", warnings=2), CheckResult.OK, "2 warnings"),
        (
            Restored(phase="PartiallyFailed", problems=["no room"]),
            CheckResult.BAD,
            "PartiallyFailed: no room",
        ),
        (Restored(phase="FailedValidation", problems=["no"]), CheckResult.BAD, "FailedValidation: no"),
        (Restored(phase="", problems=["it took long"]), CheckResult.BAD, "did not end in time: it took long"),
    ],
    ids=["warnings", "in part", "refused", "late"],
)
async def test_how_the_restore_ended_is_the_first_finding(
    stage: TrialStage, restored: Restored, result: CheckResult, details: str
) -> None:
    stage.restored = restored

    first, *more = await stage.results()

    assert first == ("trial restore", result, details)
    waited_for = restored.phase in ("Completed", "PartiallyFailed")
    none = ("trial pods", CheckResult.OK, "there are none in these namespaces")
    assert more == ([none] if waited_for else [])


async def test_volumes_of_the_trial_go_with_it_and_others_are_named(stage: TrialStage) -> None:
    def volume(name: str, namespace: str, **annotations: str) -> None:
        stage.cluster.add(
            "persistentvolumes",
            name,
            annotations=annotations,
            spec={"claimRef": {"namespace": namespace}, "persistentVolumeReclaimPolicy": "Retain"},
        )

    def make() -> None:
        volume("made", SCRATCH, **{PV_PROVISIONED_BY: "driver"})
        volume("static", SCRATCH)
        volume("original", "shop", **{PV_PROVISIONED_BY: "driver"})

    stage.making = make

    await stage.trial.findings()

    policies = {
        each["metadata"]["name"]: each["spec"]["persistentVolumeReclaimPolicy"]
        for each in stage.cluster.of("persistentvolumes")
    }
    assert policies == {"made": "Delete", "static": "Retain", "original": "Retain"}
    (said,) = stage.told
    assert "PersistentVolume static, which a claim of the trial took" in said
    assert "made" not in said
    assert "original" not in said


async def test_what_stays_behind_is_told_and_is_no_finding(stage: TrialStage) -> None:
    stage.left = ["the files of restore pinnace-verify-r1: denied"]
    stage.cluster.refuse("delete", "namespaces", status_error(403, {"message": "you may not"}))

    found = await stage.results()

    assert found[0] == ("trial restore", CheckResult.OK, "completed")
    (said,) = stage.told
    assert "was not removed entirely" in said
    assert "kubectl get namespaces -l pinnace.io/verification-run=r1" in said


async def test_a_backup_without_namespaces_is_not_tried(stage: TrialStage) -> None:
    (found,) = await replace(stage.trial, namespaces=[]).findings()

    assert (found.result, found.details) == (CheckResult.NOT_CHECKED, "no namespace to restore")
    assert stage.cluster.writes() == []
