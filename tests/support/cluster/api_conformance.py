"""What an API server must do, as one class of tests: the real one and the scripted one run the same.

A subclass gives the fixtures `client` and `namespace`, an empty namespace of the client's cluster. Ingresses
stand for the kinds with a status sub-resource: no controller of a bare cluster touches them.
"""

import re
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, APIStatusError, Conflict, KubeError, NotFound
from pinnace.kube.resources import CONFIGMAPS, APIResource

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
