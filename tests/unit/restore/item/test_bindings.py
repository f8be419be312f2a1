"""Role bindings that exist, in restores into mapped namespaces. (docs/adr/084)"""

import copy
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import Conflict, Forbidden, Invalid
from pinnace.plugins.builtin.subjects import mapped, namespace_of
from pinnace.restore.item.bindings import beside_originals, missing_subjects
from pinnace.restore.results import Results
from tests.unit.restore.preview.foreseeing import foreseer
from tests.unit.restore.world import Harness, configmap, labels_of, obj, outcome_of

RBAC = "rbac.authorization.k8s.io"
DIFFERS = "the in-cluster version is different"
COPY = {"ns-1": "copy"}
KEY = (f"clusterrolebindings.{RBAC}", "", "readers")


def account(namespace: str, name: str = "sa") -> JSONObject:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def user(name: str) -> JSONObject:
    return {"kind": "User", "apiGroup": RBAC, "name": name}


def group(name: str) -> JSONObject:
    return {"kind": "Group", "apiGroup": RBAC, "name": name}


def binding(*subjects: JSONObject, role: str = "reader", namespace: str = "", **fields: Any) -> JSONObject:
    return obj(
        "RoleBinding" if namespace else "ClusterRoleBinding",
        "readers",
        namespace,
        api_version=f"{RBAC}/v1",
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        subjects=list(subjects),
        **fields,
    )


async def restore(harness: Harness, item: JSONObject, **spec: Any) -> Results:
    """Restore a binding into a mapped namespace, of which the backup has an object."""
    mapping = spec.pop("namespace_mapping", COPY)
    of_namespace = configmap("settings", next(iter(mapping)))
    return await harness.restore(item, of_namespace, namespace_mapping=mapping, **spec)


def subjects_of(harness: Harness, key: tuple[str, str, str] = KEY) -> list[JSONObject]:
    found: list[JSONObject] = harness.world.item(*key)["subjects"]
    return found


@pytest.mark.found("O10a")
@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (account("ns-1"), account("copy")),
        (account("ns-10"), account("ns-10")),
        (group("system:serviceaccounts:ns-1"), group("system:serviceaccounts:copy")),
        (group("system:serviceaccounts:ns-10"), group("system:serviceaccounts:ns-10")),
        (group("system:serviceaccounts"), group("system:serviceaccounts")),
        (group("system:serviceaccount:ns-1:app"), group("system:serviceaccount:ns-1:app")),
        (user("system:serviceaccount:ns-1:app"), user("system:serviceaccount:copy:app")),
        (user("system:serviceaccount:ns-1:ns-1"), user("system:serviceaccount:copy:ns-1")),
        (user("system:serviceaccount:ns-10:app"), user("system:serviceaccount:ns-10:app")),
        (user("system:serviceaccount:ns-1:"), user("system:serviceaccount:ns-1:")),
        (user("system:serviceaccount:ns-1"), user("system:serviceaccount:ns-1")),
        (user("ns-1"), user("ns-1")),
        ({"kind": "User", "name": 7}, {"kind": "User", "name": 7}),
    ],
)
def test_a_subject_follows_its_namespace_in_each_form(subject: JSONObject, expected: JSONObject) -> None:
    before = copy.deepcopy(subject)

    assert mapped(subject, COPY) == expected
    assert mapped(expected, {"copy": "ns-1"}) == subject, "the way back"
    assert subject == before


@pytest.mark.parametrize("namespace", ["", "shared"], ids=["cluster role binding", "role binding"])
@pytest.mark.parametrize("policy", ["none", "update", "recreate"])
@pytest.mark.found("O10b")
async def test_an_existing_binding_gets_the_mapped_subjects_and_keeps_the_originals(
    harness: Harness, policy: str, namespace: str
) -> None:
    """Both the accounts of the copy and those of the original have the rights, and nothing is a warning."""
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    key = (f"{kind.lower()}s.{RBAC}", namespace, "readers")
    old = [account("ns-1"), group("system:serviceaccounts:ns-1"), user("jane")]
    harness.world.put(binding(*old, namespace=namespace))

    results = await restore(harness, binding(*old, namespace=namespace), existing_resource_policy=policy)

    assert results.empty
    expected = [*old, account("copy"), group("system:serviceaccounts:copy")]
    assert subjects_of(harness, key) == expected
    title = f"{namespace}/readers".lstrip("/")
    assert outcome_of(harness.outcomes, f"{RBAC}/v1/{kind}", title) == "updated"
    assert bool(labels_of(harness.world.item(*key))) == (policy != "none")

    again = await restore(harness, binding(*old, namespace=namespace), existing_resource_policy=policy)
    assert again.empty
    assert subjects_of(harness, key) == expected, "the second time nothing is left to do"
    assert outcome_of(harness.outcomes, f"{RBAC}/v1/{kind}", title) == "unchanged"


@pytest.mark.found("O10b")
async def test_an_update_takes_no_rights_from_the_original_namespace(harness: Harness) -> None:
    """Also those given since the backup; other subjects become those of the backup, as everywhere."""
    since = [account("ns-1", "new"), user("joe")]
    harness.world.put(binding(account("ns-1"), *since))

    results = await restore(
        harness, binding(account("ns-1"), user("jane")), existing_resource_policy="update"
    )

    assert results.empty
    assert subjects_of(harness) == [
        account("ns-1"),
        account("ns-1", "new"),
        account("copy"),
        user("jane"),
    ]


@pytest.mark.found("O10b")
async def test_a_binding_that_differs_otherwise_too_is_a_warning(harness: Harness) -> None:
    harness.world.put(binding(account("ns-1"), user("joe")))

    results = await restore(harness, binding(account("ns-1")))

    (warning,) = results.warnings.cluster
    assert DIFFERS in warning
    assert "the accounts of mapped namespaces were added" in warning
    assert subjects_of(harness) == [account("ns-1"), user("joe"), account("copy")]


async def test_another_role_is_never_granted(harness: Harness) -> None:
    harness.world.put(binding(account("ns-1"), role="admin"))

    results = await restore(harness, binding(account("ns-1")))

    (warning,) = results.warnings.cluster
    assert DIFFERS in warning
    assert subjects_of(harness) == [account("ns-1")]


@pytest.mark.found("O10b")
async def test_a_binding_of_the_original_is_not_deleted_to_be_recreated(harness: Harness) -> None:
    harness.world.put(binding(account("ns-1"), role="admin"))
    harness.world.refuse("patch", KEY, Invalid(422, message="cannot change roleRef"), subresource="")

    results = await restore(harness, binding(account("ns-1")), existing_resource_policy="recreate")

    (_, warning) = results.warnings.cluster
    assert "would delete the rights of the accounts in ns-1" in warning
    assert harness.world.deleted == []


async def test_a_default_binding_of_the_cluster_gets_subjects_only(harness: Harness) -> None:
    bootstrapping = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    theirs = binding(account("ns-1"), group("masters"), labels=bootstrapping)
    theirs["metadata"]["name"] = "system:readers"
    harness.world.put(theirs)
    ours = binding(account("ns-1"))
    ours["metadata"]["name"] = "system:readers"

    results = await restore(harness, ours, existing_resource_policy="update")

    assert results.empty
    found = harness.world.item(KEY[0], "", "system:readers")
    assert found["subjects"] == [account("ns-1"), group("masters"), account("copy")]
    assert labels_of(found) == bootstrapping


async def test_a_binding_in_the_copy_follows_the_backup(harness: Harness) -> None:
    """What an older program left there gives the original's accounts rights in the copy."""
    harness.world.put(binding(group("system:serviceaccounts:ns-1"), namespace="copy"))

    results = await restore(
        harness,
        binding(group("system:serviceaccounts:ns-1"), namespace="ns-1"),
        existing_resource_policy="update",
    )

    assert results.empty
    assert subjects_of(harness, (f"rolebindings.{RBAC}", "copy", "readers")) == [
        group("system:serviceaccounts:copy")
    ]


async def test_a_binding_that_names_other_namespaces_stays_the_same(harness: Harness) -> None:
    harness.world.put(binding(account("ns-1")))

    results = await restore(harness, binding(account("ns-1")), namespace_mapping={"ns-2": "copy"})

    assert results.empty
    assert harness.world.patch_bodies == []


async def test_without_a_mapping_an_update_replaces_subjects(harness: Harness) -> None:
    harness.world.put(binding(account("ns-1", "other")))

    await harness.restore(binding(account("ns-1")), existing_resource_policy="update")

    assert subjects_of(harness) == [account("ns-1")]


async def test_subjects_that_may_not_be_added_are_a_warning(harness: Harness) -> None:
    harness.world.put(binding(account("ns-1")))
    harness.world.refuse(
        "patch", KEY, Forbidden(403, message="attempting to grant extra privileges"), subresource=""
    )

    results = await restore(harness, binding(account("ns-1")))

    (warning,) = results.warnings.cluster
    assert "could not add to the existing object" in warning
    assert "extra privileges" in warning


async def test_subjects_that_others_add_at_the_same_time_are_kept(harness: Harness) -> None:
    harness.world.put(binding(account("ns-1")))
    world, patch = harness.world, harness.world.patch
    seen: list[Any] = []

    async def slow(*given: Any, **fields: Any) -> JSONObject:
        if not seen:
            seen.append(given)
            world.item(*KEY)["subjects"].append(user("joe"))
            raise Conflict(409, reason="Conflict", message="the object has been modified")
        return await patch(*given, **fields)

    world.patch = slow  # type: ignore[method-assign]
    results = await restore(harness, binding(account("ns-1")))

    assert results.empty
    assert subjects_of(harness) == [account("ns-1"), user("joe"), account("copy")]


async def test_a_dry_run_shows_the_addition(
    harness: Harness, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.world.put(binding(account("ns-1")))

    preview = await foreseer(harness, tmp_path, monkeypatch)(binding(account("ns-1")), namespace_mapping=COPY)

    (group_,) = preview.outcomes.details()["groups"]
    assert group_["outcome"] == "updated"
    assert group_["reason"] == "the accounts of mapped namespaces were added to its subjects"
    assert subjects_of(harness) == [account("ns-1")], "nothing is written"


def test_malformed_subjects_are_no_subjects() -> None:
    odd: JSONObject = {"subjects": ["x", None, {"kind": 7, "namespace": ["ns-1"]}]}

    assert missing_subjects(odd, odd, COPY) == []
    assert beside_originals(odd, binding(account("copy")), COPY) == binding(account("copy"))
    assert namespace_of({"kind": ["Group"], "namespace": "ns-1"}) == "ns-1"
