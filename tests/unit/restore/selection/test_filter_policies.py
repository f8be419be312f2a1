"""Filters by namespace and kind of a restore. (docs/spec/after-1.18.md, 2.5)"""

from typing import Any

import orjson
import pytest

from pinnace.api.meta import LabelSelector
from pinnace.api.resource_policies import read_restore_policies
from tests.unit.restore.moved import moving, moving_into, stored_uploads
from tests.unit.restore.world import Harness, claim, configmap, deployment, obj, pod, volume


def policies(document: str) -> dict[str, Any]:
    return {"policies": read_restore_policies(f"version: v1\n{document}").filters}


@pytest.mark.spec("AFT-050")
async def test_the_original_namespace_is_filtered_and_the_mapped_one_is_not_asked(harness: Harness) -> None:
    harness.request_fields = policies(
        """
namespacedFilterPolicies:
- {namespaces: [a], resourceFilters: [{kinds: [ConfigMap], names: ["app-*"]}]}
- {namespaces: [b], resourceFilters: [{kinds: [Secret]}]}
"""
    )
    results = await harness.restore(
        configmap("app-1", "a"), configmap("other", "a"), pod("p", "a"), namespace_mapping={"a": "b"}
    )

    assert harness.world.created_of("configmaps") == ["b/app-1"]
    assert harness.world.created_of("pods") == []
    assert "the backup has no object of the kind Secret" in str(results.warnings.velero)


@pytest.mark.spec("AFT-054")
async def test_one_resource_in_two_words_restores_nothing(harness: Harness) -> None:
    harness.request_fields = policies(
        "namespacedFilterPolicies: [{namespaces: [a],"
        " resourceFilters: [{kinds: [Deployment]}, {kinds: [deployments.apps]}]}]"
    )
    results = await harness.restore(deployment("d", "a"))

    assert results.errors.velero == ['ambiguous policy: duplicate kind "deployments.apps" detected']
    assert harness.world.created == []


@pytest.mark.spec("AFT-055")
async def test_a_kind_whose_definition_comes_from_the_backup_is_found(harness: Harness) -> None:
    definition = obj(
        "CustomResourceDefinition",
        "ships.sea.io",
        api_version="apiextensions.k8s.io/v1",
        spec={"group": "sea.io", "names": {"plural": "ships", "kind": "Ship"}},
    )
    harness.request_fields = policies(
        "namespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [Ship], names: [one]}, {}]}]"
    )
    await harness.restore(
        definition,
        pod("p", "a"),
        files={
            f"resources/ships.sea.io/namespaces/a/{name}.json": orjson.dumps(
                obj("Ship", name, "a", api_version="sea.io/v1")
            )
            for name in ("one", "two")
        },
    )

    assert harness.world.created_of("ships.sea.io") == ["a/one"]
    assert harness.world.created_of("pods") == ["a/p"]


@pytest.mark.spec("AFT-036", "AFT-037")
async def test_cluster_scoped_objects_obey_their_own_policy_alone(harness: Harness) -> None:
    harness.request_fields = policies(
        """
clusterScopedFilterPolicy: {resourceFilters: [{kinds: [pv], names: ["keep-*"]}]}
namespacedFilterPolicies: [{namespaces: ["*"], resourceFilters: [{kinds: [cm]}]}]
"""
    )
    await harness.restore(configmap("m", "a"), pod("p", "a"), volume("keep-1"), volume("drop"))

    assert harness.world.created_of("persistentvolumes") == ["keep-1"]
    assert harness.world.created_of("configmaps") == ["a/m"]
    assert harness.world.created_of("pods") == []


async def test_the_selectors_of_a_policy_replace_those_of_the_restore(harness: Harness) -> None:
    harness.request_fields = policies(
        "namespacedFilterPolicies: [{namespaces: [a],"
        " resourceFilters: [{kinds: [cm]}, {kinds: [Pod], labelSelector: {matchLabels: {x: y}}}]}]"
    )
    await harness.restore(
        configmap("m", "a"),
        pod("p", "a"),
        pod("q", "a", labels={"x": "y"}),
        configmap("m", "b"),
        label_selector=LabelSelector(match_labels={"tier": "db"}),
    )

    assert harness.world.created_of("configmaps") == ["a/m"]
    assert harness.world.created_of("pods") == ["a/q"]


@pytest.mark.spec("AFT-057")
async def test_moved_data_comes_back_though_no_filter_names_its_records(harness: Harness) -> None:
    """The claim comes with its pod, its data with the claim."""
    moving_into(
        harness,
        {
            "item_operations": [moving("velero/b-x")],
            **policies("namespacedFilterPolicies: [{namespaces: ['*'], resourceFilters: [{kinds: [Pod]}]}]"),
        },
    )
    uses = {"volumes": [{"name": "of-data", "persistentVolumeClaim": {"claimName": "data"}}]}
    results = await harness.restore(
        claim("data", spec={"volumeName": "pv-data"}),
        pod("db", spec=uses),
        configmap("m"),
        files=stored_uploads("velero/b-x"),
    )

    assert results.empty, results
    assert harness.world.created_of("configmaps") == []
    assert harness.world.created_of("pods") == ["ns-1/db"]
    assert len(harness.world.created_of("datadownloads.velero.io")) == 1


@pytest.mark.spec("AFT-058")
async def test_a_listed_kind_that_the_restore_excludes_is_a_warning(harness: Harness) -> None:
    harness.request_fields = policies(
        "namespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [cm]}]}]"
    )
    results = await harness.restore(configmap("m", "a"), pod("p", "b"), excluded_resources=["configmaps"])

    assert harness.world.created_of("configmaps") == []
    assert len(results.warnings.velero) == 1
    assert "cm is globally excluded by RestoreSpec.ExcludedResources; the per-namespace filter" in str(
        results.warnings.velero
    )


@pytest.mark.spec("AFT-060")
async def test_a_document_without_policies_filters_nothing(harness: Harness) -> None:
    harness.request_fields = policies("")

    assert (await harness.restore(configmap("m", "a"), pod("p", "b"))).empty

    assert harness.world.created_of("configmaps") == ["a/m"]
    assert harness.world.created_of("pods") == ["b/p"]
