"""How a restore on trial is kept apart from the originals, as far as that needs no cluster."""

from typing import Any, cast

import pytest

from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.operations.verification.restorers import error_texts
from pinnace.operations.verification.trial import (
    TRIED,
    Restorer,
    Trial,
    is_provisioned_for,
    modifier_rules,
)
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.modifiers.rules import read_rules


def modified(resource: str, item: dict[str, Any]) -> dict[str, Any]:
    done = ResourceModifiers(read_rules({"data": modifier_rules()})).apply(resource, "shop", item)
    assert list(done.problems) == []
    return done.item


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LoadBalancer", "ClusterIP"),
        ("NodePort", "ClusterIP"),
        ("ClusterIP", "ClusterIP"),
        ("ExternalName", "ExternalName"),
    ],
)
def test_a_service_of_a_trial_has_no_address_outside(before: str, after: str) -> None:
    spec = {
        "type": before,
        "externalIPs": ["192.0.2.1"],
        "loadBalancerIP": "192.0.2.2",
        "ports": [{"port": 80}],
    }
    annotations = {"external-dns.alpha.kubernetes.io/hostname": "shop.example.com"}
    service = {"metadata": {"name": "web", "annotations": annotations}, "spec": spec}
    assert modified("services", service) == {
        "metadata": {"name": "web"},
        "spec": {"type": after, "ports": [{"port": 80}]},
    }


def test_a_claim_of_a_trial_forgets_the_volume_of_the_original() -> None:
    annotations = {"pv.kubernetes.io/bind-completed": "yes", "mine": "kept"}
    claim = {"metadata": {"annotations": annotations}, "spec": {"volumeName": "pv", "storageClassName": "x"}}
    assert modified("persistentvolumeclaims", claim) == {
        "metadata": {"annotations": {"mine": "kept"}},
        "spec": {"storageClassName": "x"},
    }


def test_a_trial_restores_nothing_that_acts_outside_of_its_namespace() -> None:
    outside = ("ingresses", "networkpolicies", "jobs", "cronjobs", "webhook", "persistentvolumes")
    assert [name for name in TRIED if name.startswith(outside)] == []


def test_scratch_namespaces_have_names_of_their_own_that_are_valid() -> None:
    names = ["a" * 63, "a" * 62 + "b", "shop"]
    trial = Trial(
        client=cast(KubeClient, None),
        discovery=Discovery(()),
        restorer=cast(Restorer, None),
        backup="b1",
        run="abc123",
        namespaces=names,
    )
    scratch = trial.mapping
    assert scratch["shop"] == "pinnace-verify-abc123-2-shop"
    assert len(set(scratch.values())) == len(names)
    assert all(len(name) <= 63 for name in scratch.values())


@pytest.mark.found("U2")
@pytest.mark.parametrize(
    ("annotation", "made", "is_ours"),
    [
        ("pv.kubernetes.io/provisioned-by", "2026-01-01T00:00:07Z", True),
        ("pv.kubernetes.io/provisioned-by", "2025-12-31T23:59:59Z", False),
        ("other", "2026-01-01T00:00:07Z", False),
    ],
    ids=["provisioned for it", "provisioned for somebody else before", "static"],
)
def test_only_volumes_made_for_a_trial_go_with_it(annotation: str, made: str, is_ours: bool) -> None:
    """Restored volumes have the annotation too."""
    namespace = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}
    volume = {"metadata": {"creationTimestamp": made, "annotations": {annotation: "d"}}}
    assert is_provisioned_for(namespace, volume) is is_ours


def test_the_errors_of_a_restore_are_reported_with_their_namespaces() -> None:
    errors = {"velero": ["v"], "cluster": ["c"], "namespaces": {"b": ["x"], "a": ["y", "z"]}}
    assert error_texts({"errors": errors}) == ["v", "c", "a: y", "a: z", "b: x"]
    assert error_texts({"errors": None}) == error_texts({}) == []
