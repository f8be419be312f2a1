"""The objects that get their status back. (docs/spec: BEY 5.2)"""

from typing import Any

import pytest

from pinnace.api.velero.restore import RestoreStatusSpec
from pinnace.kube.errors import NotFound
from tests.unit.restore.world import Harness, configmap, deployment

STATUS = {"replicas": 3}
DEPLOYMENTS = RestoreStatusSpec(included_resources=["deploy"])


@pytest.mark.spec("BEY-048")
@pytest.mark.parametrize(
    ("wanted", "annotation", "is_written"),
    [
        (None, None, False),
        (DEPLOYMENTS, None, True),
        (RestoreStatusSpec(included_resources=["pods"]), None, False),
        (RestoreStatusSpec(excluded_resources=["pods"]), None, True),
        (RestoreStatusSpec(included_resources=["*"], excluded_resources=["deployments"]), None, False),
        (None, "true", True),
        (DEPLOYMENTS, "false", False),
        (None, "TRUE ", True),
        (DEPLOYMENTS, "yes", True),
        (None, "yes", False),
    ],
)
async def test_a_status_is_written_if_the_spec_or_the_annotation_says_so(
    harness: Harness, wanted: Any, annotation: str | None, is_written: bool
) -> None:
    annotations = {} if annotation is None else {"velero.io/restore-status": annotation}

    results = await harness.restore(
        deployment("d", status=STATUS, annotations=annotations), restore_status=wanted
    )

    assert results.empty
    stored = harness.world.item("deployments.apps", "ns-1", "d")
    assert stored.get("status") == (STATUS if is_written else None)


@pytest.mark.spec("BEY-048")
async def test_an_object_that_existed_keeps_its_status(harness: Harness) -> None:
    harness.world.put(deployment("d", status={"replicas": 1}))

    await harness.restore(
        deployment("d", status=STATUS), restore_status=DEPLOYMENTS, existing_resource_policy="update"
    )

    assert harness.world.item("deployments.apps", "ns-1", "d")["status"] == {"replicas": 1}


@pytest.mark.spec("BEY-048")
async def test_a_status_that_cannot_be_written_is_a_warning(harness: Harness) -> None:
    key = ("configmaps", "ns-1", "cm")
    harness.world.refuse_patch[(key, "status")] = NotFound(404, message="no such sub-resource")

    results = await harness.restore(configmap("cm", status={"a": "b"}), restore_status=RestoreStatusSpec())

    (warning,) = results.warnings.namespaces["ns-1"]
    assert warning == "could not restore the status of configmaps/ns-1/cm: no such sub-resource"
    assert results.errors.count == 0


async def test_a_tenant_cannot_restore_a_status_by_an_annotation(harness: Harness) -> None:
    from pinnace.restore.item.tenant_rights import TenantRights

    harness.request_fields = {"rights": TenantRights(creatable=frozenset({("*", "*")}))}
    harness.world.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns-1"}})
    annotations = {"velero.io/restore-status": "true"}

    await harness.restore(deployment("d", status=STATUS, annotations=annotations))

    assert "status" not in harness.world.item("deployments.apps", "ns-1", "d")
