"""Reading the resource policies that a backup names. (docs/spec: BEY 4.7)"""

from threading import current_thread, main_thread
from typing import Any, cast

import pytest

from pinnace.api.meta import ConfigReference
from pinnace.api.objects import JSONObject
from pinnace.api.resource_policies import PolicyError, ResourcePolicies, read_policies
from pinnace.api.velero.backup import BackupSpec
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConnectionFailed, KubeError, status_error
from pinnace.kube.resources import CONFIGMAPS
from pinnace.operations import policies
from pinnace.operations.policies import policies_of
from tests.support.cluster.scripted_cluster import ScriptedCluster

VALID = "version: v1\nvolumePolicies:\n- conditions: {}\n  action: {type: skip}\n"
LISTS = "version: v1\nincludeExcludePolicy: {excludedNamespaceScopedResources: [secrets]}\n"


def canonical(name: str) -> str:
    return {"Deployment": "deployments.apps", "deployments": "deployments.apps"}.get(name, name)


async def read(answer: JSONObject | KubeError, kind: str = "ConfigMap", **spec: Any) -> Any:
    cluster = ScriptedCluster()
    if isinstance(answer, KubeError):
        cluster.refuse("get", ("configmaps", "velero", "rules"), answer)
    else:
        cluster.add(CONFIGMAPS, "rules", **answer)
    named = BackupSpec(resource_policy=ConfigReference(kind=kind, name="rules"), **spec)
    return await policies_of(cluster.client, "velero", named, canonical)


async def test_a_backup_that_names_none_has_none() -> None:
    assert await policies_of(cast(KubeClient, None), "velero", BackupSpec(), canonical) is None


async def test_the_config_map_of_the_servers_namespace_is_read() -> None:
    policies = await read({"data": {"any.yaml": VALID}})
    assert [rule.source for rule in policies.rules] == ["rules"]


@pytest.mark.spec("BEY-030")
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (
            status_error(404, {"message": "no rules", "reason": "NotFound"}),
            "fail to get ResourcePolicies velero/rules ConfigMap: no rules",
        ),
        (
            {"data": {"a": VALID, "b": VALID}},
            "fail to read the ResourcePolicies from ConfigMap velero/rules: it must have exactly one key",
        ),
        (
            {"data": {"a": "version: v2"}},
            "fail to validate ResourcePolicies in ConfigMap velero/rules: unsupported version 'v2'",
        ),
        ({"data": {"a": "version: v1\nvolumes: []"}}, "unknown field `volumes`"),
        ({"data": {"a": f"{VALID}version: v1"}}, "the key 'version' is there twice"),
    ],
)
async def test_an_invalid_config_map_is_an_error_with_the_reason(
    answer: JSONObject | KubeError, text: str
) -> None:
    with pytest.raises(PolicyError, match="velero/rules") as raised:
        await read(answer)
    assert text in str(raised.value)


async def test_another_kind_is_refused() -> None:
    with pytest.raises(PolicyError, match="of the kind 'Secret'"):
        await read({"data": {"a": VALID}}, kind="Secret")


@pytest.mark.spec("BEY-026")
async def test_an_include_exclude_policy_does_not_fit_filters_of_old() -> None:
    with pytest.raises(PolicyError, match="includedResources cannot be used together"):
        await read({"data": {"a": LISTS}}, included_resources=["pods"])
    assert (await read({"data": {"a": LISTS}})).lists


async def test_an_error_of_the_api_server_is_raised() -> None:
    with pytest.raises(ConnectionFailed):
        await read(ConnectionFailed("no answer"))


def several(**documents: str) -> ScriptedCluster:
    """A cluster with ConfigMaps, by name."""
    cluster = ScriptedCluster()
    for name, document in documents.items():
        cluster.add(CONFIGMAPS, name, data={"any": document})
    return cluster


def rule(conditions: str, action: str) -> str:
    return f"version: v1\nvolumePolicies: [{{conditions: {conditions}, action: {{type: {action}}}}}]\n"


async def joined(cluster: ScriptedCluster, **spec: Any) -> list[tuple[str, str]]:
    found = await policies_of(cluster.client, "velero", BackupSpec(**spec), canonical, of_server="all")
    assert found is not None
    return [(each.source, str(each.action)) for each in found.rules]


OWN = ConfigReference(kind="configmap", name="own")


@pytest.mark.spec("AFT-070")
async def test_the_rules_of_the_server_are_for_backups_without_policies() -> None:
    cluster = several(all=rule("{storageClass: [x]}", "skip"))
    assert await joined(cluster) == [("all", "skip")]


@pytest.mark.spec("AFT-071")
async def test_the_rules_of_the_backup_come_before_those_of_the_server() -> None:
    cluster = several(
        own=rule("{storageClass: [x]}", "fs-backup") + "includeExcludePolicy: {}\n",
        all=rule("{storageClass: [x]}", "skip"),
    )
    assert await joined(cluster, resource_policy=OWN) == [("own", "fs-backup"), ("all", "skip")]


@pytest.mark.spec("AFT-073")
@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        ({}, 'fail to get global backup volume policies ConfigMap velero/all: configmaps "all" not found'),
        (
            {"all": "- a"},
            "fail to validate global backup volume policies in ConfigMap velero/all: ",
        ),
        (
            {"all": rule("{}", "skip, parameters: {dataMover: velero}")},
            "fail to validate global backup volume policies in ConfigMap velero/all: ",
        ),
    ],
)
async def test_rules_of_the_server_that_cannot_be_used_are_a_validation_error(
    documents: dict[str, str], problem: str
) -> None:
    with pytest.raises(PolicyError) as raised:
        await joined(several(**documents))
    assert str(raised.value).startswith(problem)


async def test_a_document_that_takes_seconds_to_read_keeps_nothing_else_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readers = []

    def read(document: str, source: str) -> ResourcePolicies:
        readers.append(current_thread())
        return read_policies(document, source)

    monkeypatch.setattr(policies, "read_policies", read)
    cluster = several(own="version: v1", all=rule("{storageClass: [x]}", "skip"))
    assert await joined(cluster, resource_policy=OWN) == [("all", "skip")]
    assert len(readers) == 2
    assert main_thread() not in readers


FILTERS = "namespacedFilterPolicies: [{namespaces: [a], resourceFilters: [{kinds: [%s]}]}]\n"


@pytest.mark.spec("AFT-074")
@pytest.mark.parametrize(
    "beside", ["includeExcludePolicy: {excludedNamespaceScopedResources: [secrets]}\n", FILTERS % "Pod"]
)
async def test_filters_beside_the_rules_of_the_server_have_no_effect_and_are_told(
    beside: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = several(all=rule("{}", "skip") + beside)
    found = await policies_of(cluster.client, "velero", BackupSpec(), canonical, of_server="all")
    assert found is not None
    assert not found.lists
    assert not found.filters
    assert "Only the volumePolicies" in caplog.text


@pytest.mark.spec("AFT-030")
@pytest.mark.parametrize(
    "old",
    [
        {"included_resources": ["pods"]},
        {"excluded_resources": ["pods"]},
        {"include_cluster_resources": False},
    ],
)
async def test_filter_policies_do_not_fit_filters_of_old(old: dict[str, Any]) -> None:
    with pytest.raises(PolicyError) as raised:
        await read({"data": {"a": f"version: v1\n{FILTERS % 'Pod'}"}}, **old)
    assert str(raised.value) == (
        "include-resources, exclude-resources and include-cluster-resources are old filter parameters.\n"
        "They cannot be used with namespace-scoped or fine-grained global filter policies."
    )


@pytest.mark.spec("AFT-031")
async def test_one_resource_in_two_words_is_refused() -> None:
    document = "version: v1\n" + FILTERS % "Deployment]}, {kinds: [deployments"
    with pytest.raises(PolicyError, match=r"fail to validate .*deployments\.apps.*name it once"):
        await read({"data": {"a": document}})
