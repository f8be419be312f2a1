"""Which volumes of a pod are for restic, by the pod's annotations. (docs/spec: API 11, PVL 4)"""

from typing import Any

import pytest

from pinnace.kube.resources import PODS
from pinnace.volumes.selection import HandledClaims, unmounted, wanted_volumes
from tests.unit.backup.fakes import thing

DATA: list[dict[str, Any]] = [{"name": name, "emptyDir": {}} for name in ("data-1", "data-2", "data-3")]
NEVER: list[dict[str, Any]] = [
    {"name": "host", "hostPath": {"path": "/"}},
    {"name": "secret", "secret": {}},
    {"name": "map", "configMap": {}},
    {"name": "projected", "projected": {}},
    {"name": "default-token-abc", "emptyDir": {}},
]


@pytest.mark.spec("API-019", "PVL-001", "PVL-002", "PVL-003", "PVL-004", "PVL-005", "PVL-006")
@pytest.mark.parametrize(
    ("annotations", "opt_out", "names"),
    [
        ({"backup.velero.io/backup-volumes": "v1,v2,v3"}, False, ["v1", "v2", "v3"]),
        ({"backup.velero.io/backup-volumes": ""}, False, []),
        ({"backup.velero.io/other": "v1"}, False, []),
        ({}, True, ["data-1", "data-2", "data-3"]),
        ({"backup.velero.io/backup-volumes-excludes": "data-2"}, True, ["data-1", "data-3"]),
        ({"backup.velero.io/backup-volumes": "data-1"}, True, ["data-1", "data-2", "data-3"]),
    ],
    ids=["opted in", "opted in to none", "not opted in", "not opted out", "opted out of one", "both"],
)
def test_volumes_for_restic(annotations: dict[str, str], opt_out: bool, names: list[str]) -> None:
    pod = thing(PODS, "p", "ns", annotations=annotations, spec={"volumes": [*NEVER, *DATA]})
    assert wanted_volumes(pod, opt_out=opt_out) == names


@pytest.mark.spec("PVL-009")
def test_a_claim_of_two_pods_is_saved_with_the_first() -> None:
    volumes = [
        {"name": "shared", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "own", "emptyDir": {}},
    ]
    pods = [thing(PODS, name, "ns", spec={"volumes": volumes}) for name in ("a", "b")]
    claims = HandledClaims()

    assert [claims.choose(pod, ["shared", "own"]) for pod in pods] == [["shared", "own"], ["own"]]
    assert claims.has("ns", "c")
    elsewhere = thing(PODS, "a", "other", spec={"volumes": volumes})
    assert claims.choose(elsewhere, ["shared"]) == ["shared"]


def of_containers(**kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """A pod with the volumes `data-1` to `data-3`, and containers of these kinds."""
    return thing(PODS, "p", "ns", spec={"volumes": DATA, **kinds})


@pytest.mark.found("V01")
@pytest.mark.parametrize(
    ("pod", "left_out"),
    [
        (of_containers(containers=[{"volumeMounts": [{"name": "data-1"}]}]), ["data-2", "data-3"]),
        (
            of_containers(
                containers=[{"volumeMounts": [{"name": "data-1", "subPath": "x"}]}],
                initContainers=[{"volumeMounts": [{"name": "data-2"}]}],
                ephemeralContainers=[{"volumeMounts": [{"name": "data-3"}]}],
            ),
            [],
        ),
        (of_containers(containers=[{"volumeDevices": [{"name": "data-1"}]}]), ["data-2", "data-3"]),
        (of_containers(containers=[{"name": "main"}]), ["data-1", "data-2", "data-3"]),
        (of_containers(), []),
    ],
    ids=["one mounted", "all kinds", "device", "none mounted", "no containers known"],
)
def test_volumes_that_no_container_uses_are_found(pod: dict[str, Any], left_out: list[str]) -> None:
    """A name that is no volume of the pod has its own warning."""
    assert unmounted(pod, ["data-1", "data-2", "data-3", "no-volume"]) == left_out


@pytest.mark.found("V02")
def test_the_claim_of_an_ephemeral_volume_is_saved_once_too() -> None:
    pod = thing(PODS, "p", "ns", spec={"volumes": [{"name": "scratch", "ephemeral": {}}]})
    claims = HandledClaims()

    assert claims.choose(pod, ["scratch"]) == ["scratch"]
    assert claims.has("ns", "p-scratch")
