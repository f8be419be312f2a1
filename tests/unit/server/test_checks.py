"""What keeps a server from starting, and what it says then."""

import logging
import re
from typing import Any

import pytest

from pinnace.api.kinds import RESTIC_REPOSITORIES, VELERO
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import AlreadyExists, Forbidden
from pinnace.server.checks import (
    StartupError,
    check_default_modifiers,
    check_features,
    check_global_policies,
    check_kinds,
    check_namespace,
    prepare_pod_volumes,
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


PASSWORD_SECRETS = ("velero-restic-credentials", "velero-repo-credentials")


def objects(*present: str, **data: str) -> ScriptedCluster:
    """A cluster with the DaemonSet `restic`, if it is named, and Secrets."""
    cluster = ScriptedCluster()
    for name in present:
        cluster.add("daemonsets" if name == "restic" else "secrets", name, data=data)
    return cluster


REFUSED = Forbidden(403, reason="Forbidden", message="you may not")


async def prepared(cluster: ScriptedCluster) -> list[dict[str, Any]]:
    await prepare_pod_volumes(cluster.client, "velero")
    return list(cluster.sent.values())


@pytest.mark.spec("SRV-009")
async def test_the_password_of_repositories_is_created_only_if_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        for name, secret in zip(PASSWORD_SECRETS, await prepared(objects("restic")), strict=True):
            assert secret == {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": "velero"},
                "type": "Opaque",
                "stringData": {"repository-password": "static-passw0rd"},
            }
        assert await prepared(objects("restic", *PASSWORD_SECRETS)) == []
        late = AlreadyExists(409, reason="AlreadyExists", message="it exists")
        cluster = objects("restic")
        cluster.refuse("create", "secrets", late)
        assert await prepared(cluster) == []
    assert caplog.records == []


@pytest.mark.parametrize(("there", "missing"), [PASSWORD_SECRETS, PASSWORD_SECRETS[::-1]])
async def test_the_password_exists_in_both_secrets_of_velero(there: str, missing: str) -> None:
    cluster = objects("restic", there, **{"repository-password": "b3du"})

    [secret] = await prepared(cluster)

    assert secret["metadata"]["name"] == missing
    assert secret["data"] == {"repository-password": "b3du"}


@pytest.mark.spec("SRV-009")
@pytest.mark.parametrize(
    ("is_readable", "text"),
    [(True, "There is no node agent"), (False, "Cannot tell whether")],
    ids=["missing", "unreadable"],
)
async def test_a_missing_node_agent_is_only_a_warning(
    is_readable: bool, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = objects(*PASSWORD_SECRETS)
    if not is_readable:
        cluster.refuse("get", "daemonsets", REFUSED)
    with caplog.at_level(logging.WARNING):
        await prepared(cluster)
    [said] = caplog.records
    assert text in said.getMessage()


@pytest.mark.spec("SRV-009")
@pytest.mark.parametrize("verb", ["get", "create"])
async def test_a_password_that_cannot_be_read_or_created_stops_the_start(verb: str) -> None:
    cluster = objects("restic")
    cluster.refuse(verb, "secrets", REFUSED)
    with pytest.raises(StartupError, match="Secret velero/velero-restic-credentials cannot be read or made"):
        await prepared(cluster)


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
