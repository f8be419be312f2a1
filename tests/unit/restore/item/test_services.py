"""Services whose ports, IP families or addresses this cluster cannot give."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.kube.errors import Invalid, KubeError, ServerFault
from pinnace.kube.resources import APIResource
from pinnace.restore.item.services import advice, lost_address, without_lacking_families
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.restore.world import Harness, obj


def service(name: str = "svc", *, managed: JSONObject | None = None, **spec: Any) -> JSONObject:
    found = obj("Service", name, "ns-1", spec={"ports": [{"name": "http", "port": 80}], **spec})
    if managed is not None:
        found["metadata"]["managedFields"] = [{"manager": "m", "fieldsV1": {"f:spec": managed}}]
    return found


def refused(message: str, *fields: str, said: str = "not configured on this cluster") -> Invalid:
    causes = [{"reason": "FieldValueInvalid", "field": field, "message": said} for field in fields]
    return Invalid(422, message=message, status={"details": {"causes": causes}})


ONE_FAMILY = refused(
    'Service "svc" is invalid: spec.ipFamilies[1]: Invalid value: "IPv6": not configured on this cluster',
    "spec.ipFamilies[1]",
)
DUAL: dict[str, Any] = {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]}
MODIFIER = "; a resource modifier for services that "


@pytest.mark.found("O16")
@pytest.mark.parametrize(
    ("spec", "refusal", "left"),
    [
        (DUAL, ONE_FAMILY, ["IPv4"]),
        (DUAL | {"ipFamilies": ["IPv6"]}, refused("no", "spec.ipFamilies[0]"), None),
        (DUAL | {"ipFamilyPolicy": "RequireDualStack"}, ONE_FAMILY, "refused"),
        (DUAL | {"ipFamilyPolicy": "SingleStack"}, ONE_FAMILY, "refused"),
        (DUAL, refused("no", "spec.ipFamilies[7]"), "refused"),
        (DUAL, refused("no", "spec.ports[1]"), "refused"),
        (DUAL, ServerFault(500, message="spec.ipFamilies[1]: not configured on this cluster"), "refused"),
        (DUAL, KubeError("not configured on this cluster"), "refused"),
    ],
)
def test_a_service_that_prefers_two_ip_families_is_made_with_those_of_the_cluster(
    spec: JSONObject, refusal: KubeError, left: object
) -> None:
    fewer = without_lacking_families(service(**spec), refusal)
    if left == "refused":
        assert fewer is None
        return
    assert fewer is not None
    assert (fewer[0]["spec"].get("ipFamilies"), fewer[1]) == (left, "IPv6")


@pytest.mark.found("O16")
@pytest.mark.parametrize(
    ("message", "hint"),
    [
        (
            'Service "s" is invalid: spec.ports[1].nodePort: Invalid value: 31000: provided port is already'
            " allocated",
            f"{MODIFIER}removes /spec/ports/1/nodePort lets the cluster choose another port",
        ),
        (
            "spec.ports[0].nodePort: Invalid value: 99: provided port is not in the valid range. The range of"
            " valid ports is 30000-32767",
            f"{MODIFIER}removes /spec/ports/0/nodePort lets the cluster choose another port",
        ),
        (
            "provided port is already allocated",
            f"{MODIFIER}removes /spec/ports/1/nodePort lets the cluster choose another port",
        ),
        (
            "Internal error occurred: failed to allocate requested HealthCheck NodePort 33000: provided port"
            " is already allocated",
            f"{MODIFIER}removes /spec/healthCheckNodePort lets the cluster choose another port",
        ),
        (str(ONE_FAMILY), f"{MODIFIER}removes /spec/ipFamilies lets the cluster choose the IP family"),
        ("spec.clusterIP: field is immutable", ""),
    ],
)
def test_a_refusal_says_what_to_do(message: str, hint: str) -> None:
    item = service(ports=[{"port": 80}, {"port": 81, "nodePort": 31000}])
    assert advice(item, Invalid(422, message=message)) == hint


@pytest.mark.found("O16")
def test_a_service_that_requires_two_ip_families_is_told_the_other_policy() -> None:
    item = service(**DUAL | {"ipFamilyPolicy": "RequireDualStack"})
    hint = advice(item, ONE_FAMILY)
    assert "replaces /spec/ipFamilyPolicy by PreferDualStack" in hint


@pytest.mark.found("O16b")
@pytest.mark.parametrize(
    ("managed", "applied", "former", "new", "is_lost"),
    [
        ({"f:clusterIP": {}}, None, "10.96.0.10", "10.96.0.77", True),
        (None, '{"spec":{"clusterIP":"10.96.0.10"}}', "10.96.0.10", "10.96.0.77", True),
        (None, '{"spec":{"clusterIP":"10.96.0.10"}}', "10.96.0.10", "", True),
        ({"f:clusterIP": {}}, None, "10.96.0.10", "10.96.0.10", False),
        ({"f:type": {}}, '{"spec":{}}', "10.96.0.10", "10.96.0.77", False),
        (None, "{", "10.96.0.10", "10.96.0.77", False),
        ({"f:clusterIP": {}}, None, "None", "None", False),
        ({"f:clusterIP": {}}, None, "", "10.96.0.77", False),
    ],
)
def test_an_address_that_somebody_chose_is_missed(
    managed: JSONObject | None, applied: str | None, former: str, new: str, is_lost: bool
) -> None:
    item = service(managed=managed, clusterIP=former)
    if applied is not None:
        item["metadata"]["annotations"] = {labels.LAST_APPLIED_CONFIGURATION: applied}
    assert bool(lost_address(item, service(clusterIP=new))) is is_lost


class SingleStack(ScriptedCluster):
    """A cluster with IPv4 only, which gives addresses, and one of whose node ports is taken."""

    async def create(
        self, resource: APIResource, body: Any, namespace: str | None = None, **options: Any
    ) -> JSONObject:
        item: JSONObject = orjson.loads(body)
        if resource.name == "services":
            if "IPv6" in item["spec"].get("ipFamilies", ()):
                raise ONE_FAMILY
            if any(port.get("nodePort") == 31000 for port in item["spec"]["ports"]):
                raise Invalid(422, message="spec.ports[0].nodePort: provided port is already allocated")
            item["spec"].setdefault("clusterIP", "10.0.0.7")
        return await super().create(resource, orjson.dumps(item), namespace, **options)


@pytest.mark.found("O16", "O16b")
async def test_services_are_restored_as_far_as_the_cluster_can_and_the_rest_is_said(tmp_path: Path) -> None:
    harness = Harness(tmp_path, SingleStack())
    taken = service("taken", type="NodePort", ports=[{"port": 80, "nodePort": 31000}])
    items = [
        service("dual", **DUAL),
        service("dns", managed={"f:clusterIP": {}}, clusterIP="10.96.0.10"),
        service("plain", clusterIP="10.96.0.11"),
        taken,
    ]

    results = await harness.restore(*items, preserve_node_ports=True)

    assert harness.world.created_of("services") == ["ns-1/dns", "ns-1/dual", "ns-1/plain"]
    assert harness.world.item("services", "ns-1", "dual")["spec"]["ipFamilies"] == ["IPv4"]
    assert results.warnings.namespaces == {
        "ns-1": [
            "services/ns-1/dns: its manifest asks for the cluster IP 10.96.0.10, and it has 10.0.0.7 now:"
            " change what uses the old address, or restore it with a resource modifier for services that adds"
            " /spec/clusterIP with the value 10.96.0.10"
        ]
    }
    assert results.errors.namespaces == {
        "ns-1": [
            "error restoring services/ns-1/taken: spec.ports[0].nodePort: provided port is already allocated"
            f"{MODIFIER}removes /spec/ports/0/nodePort lets the cluster choose another port"
        ]
    }

    harness.restore_labels = {labels.VERIFICATION: "b"}
    trial = await harness.restore(items[1], namespace_mapping={"ns-1": "trial"})
    assert trial.empty
