"""What came up of a restore on trial, and why the rest did not."""

from typing import Any

import pytest

from pinnace.operations.verification.readiness import states


def workload(spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "s", "name": "web"}, "spec": spec or {}, "status": status}


def pod(*, labels: dict[str, str] | None = None, **status: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "s", "name": "web-1", "labels": labels or {}}, "status": status}


READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("resource", "obj", "is_up", "detail"),
    [
        ("deployments", workload({"replicas": 2}, readyReplicas=2), True, "2 of 2 pods are ready"),
        ("deployments", workload({"replicas": 2}, readyReplicas=1), False, "1 of 2 pods are ready"),
        ("statefulsets", workload(), False, "0 of 1 pods are ready"),
        ("replicasets", workload({"replicas": 0}), True, "0 of 0 pods are ready"),
        ("daemonsets", workload(), False, "0 of ? pods are ready"),
        (
            "daemonsets",
            workload(observedGeneration=1, desiredNumberScheduled=2, numberReady=2),
            True,
            "2 of 2 pods are ready",
        ),
        ("pods", pod(phase="Running", conditions=READY), True, "ready"),
        ("pods", pod(phase="Succeeded"), True, "ready"),
        ("pods", pod(phase="Running"), False, "phase Running"),
        (
            "deployments",
            workload(conditions=[{"type": "ReplicaFailure", "status": "True", "message": "violates"}]),
            False,
            "0 of 1 pods are ready: violates",
        ),
    ],
)
def test_a_workload_is_up_with_as_many_ready_pods_as_are_wanted(
    resource: str, obj: dict[str, Any], is_up: bool, detail: str
) -> None:
    (found,) = states({resource: [obj]})
    assert (found.is_up, found.detail) == (is_up, detail)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no nodes"}]},
            "no nodes",
        ),
        (
            {
                "containerStatuses": [
                    {"name": "a", "state": {"waiting": {"reason": "PodInitializing"}}},
                    {"name": "b", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}},
                ]
            },
            "container b: ImagePullBackOff (no)",
        ),
        ({"phase": "Pending"}, "phase Pending"),
    ],
)
def test_the_reason_is_that_of_the_first_pod_that_is_not_ready(status: dict[str, Any], reason: str) -> None:
    other = pod(labels={"app": "other"}, phase="Failed")
    mine = pod(labels={"app": "web", "x": "y"}, **status)
    deployment = workload({"selector": {"matchLabels": {"app": "web"}}})

    found = list(states({"deployments": [deployment], "pods": [other, mine]}))

    assert found[0].detail == f"0 of 1 pods are ready: pod web-1: {reason}"


def test_what_a_controller_owns_is_counted_with_its_owner() -> None:
    owned = workload()
    owned["metadata"]["ownerReferences"] = [{"kind": "Deployment", "controller": True}]
    assert list(states({"replicasets": [owned]})) == []


def test_objects_of_no_known_form_do_no_harm() -> None:
    found = list(states({"deployments": [{"spec": 1, "status": [], "metadata": None}]}))
    assert [state.is_up for state in found] == [False]
