"""The objects that get their status back. (docs/spec: BEY 5.2)"""

from pathlib import Path
from typing import Any

import pytest

from pinnace.api.velero.restore import RestoreStatusSpec
from pinnace.kube.errors import Invalid, NotFound
from pinnace.restore.request import RestoreSettings
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.cluster.scripted_requests import Request
from tests.unit.restore.world import Harness, configmap, deployment, outcome_of

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


@pytest.mark.found("O14b")
@pytest.mark.spec("BEY-048")
@pytest.mark.parametrize("policy", ["update", "recreate"])
@pytest.mark.parametrize("spec", [{}, {"paused": True}], ids=["same", "changed"])
async def test_an_object_that_is_updated_gets_its_status(
    harness: Harness, policy: str, spec: dict[str, Any]
) -> None:
    harness.world.put(deployment("d", spec=spec, status={"replicas": 1, "old": True}))

    results = await harness.restore(
        deployment("d", status=STATUS), restore_status=DEPLOYMENTS, existing_resource_policy=policy
    )

    assert results.empty
    found = harness.world.item("deployments.apps", "ns-1", "d")
    assert (found["spec"], found["status"]) == ({}, STATUS)
    assert outcome_of(harness.outcomes, "apps/v1/Deployment", "ns-1/d") == "updated"


@pytest.mark.found("O14b")
@pytest.mark.spec("BEY-048")
@pytest.mark.parametrize(("status", "warnings"), [({"replicas": 1}, 1), (STATUS, 0)])
async def test_the_status_of_an_object_that_is_left_alone_is_a_warning_if_it_differs(
    harness: Harness, status: dict[str, Any], warnings: int
) -> None:
    harness.world.put(deployment("d", status=status))

    results = await harness.restore(deployment("d", status=STATUS), restore_status=DEPLOYMENTS)

    said = (
        "could not restore the status of deployments.apps/ns-1/d: it exists with another status, and the"
        " policy for existing objects is none"
    )
    assert [message for _, message in results.warnings.notices()] == [said] * warnings
    assert harness.world.item("deployments.apps", "ns-1", "d")["status"] == status


@pytest.mark.spec("BEY-048")
@pytest.mark.parametrize("exists", [False, True])
async def test_a_status_that_cannot_be_written_is_a_warning(harness: Harness, exists: bool) -> None:
    key = ("deployments.apps", "ns-1", "d")
    harness.world.refuse("patch", key, NotFound(404, message="no such sub-resource"), subresource="status")
    if exists:
        harness.world.put(deployment("d"))

    results = await harness.restore(
        deployment("d", status=STATUS),
        restore_status=RestoreStatusSpec(),
        existing_resource_policy="update",
    )

    (warning,) = results.warnings.namespaces["ns-1"]
    assert warning == "could not restore the status of deployments.apps/ns-1/d: no such sub-resource"
    assert results.errors.count == 0


@pytest.mark.found("O14a")
@pytest.mark.parametrize("by_annotation", [False, True])
async def test_a_status_without_a_sub_resource_is_created_with_the_object(
    harness: Harness, by_annotation: bool
) -> None:
    annotations = {"velero.io/restore-status": "true"} if by_annotation else {}
    item = configmap("cm", status={"message": "kept"}, annotations=annotations)
    wanted = None if by_annotation else RestoreStatusSpec(included_resources=["cm"])

    for _ in range(2):  # the second time it exists, and is the same
        results = await harness.restore(item, restore_status=wanted)
        assert results.empty
    assert harness.world.item("configmaps", "ns-1", "cm")["status"] == {"message": "kept"}
    assert harness.world.patch_bodies == []

    harness.world.item("configmaps", "ns-1", "cm")["status"] = {"message": "other"}
    assert (await harness.restore(item, restore_status=wanted)).warnings.count == 1
    await harness.restore(item, restore_status=wanted, existing_resource_policy="update")
    assert harness.world.item("configmaps", "ns-1", "cm")["status"] == {"message": "kept"}


class WorldThatWantsStatus(ScriptedCluster):
    """A cluster whose definition of ConfigMaps requires a status."""

    def check(self, request: Request) -> None:
        if request.call[:2] == ("create", "configmaps") and "status" not in request.body:
            cause = {"reason": "FieldValueRequired", "message": "Required value", "field": "status"}
            raise Invalid(422, message="status: Required value", status={"details": {"causes": [cause]}})
        super().check(request)


@pytest.mark.found("O30")
async def test_a_definition_that_requires_a_status_gets_that_of_the_backup(tmp_path: Path) -> None:
    harness = Harness(tmp_path, WorldThatWantsStatus())
    harness.options = RestoreSettings(workers=1)
    items = [configmap(name, status={"state": "valid"}) for name in ("a", "b")]

    for _ in range(2):
        results = await harness.restore(*items, configmap("c", status={}))
        assert results.empty
    assert harness.world.item("configmaps", "ns-1", "b")["status"] == {"state": "valid"}
    assert harness.world.item("configmaps", "ns-1", "c")["status"] == {}
    tries = [call for call in harness.world.calls if call[:2] == ("create", "configmaps")]
    assert len(tries) == 4 + 4, "the refusal is remembered for the kind"

    results = await harness.restore(configmap("none"))
    assert results.errors.namespaces == {
        "ns-1": ["error restoring configmaps/ns-1/none: status: Required value"]
    }


async def test_a_tenant_cannot_restore_a_status_by_an_annotation(harness: Harness) -> None:
    from pinnace.api.nonadmin.restore_limits import TenantLimits

    harness.request_fields = {"limits": TenantLimits(creatable=frozenset({("*", "*")}))}
    harness.world.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns-1"}})
    annotations = {"velero.io/restore-status": "true"}

    await harness.restore(deployment("d", status=STATUS, annotations=annotations))

    assert "status" not in harness.world.item("deployments.apps", "ns-1", "d")
