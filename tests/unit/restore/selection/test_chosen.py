"""Restores of single objects, with their owners and the objects that their pods refer to."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api import labels
from pinnace.api.chosen_objects import (
    ChosenObjects,
    ObjectName,
    decode_chosen,
    encode_chosen,
    parse_object,
)
from pinnace.api.nonadmin.restore_limits import TenantLimits
from pinnace.restore.selection.chosen import dependencies
from tests.unit.restore.world import Harness, claim, configmap, deployment, obj, pod, volume

SPEC: dict[str, Any] = {
    "serviceAccountName": "runner",
    "imagePullSecrets": [{"name": "pull"}],
    "volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}},
        {"name": "keys", "projected": {"sources": [{"secret": {"name": "tls"}}]}},
        {"name": "settings", "configMap": {"name": "files"}},
    ],
    "containers": [
        {
            "name": "main",
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "login", "key": "k"}}}],
            "envFrom": [{"configMapRef": {"name": "env"}}],
        }
    ],
}


def secret(name: str) -> dict[str, Any]:
    return obj("Secret", name, "ns-1")


def owner(kind: str, name: str) -> dict[str, str]:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name}


async def restored(harness: Harness, *names: str, **choice: bool) -> list[str]:
    """The objects that a restore of the shop creates if it is limited to these."""
    chosen = ChosenObjects(objects=tuple(map(parse_object, names)), **choice)
    harness.annotations = {labels.CHOSEN_OBJECTS: encode_chosen(chosen)}
    web = deployment("web", spec={"template": {"spec": SPEC}})
    replica_set = obj("ReplicaSet", "web-1", "ns-1", api_version="apps/v1", spec={})
    replica_set["metadata"]["ownerReferences"] = [owner("Deployment", "web")]
    one = pod("web-1-a", spec=SPEC)
    one["metadata"]["ownerReferences"] = [owner("ReplicaSet", "web-1")]
    results = await harness.restore(
        web,
        replica_set,
        one,
        obj("ServiceAccount", "runner", "ns-1"),
        *(secret(name) for name in ("pull", "tls", "login", "other")),
        *(configmap(name) for name in ("files", "env", "other")),
        configmap("web", "ns-2"),
        claim("disk", spec={"volumeName": "pv"}),
        volume("pv"),
    )
    assert results.empty, results
    return sorted("/".join(filter(None, key)) for key in harness.world.created if key[0] != "namespaces")


@pytest.mark.parametrize("kind", ["deployments.apps", "deployment", "Deployment", "deploy"])
async def test_only_the_named_object_is_restored(harness: Harness, kind: str) -> None:
    assert await restored(harness, f"{kind}/ns-1/web") == ["deployments.apps/ns-1/web"]


async def test_several_objects_of_several_namespaces(harness: Harness) -> None:
    assert await restored(harness, "cm/ns-2/web", "secrets/ns-1/other", "pv/pv") == [
        "configmaps/ns-2/web",
        "persistentvolumes/pv",
        "secrets/ns-1/other",
    ]


async def test_what_its_pods_refer_to_comes_along(harness: Harness) -> None:
    assert await restored(harness, "deployment/ns-1/web", dependencies=True) == [
        "configmaps/ns-1/env",
        "configmaps/ns-1/files",
        "deployments.apps/ns-1/web",
        "persistentvolumeclaims/ns-1/disk",
        "persistentvolumes/pv",
        "secrets/ns-1/login",
        "secrets/ns-1/pull",
        "secrets/ns-1/tls",
        "serviceaccounts/ns-1/runner",
    ]


async def test_owners_come_along(harness: Harness) -> None:
    found = await restored(harness, "pod/ns-1/web-1-a", owners=True)
    assert {"deployments.apps/ns-1/web", "pods/ns-1/web-1-a", "replicasets.apps/ns-1/web-1"} <= set(found)
    assert "secrets/ns-1/login" not in found


async def test_an_object_that_the_backup_lacks_ends_the_restore_before_it_begins(harness: Harness) -> None:
    chosen = ChosenObjects(
        objects=(ObjectName("secret", "ns-1", "here"), ObjectName("secret", "ns-1", "typo"))
    )
    harness.annotations = {labels.CHOSEN_OBJECTS: encode_chosen(chosen)}

    results = await harness.restore(secret("here"))

    [(_, message)] = results.errors.notices()
    assert "the backup does not have secret/ns-1/typo" in message
    assert harness.world.created == []


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        (ObjectName("secret", "ns-1", "her"), "secret/ns-1/here"),
        (ObjectName("secrte", "ns-1", "here"), "secrets/ns-1/here"),
        (ObjectName("secret", "ns1", "here"), "secret/ns-1/here"),
        (ObjectName("secret", "", "here"), "secret/ns-1/here"),
    ],
    ids=["name", "kind", "namespace", "without namespace"],
)
async def test_a_similar_object_is_suggested(harness: Harness, asked: ObjectName, meant: str) -> None:
    harness.annotations = {labels.CHOSEN_OBJECTS: encode_chosen(ChosenObjects(objects=(asked,)))}

    results = await harness.restore(secret("here"))

    [(_, message)] = results.errors.notices()
    assert message == f"nothing was restored: the backup does not have {asked}; did you mean {meant}?"


async def test_nothing_is_suggested_to_a_tenant(harness: Harness) -> None:
    chosen = ChosenObjects(objects=(ObjectName("secret", "ns-1", "her"),))
    harness.annotations = {labels.CHOSEN_OBJECTS: encode_chosen(chosen)}
    harness.request_fields = {"limits": TenantLimits.of_role({"rules": []})}

    results = await harness.restore(secret("here"))

    [(_, message)] = results.errors.notices()
    assert "did you mean" not in message


def test_claims_of_a_stateful_set_have_the_names_of_its_pods() -> None:
    item = obj("StatefulSet", "db", "ns-1", api_version="apps/v1")
    item["spec"] = {"replicas": 2, "volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    assert dependencies(item, "ns-1") == [
        ("persistentvolumeclaims", "ns-1", "data-db-0"),
        ("persistentvolumeclaims", "ns-1", "data-db-1"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("configmap/shop/prices", "configmap/shop/prices"),
        ("storageclass/fast", "storageclass/fast"),
        ("deployments.apps/web in shop", "deployments.apps/shop/web"),  # of `diff` and refusals
        ("apps/v1/Deployment shop/web", "Deployment.apps/shop/web"),  # of a dry run
        ("v1/ConfigMap: shop/prices", "ConfigMap/shop/prices"),  # of `describe --details`
        ("configmap prices", "configmap/prices"),
        ("clusterrole/two words", "clusterrole/two words"),
        ("storage.k8s.io/v1/StorageClass fast", "StorageClass.storage.k8s.io/fast"),
    ],
)
def test_an_object_is_read_in_each_form_in_which_it_is_shown(text: str, expected: str) -> None:
    assert str(parse_object(text)) == expected


@pytest.mark.parametrize("text", ["", "web", "/web", "cm/", "cm//web", "a/b/c/d"])
def test_what_names_no_object_says_how_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match="write KIND/NAMESPACE/NAME"):
        parse_object(text)


@pytest.mark.parametrize(
    "value", ["", "[]", "{}", '{"objects": []}', '{"objects": ["x"]}', '{"objects": ["a/b"], "x": 1}']
)
def test_an_annotation_that_cannot_be_meant_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r"not valid|no object"):
        decode_chosen(value)


_words = st.text(alphabet="abcxyz.-", min_size=1)
_names = st.builds(ObjectName, _words, _words | st.just(""), _words)


@given(st.lists(_names, min_size=1), st.booleans(), st.booleans())
def test_round_trip(names: list[ObjectName], owners: bool, with_dependencies: bool) -> None:
    chosen = ChosenObjects(objects=tuple(names), owners=owners, dependencies=with_dependencies)
    assert decode_chosen(encode_chosen(chosen)) == chosen


_members = st.sampled_from(["spec", "template", "containers", "volumes", "env", "name", "replicas"])
_content = st.recursive(
    st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(_members, inner)
)


@given(_content)
def test_content_of_an_odd_structure_has_no_dependencies_but_is_no_error(content: Any) -> None:
    for item in (content, {"spec": content}, {"kind": "StatefulSet", "spec": content}):
        for _, namespace, name in dependencies(item if isinstance(item, dict) else {}, "ns-1"):
            assert namespace in ("", "ns-1")
            assert name
