"""What a restore may take from a location that a tenant owns. Pure. (docs/spec: NAC 17 A13, A15, A35)"""

from typing import Any

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.nonadmin.exclusions import SNAPSHOT_KINDS, UNTRUSTED_EXCLUDED
from pinnace.api.nonadmin.names import RESTORABLE_ANNOTATION, TRUST_LABEL, Origin
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.controllers.shared.confinement import bounded, confined, is_bounded


def restore(label: str = "", **spec: Any) -> Restore:
    labels = {TRUST_LABEL: label} if label else {}
    return Restore(metadata=ObjectMeta(name="r1", labels=labels), spec=RestoreSpec(backup_name="b1", **spec))


@pytest.mark.parametrize(("tenant", "label"), [("", ""), ("", "true"), ("evil", "true")])
def test_a_trusted_restore_is_left_as_it_is(tenant: str, label: str) -> None:
    given = restore(label)
    found = confined(given, tenant)
    assert (found.restore, found.trusted, found.problem, found.caveat) == (given, True, "", "")


@pytest.mark.parametrize("label", ["", "yes", "True"])
@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"included_namespaces": ["*"]},
        {"included_namespaces": ["kube-system", "evil"], "excluded_namespaces": ["kube-system"]},
        {"include_cluster_resources": True, "restore_pvs": True, "excluded_resources": ["roles", "secrets"]},
    ],
    ids=str,
)
def test_an_untrusted_restore_is_narrowed(spec: dict[str, Any], label: str) -> None:
    found = confined(restore(label, **spec), "evil")
    narrow = found.restore.spec
    assert not found.trusted
    assert found.problem == ""
    assert "whose owner can have written anything" in found.caveat
    assert (narrow.included_namespaces, narrow.excluded_namespaces) == (["evil"], [])
    assert (narrow.include_cluster_resources, narrow.restore_pvs) == (False, False)
    assert {*UNTRUSTED_EXCLUDED, *SNAPSHOT_KINDS} <= set(narrow.excluded_resources)
    assert len(narrow.excluded_resources) == len(set(narrow.excluded_resources))
    # What is stored is the same when a server looks at it again, and then needs no word.
    again = confined(found.restore, "evil")
    assert (again.restore, again.caveat) == (found.restore, "")


@pytest.mark.parametrize(
    "spec",
    [{"included_namespaces": ["kube-system"]}, {"excluded_namespaces": ["evil"]}],
    ids=str,
)
def test_a_restore_of_other_namespaces_only_is_refused(spec: dict[str, Any]) -> None:
    found = confined(restore(**spec), "evil")
    assert "location of the namespace evil" in found.problem
    assert f"{TRUST_LABEL}=true" in found.problem


ROLE = {"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]}
FOR_TENANT = {Origin.RESTORE.namespace_annotation: "shop"}


def canonical(name: str) -> str:
    return {"rolebindings": "rolebindings.rbac.authorization.k8s.io"}.get(name, name)


@pytest.mark.parametrize(
    ("tenant", "label", "annotations", "expected"),
    [
        ("", "", {}, False),
        ("evil", "true", {}, False),
        ("", "", FOR_TENANT, True),
        ("evil", "", {}, True),
        ("evil", "", FOR_TENANT, True),
        ("evil", "true", FOR_TENANT, True),
    ],
)
def test_a_restore_for_a_tenant_or_of_a_tenants_data_is_bounded(
    tenant: str, label: str, annotations: dict[str, str], expected: bool
) -> None:
    given = restore(label)
    given.metadata.annotations.update(annotations)

    assert is_bounded(confined(given, tenant)) is expected


@pytest.mark.parametrize("location_of", ["", "shop"], ids=["administrators", "own"])
def test_kinds_that_the_settings_allow_count_in_the_administrators_location_only(location_of: str) -> None:
    given = restore()
    given.metadata.annotations.update(FOR_TENANT | {RESTORABLE_ANNOTATION: "rolebindings"})

    limits = bounded(confined(given, location_of), ROLE, canonical).limits

    assert limits is not None
    assert limits.refusal("configmaps", is_namespaced=True) is None
    refused = limits.refusal("rolebindings.rbac.authorization.k8s.io", is_namespaced=True)
    assert (refused is None) is (location_of == "")
