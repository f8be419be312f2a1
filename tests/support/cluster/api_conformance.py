"""What an API server must do, as one class of tests: the real one and the scripted one run the same.

A subclass gives the fixtures `client`, `namespace`, an empty namespace of the client's cluster, and
`compact`, which lets the server forget its former states. Ingresses stand for the kinds with a status
sub-resource: no controller of a bare cluster touches them.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, APIStatusError, Conflict, Forbidden, Gone, KubeError, NotFound
from pinnace.kube.resources import (
    CONFIGMAPS,
    EVENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    SECRETS,
    APIResource,
)
from tests.support.waiting import eventually

Compact = Callable[[], Awaitable[object]]

INGRESSES = APIResource(
    group="networking.k8s.io", version="v1", name="ingresses", kind="Ingress", namespaced=True
)


def config_map(name: str = "", **metadata: object) -> JSONObject:
    named = {"name": name} if name else {"generateName": "made-"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**named, **metadata}, "data": {"a": "1"}}


def ingress(name: str, class_name: str = "one") -> JSONObject:
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    return {
        "apiVersion": INGRESSES.api_version,
        "kind": "Ingress",
        "metadata": {"name": name},
        "spec": {"ingressClassName": class_name, "defaultBackend": backend},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
    }


def secret(name: str, **metadata: object) -> JSONObject:
    """Return a Secret: unlike ConfigMaps, a new namespace has none."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **metadata}}


def event(name: str, namespace: str) -> JSONObject:
    """Return an Event: a server keeps no cache of them, so that they age with its store."""
    about = {"kind": "Pod", "namespace": namespace, "name": "p"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": about}


def owned_by(owner: JSONObject) -> JSONObject:
    """Return the metadata of an object that belongs to another."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"]}
    return {"ownerReferences": [{**reference, "uid": owner["metadata"]["uid"]}]}


def names(objects: Sequence[JSONObject]) -> list[str]:
    return [each["metadata"]["name"] for each in objects]


async def gone(client: KubeClient, resource: APIResource, name: str, namespace: str) -> None:
    """Return when an object is not there any more."""

    async def is_gone() -> bool:
        try:
            await client.get(resource, name, namespace)
        except NotFound:
            return True
        return False

    await eventually(is_gone)


def reason(error: pytest.ExceptionInfo[Any]) -> tuple[int, str]:
    assert isinstance(error.value, APIStatusError)
    return error.value.code, error.value.reason


class APIConformance:
    async def test_a_new_object_gets_what_only_the_server_gives(
        self, client: KubeClient, namespace: str
    ) -> None:
        created = await client.create(CONFIGMAPS, config_map("a"), namespace)

        metadata = created["metadata"]
        assert metadata["namespace"] == namespace
        assert metadata["uid"]
        assert metadata["resourceVersion"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
        assert await client.get(CONFIGMAPS, "a", namespace) == created

    async def test_a_name_is_generated(self, client: KubeClient, namespace: str) -> None:
        names = {
            (await client.create(CONFIGMAPS, config_map(), namespace))["metadata"]["name"] for _ in range(2)
        }

        assert len(names) == 2
        for name in names:
            assert re.fullmatch(r"made-[b-df-hj-np-tv-z2456789]{5}", name)

    async def test_a_name_is_taken(self, client: KubeClient, namespace: str) -> None:
        await client.create(CONFIGMAPS, config_map("a"), namespace)
        with pytest.raises(AlreadyExists) as error:
            await client.create(CONFIGMAPS, config_map("a"), namespace)
        assert 'configmaps "a" already exists' in str(error.value)

    async def test_a_new_object_with_a_resource_version_is_refused(
        self, client: KubeClient, namespace: str
    ) -> None:
        with pytest.raises(KubeError, match="resourceVersion should not be set on objects to be created"):
            await client.create(CONFIGMAPS, config_map("a", resourceVersion="7"), namespace)

    async def test_a_dry_run_stores_nothing(self, client: KubeClient, namespace: str) -> None:
        await client.create(CONFIGMAPS, config_map("a"), namespace, dry_run=True)
        with pytest.raises(NotFound):
            await client.get(CONFIGMAPS, "a", namespace)

    async def test_what_is_not_there_is_not_found(self, client: KubeClient, namespace: str) -> None:
        for call in (
            client.get(CONFIGMAPS, "a", namespace),
            client.patch(CONFIGMAPS, "a", {"data": {}}, namespace),
            client.delete(CONFIGMAPS, "a", namespace),
            client.simulate_patch(CONFIGMAPS, "a", {"data": {}}, namespace),
        ):
            with pytest.raises(NotFound) as error:
                await call
            assert 'configmaps "a" not found' in str(error.value)
            assert reason(error) == (404, "NotFound")

    async def test_a_merge_patch(self, client: KubeClient, namespace: str) -> None:
        created = await client.create(CONFIGMAPS, config_map("a", labels={"x": "1", "y": "2"}), namespace)

        patch = {
            "data": {"a": None, "b": "2"},
            "metadata": {"labels": {"x": None}, "annotations": {"n": "m"}},
        }
        patched = await client.patch(CONFIGMAPS, "a", patch, namespace)

        assert patched["data"] == {"b": "2"}
        assert patched["metadata"]["labels"] == {"y": "2"}
        assert patched["metadata"]["annotations"] == {"n": "m"}
        assert patched["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"]
        assert patched["metadata"]["uid"] == created["metadata"]["uid"]
        assert await client.get(CONFIGMAPS, "a", namespace) == patched

    async def test_a_patch_that_changes_nothing_makes_no_new_version(
        self, client: KubeClient, namespace: str
    ) -> None:
        created = await client.create(CONFIGMAPS, config_map("a"), namespace)

        assert await client.patch(CONFIGMAPS, "a", {"data": {"a": "1"}}, namespace) == created

    async def test_a_simulated_patch_is_not_stored(self, client: KubeClient, namespace: str) -> None:
        created = await client.create(CONFIGMAPS, config_map("a"), namespace)

        simulated = await client.simulate_patch(CONFIGMAPS, "a", {"data": {"a": "2"}}, namespace)

        assert simulated["data"] == {"a": "2"}
        assert await client.get(CONFIGMAPS, "a", namespace) == created

    async def test_a_patch_of_another_version_or_object_is_refused(
        self, client: KubeClient, namespace: str
    ) -> None:
        created = await client.create(CONFIGMAPS, config_map("a"), namespace)
        version = created["metadata"]["resourceVersion"]
        patched = await client.patch(
            CONFIGMAPS, "a", {"metadata": {"resourceVersion": version}, "data": {"b": "2"}}, namespace
        )

        with pytest.raises(Conflict):
            await client.patch(
                CONFIGMAPS, "a", {"metadata": {"resourceVersion": version}, "data": {"b": "3"}}, namespace
            )
        with pytest.raises(KubeError) as error:
            await client.patch(
                CONFIGMAPS, "a", {"metadata": {"uid": "another"}, "data": {"b": "4"}}, namespace
            )
        assert reason(error) == (422, "Invalid")
        assert await client.get(CONFIGMAPS, "a", namespace) == patched

    async def test_a_replacement_of_another_version_is_refused(
        self, client: KubeClient, namespace: str
    ) -> None:
        created = await client.create(CONFIGMAPS, config_map("a"), namespace)
        replaced = await client.replace(CONFIGMAPS, "a", {**created, "data": {"b": "2"}}, namespace)

        with pytest.raises(Conflict):
            await client.replace(CONFIGMAPS, "a", {**created, "data": {"b": "3"}}, namespace)

        assert replaced["data"] == {"b": "2"}
        assert await client.get(CONFIGMAPS, "a", namespace) == replaced

    async def test_the_status_changes_by_its_sub_resource_only(
        self, client: KubeClient, namespace: str
    ) -> None:
        created = await client.create(INGRESSES, ingress("a"), namespace)
        assert created["metadata"]["generation"] == 1
        assert not (created.get("status") or {}).get("loadBalancer")

        change = {
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}},
            "spec": {"ingressClassName": "two"},
            "metadata": {"labels": {"x": "1"}},
        }
        of_object = await client.patch(INGRESSES, "a", change, namespace)
        assert not (of_object.get("status") or {}).get("loadBalancer")
        assert of_object["spec"]["ingressClassName"] == "two"
        assert of_object["metadata"]["generation"] == 2

        change["spec"] = {"ingressClassName": "three"}
        of_status = await client.patch(INGRESSES, "a", change, namespace, subresource="status")
        assert of_status["status"]["loadBalancer"] == {"ingress": [{"ip": "192.0.2.9"}]}
        assert of_status["spec"]["ingressClassName"] == "two"
        assert of_status["metadata"]["generation"] == 2
        assert await client.get(INGRESSES, "a", namespace) == of_status

    async def test_a_kind_without_status_has_no_such_sub_resource(
        self, client: KubeClient, namespace: str
    ) -> None:
        await client.create(CONFIGMAPS, config_map("a"), namespace)
        with pytest.raises(NotFound, match="could not find the requested resource"):
            await client.patch(CONFIGMAPS, "a", {"status": {}}, namespace, subresource="status")

    async def test_only_the_object_with_that_uid_is_deleted(self, client: KubeClient, namespace: str) -> None:
        created = await client.create(CONFIGMAPS, config_map("a"), namespace)

        with pytest.raises(Conflict):
            await client.delete(CONFIGMAPS, "a", namespace, uid="another")
        await client.delete(CONFIGMAPS, "a", namespace, uid=created["metadata"]["uid"])

        with pytest.raises(NotFound):
            await client.get(CONFIGMAPS, "a", namespace)

    async def test_an_object_with_finalizers_goes_when_the_last_has_gone(
        self, client: KubeClient, namespace: str
    ) -> None:
        await client.create(CONFIGMAPS, config_map("a", finalizers=["example.io/hold"]), namespace)
        await client.delete(CONFIGMAPS, "a", namespace)

        held = await client.get(CONFIGMAPS, "a", namespace)
        assert held["metadata"]["deletionTimestamp"]
        await client.patch(CONFIGMAPS, "a", {"metadata": {"finalizers": None}}, namespace)

        with pytest.raises(NotFound):
            await client.get(CONFIGMAPS, "a", namespace)

    async def test_what_is_being_deleted_takes_no_more_finalizers_and_keeps_its_name(
        self, client: KubeClient, namespace: str
    ) -> None:
        await client.create(CONFIGMAPS, config_map("a", finalizers=["example.io/hold"]), namespace)
        await client.delete(CONFIGMAPS, "a", namespace)
        await client.delete(CONFIGMAPS, "a", namespace)

        more = {"metadata": {"finalizers": ["example.io/hold", "example.io/more"]}}
        with pytest.raises(KubeError, match="no new finalizers can be added") as error:
            await client.patch(CONFIGMAPS, "a", more, namespace)
        assert reason(error) == (422, "Invalid")
        with pytest.raises(AlreadyExists, match='object is being deleted: configmaps "a" already exists'):
            await client.create(CONFIGMAPS, config_map("a"), namespace)

        await client.patch(CONFIGMAPS, "a", {"metadata": {"finalizers": None}}, namespace)
        with pytest.raises(NotFound):
            await client.delete(CONFIGMAPS, "a", namespace)

    async def test_a_recreated_object_is_another(self, client: KubeClient, namespace: str) -> None:
        first = await client.create(CONFIGMAPS, config_map("a"), namespace)
        await client.delete(CONFIGMAPS, "a", namespace)
        second = await client.create(CONFIGMAPS, config_map("a"), namespace)

        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        with pytest.raises(Conflict):
            await client.delete(CONFIGMAPS, "a", namespace, uid=first["metadata"]["uid"])

    async def test_what_an_object_owned_goes_with_it(self, client: KubeClient, namespace: str) -> None:
        owner = await client.create(CONFIGMAPS, config_map("owner"), namespace)
        await client.create(CONFIGMAPS, config_map("owned", **owned_by(owner)), namespace)

        await client.delete(CONFIGMAPS, "owner", namespace)

        await gone(client, CONFIGMAPS, "owned", namespace)

    async def test_an_orphan_stays_and_has_no_owner(self, client: KubeClient, namespace: str) -> None:
        owner = await client.create(CONFIGMAPS, config_map("owner"), namespace)
        await client.create(CONFIGMAPS, config_map("owned", **owned_by(owner)), namespace)

        await client.delete(CONFIGMAPS, "owner", namespace, propagation="Orphan")

        await gone(client, CONFIGMAPS, "owner", namespace)
        assert not (await client.get(CONFIGMAPS, "owned", namespace))["metadata"].get("ownerReferences")

    async def test_the_namespace_of_a_new_object_must_be_there_and_not_go(
        self, client: KubeClient, namespace: str
    ) -> None:
        with pytest.raises(NotFound, match='namespaces "not-there" not found'):
            await client.create(CONFIGMAPS, config_map("a"), "not-there")
        with pytest.raises(KubeError) as error:
            await client.create(CONFIGMAPS, config_map("a", namespace="another"), namespace)
        assert reason(error) == (400, "BadRequest")

        await client.create(CONFIGMAPS, config_map("held", finalizers=["example.io/hold"]), namespace)
        await client.delete(NAMESPACES, namespace)
        assert (await client.get(NAMESPACES, namespace))["status"]["phase"] == "Terminating"
        with pytest.raises(Forbidden, match="because it is being terminated"):
            await client.create(CONFIGMAPS, config_map("b"), namespace)
        await client.patch(CONFIGMAPS, "held", {"metadata": {"finalizers": None}}, namespace)

    async def test_what_a_server_gives_of_itself(self, client: KubeClient, namespace: str) -> None:
        home = await client.get(NAMESPACES, namespace)
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "none",
        }
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": spec}
        claim = await client.create(PERSISTENT_VOLUME_CLAIMS, body, namespace)

        assert home["metadata"]["labels"]["kubernetes.io/metadata.name"] == namespace
        assert home["status"]["phase"] == "Active"
        assert claim["status"]["phase"] == "Pending"
        for obj in (home, claim, await client.create(CONFIGMAPS, config_map("a"), namespace)):
            assert "generation" not in obj["metadata"]

    async def test_a_list_comes_in_pages_in_the_order_of_names(
        self, client: KubeClient, namespace: str
    ) -> None:
        for name in "dbca":
            await client.create(SECRETS, secret(name, labels={"x": "1"}), namespace)

        first = await client.list_page(SECRETS, namespace, limit=3)
        await client.delete(SECRETS, "d", namespace)
        second = await client.list_page(SECRETS, namespace, limit=3, token=first.continue_token)
        of_label = await client.list_page(SECRETS, namespace, limit=2, label_selector="x")

        assert ([item.name for item in first.items], first.total) == (["a", "b", "c"], 4)
        assert [item.name for item in second.items] == ["d"]  # as it was when the list began
        assert (second.continue_token, bool(of_label.continue_token)) == ("", True)
        assert of_label.total is None  # the server does not count what a selector matches
        assert await client.count(SECRETS, namespace) == 3

    async def test_an_expired_list_goes_on_from_another_token(
        self, client: KubeClient, namespace: str, compact: Compact
    ) -> None:
        for name in "abcd":
            await client.create(EVENTS, event(name, namespace), namespace)
        first = await client.list_page(EVENTS, namespace, limit=2)
        # Two changes: etcd still tells of the last one before a compaction, and the server answers 500.
        for name in "ca":
            await client.delete(EVENTS, name, namespace)
        await compact()

        with pytest.raises(Gone) as error:
            await client.list_page(EVENTS, namespace, limit=2, token=first.continue_token)

        assert reason(error) == (410, "Expired")
        token = error.value.status["metadata"]["continue"]
        rest = await client.list_page(EVENTS, namespace, limit=2, token=token)
        assert [item.name for item in rest.items] == ["d"]
        with pytest.raises(Gone):
            await client.count(EVENTS, namespace, resource_version=first.resource_version)
        async with aclosing(
            client.watch(EVENTS, namespace, resource_version=first.resource_version)
        ) as changes:
            with pytest.raises(Gone):
                await anext(changes)

    async def test_a_watch_tells_what_happens_after_a_version(
        self, client: KubeClient, namespace: str
    ) -> None:
        await client.create(CONFIGMAPS, config_map("before"), namespace)
        _, version = await client.list_with_version(CONFIGMAPS, namespace)
        await client.create(CONFIGMAPS, config_map("a"), namespace)
        await client.patch(CONFIGMAPS, "a", {"data": {"a": "2"}}, namespace)
        await client.delete(CONFIGMAPS, "a", namespace)

        seen = []
        events = client.watch(CONFIGMAPS, namespace, resource_version=version)
        async with aclosing(events) as changes:
            async for event in changes:
                if event.object["metadata"].get("name") == "a":
                    seen.append((event.type, event.object["data"]["a"]))
                if event.type == "DELETED":
                    break
        assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]

    async def test_a_list_has_what_the_selector_matches(self, client: KubeClient, namespace: str) -> None:
        for name, labels in (("a", {"x": "1"}), ("b", {"x": "2", "y": "1"}), ("c", {})):
            await client.create(CONFIGMAPS, config_map(name, labels=labels), namespace)

        for selector, expected in (
            ("x=1", {"a"}),
            ("x in (1,2)", {"a", "b"}),
            ("x,!y", {"a"}),
            ("x!=1,y", {"b"}),
        ):
            found = await client.list_all(CONFIGMAPS, namespace, label_selector=selector)
            assert {each["metadata"]["name"] for each in found} == expected, selector
        assert await client.list_all(CONFIGMAPS, "another-namespace", label_selector="x") == []
        by_field = await client.list_all(CONFIGMAPS, namespace, field_selector="metadata.name=b")
        assert names(by_field) == ["b"]
