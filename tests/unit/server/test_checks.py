"""What keeps a server from starting, and what it says then."""

import logging
import re
from typing import Any

import pytest

from pinnace.api.kinds import RESTIC_REPOSITORIES, VELERO
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import Forbidden
from pinnace.server.checks import (
    StartupError,
    check_default_modifiers,
    check_features,
    check_global_policies,
    check_kinds,
    check_namespace,
    check_node_agents,
)
from tests.support.cluster.discovered import documented_discovery
from tests.support.cluster.scripted_cluster import ScriptedCluster

VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
NAMES = [kind.kind for kind in VELERO]
REQUIRED = {kind.kind: f"velero.io/{kind.version}" for kind in VELERO if kind is not RESTIC_REPOSITORIES}


def serving(kinds: list[str], *, groups: tuple[str, ...] = ("velero.io",)) -> Discovery:
    """Discovery of a cluster that has these groups, and of ours these kinds."""

    def resources(version: str) -> list[dict[str, Any]]:
        return [
            {"name": kind.plural, "kind": kind.kind, "namespaced": True, "verbs": VERBS}
            for kind in VELERO
            if kind.kind in kinds and kind.version == version
        ]

    versions = ("v1", "v2alpha1")
    listed = [
        {
            "name": group,
            "versions": [{"groupVersion": f"{group}/{each}", "version": each} for each in versions],
        }
        for group in groups
    ]
    return documented_discovery(
        [
            {"kind": "APIGroupList", "groups": listed},
            *(
                {
                    "kind": "APIResourceList",
                    "groupVersion": f"{group}/{version}",
                    "resources": resources(version) if group == "velero.io" else [],
                }
                for group in groups
                for version in versions
            ),
        ]
    )


@pytest.mark.spec("SRV-007", "CLI-042")
def test_a_missing_kind_stops_the_start() -> None:
    check_kinds(serving(NAMES))
    check_kinds(serving([name for name in NAMES if name != "ResticRepository"]))
    for missing in REQUIRED:
        with pytest.raises(StartupError) as caught:
            check_kinds(serving([name for name in NAMES if name != missing]))
        first, hint = str(caught.value).splitlines()
        assert first == f"custom resource {missing} not found in Velero API group {REQUIRED[missing]}"
        assert "pinnace install --crds-only" in hint


@pytest.mark.spec("SRV-007")
def test_every_missing_kind_is_named() -> None:
    with pytest.raises(StartupError) as caught:
        check_kinds(serving(NAMES[:3]))

    assert re.findall(r"custom resource (\w+) not found", str(caught.value)) == list(REQUIRED)[3:]
    assert len(REQUIRED) == 13


@pytest.mark.spec("SRV-007")
@pytest.mark.parametrize("groups", [(), ("velero.io",)], ids=["no group", "a group without kinds"])
def test_a_cluster_without_the_api_group_stops_the_start(groups: tuple[str, ...]) -> None:
    with pytest.raises(StartupError, match=r"^Velero API group velero\.io/v1 not found\. Please apply"):
        check_kinds(serving([], groups=groups))


@pytest.mark.found("E-F7")
@pytest.mark.spec("SRV-010")
def test_the_csi_feature_without_its_kinds_is_a_warning_that_says_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for features in ([], ["OfTheFuture"]):
        check_features(serving(NAMES), features)
    assert caplog.records == []

    check_features(serving(NAMES), ["EnableCSI"])

    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert (
        "the cluster does not serve volumesnapshots.snapshot.storage.k8s.io: install" in record.getMessage()
    )


async def test_a_missing_namespace_stops_the_start() -> None:
    client = ScriptedCluster().add_all("namespaces", "velero").client
    await check_namespace(client, "velero")
    with pytest.raises(StartupError, match='namespace "other" not found: create it or install the server'):
        await check_namespace(client, "other")


REFUSED = Forbidden(403, reason="Forbidden", message="you may not")


@pytest.mark.spec("SRV-009")
@pytest.mark.parametrize(
    ("is_readable", "text"),
    [(True, "There is no node agent"), (False, "Cannot tell whether")],
    ids=["missing", "unreadable"],
)
async def test_a_missing_node_agent_is_only_a_warning(
    is_readable: bool, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = ScriptedCluster()
    if not is_readable:
        cluster.refuse("get", "daemonsets", REFUSED)
    with caplog.at_level(logging.WARNING):
        await check_node_agents(cluster.client, "velero")
    [said] = caplog.records
    assert text in said.getMessage()


@pytest.mark.spec("AFT-073")
@pytest.mark.parametrize("document", [None, "version: v1\nvolumes: []"])
async def test_a_server_does_not_start_with_policies_that_would_refuse_every_backup(
    document: str | None,
) -> None:
    cluster = ScriptedCluster()
    if document:
        cluster.add("configmaps", "all", data={"any": document})
    client = cluster.client
    await check_global_policies(client, "velero", "")
    with pytest.raises(StartupError, match=r"velero/all.*--global-backup-volume-policies-configmap"):
        await check_global_policies(client, "velero", "all")


@pytest.mark.spec("AFT-082")
async def test_a_server_starts_without_its_modifiers_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    await check_default_modifiers(ScriptedCluster().client, "velero", "all")
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "velero/all" in record.getMessage()
