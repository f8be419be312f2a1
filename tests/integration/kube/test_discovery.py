"""Discovery of a real API server, aggregated and legacy."""

import json

import pytest

from pinnace.api import kinds
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from tests.support.cluster.discovered import documented_discovery


async def _older_form(client: KubeClient) -> Discovery:
    """The legacy discovery of the same server, one version at a time."""
    paths = ["/api/v1"]
    documents = [json.loads(await client.request("GET", path)) for path in ("/api", "/apis")]
    for group in documents[1]["groups"]:
        paths += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    documents += [json.loads(await client.request("GET", path)) for path in paths]
    return documented_discovery(documents, server_version=await client.version())


async def test_aggregated_and_legacy_discovery_agree(client: KubeClient) -> None:
    new, old = await Discovery.load(client), await _older_form(client)
    assert new.warnings == old.warnings == ()
    assert new.server_version == old.server_version
    # The two forms have new groups at different places.
    assert sorted(group.name for group in new.groups) == sorted(group.name for group in old.groups)

    def comparable(discovery: Discovery) -> set[tuple[object, ...]]:
        return {
            (
                one.group_resource,
                one.version,
                one.kind,
                one.namespaced,
                one.verbs,
                one.short_names,
                one.singular_name,
            )
            for one in discovery.all_resources
        }

    assert comparable(new) == comparable(old)
    assert {one.group_resource for one in new.resources} == {one.group_resource for one in old.resources}


async def test_the_table_of_kinds_agrees_with_the_server(client: KubeClient) -> None:
    discovery = await Discovery.load(client)
    served = {(one.group_resource, one.version): one for one in discovery.all_resources}
    defined = {kinds.BACKUPS.group, kinds.NON_ADMIN_BACKUPS.group, kinds.SNAPSHOT_GROUP}
    of_kubernetes = [kind for kind in kinds.KINDS if kind.group not in {*defined, kinds.GROUP_SNAPSHOT_GROUP}]

    assert len(of_kubernetes) > 30
    for kind in of_kubernetes:
        one = served[kind.group_resource, kind.version]
        assert (one.kind, one.namespaced) == (kind.kind, kind.namespaced)
        assert {*one.short_names} == {*kind.short_names}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("po", "pods"),
        ("deploy", "deployments.apps"),
        ("Deployment", "deployments.apps"),
        ("pvc", "persistentvolumeclaims"),
        ("crd", "customresourcedefinitions.apiextensions.k8s.io"),
        ("storageclasses.storage", "storageclasses.storage.k8s.io"),
        ("ingress", "ingresses.networking.k8s.io"),
        ("events", "events"),
        ("selfsubjectreviews", "selfsubjectreviews"),
    ],
)
async def test_every_name_of_a_resource_is_resolved(client: KubeClient, name: str, expected: str) -> None:
    discovery = await Discovery.load(client)
    assert discovery.canonical(name) == expected


async def test_a_backup_takes_each_resource_once(client: KubeClient) -> None:
    discovery = await Discovery.load(client)
    assert [one.name for one in discovery.resources][:3] == [
        "pods",
        "persistentvolumeclaims",
        "persistentvolumes",
    ]
    assert not any("/" in one.name for one in discovery.resources)
    taken = [one.group_resource for one in discovery.resources]
    assert len(taken) == len(set(taken))
    assert {"namespaces", "secrets", "deployments.apps", "roles.rbac.authorization.k8s.io"} <= set(taken)
    assert "bindings" not in taken
    assert discovery.server_version is not None
    assert discovery.server_version.git_version.startswith("v1.")
