"""What keeps a server from starting, and what it says then."""

import logging
import re
from typing import cast

import pytest

from pinnace.api.kinds import KINDS
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound
from pinnace.server.checks import StartupError, check_features, check_kinds, check_namespace

VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
NAMES = [kind.kind for kind in KINDS]
SNAPSHOTS = "snapshot.storage.k8s.io"


def serving(kinds: list[str], *, groups: tuple[str, ...] = ("velero.io",)) -> Discovery:
    """Discovery of a cluster that has these groups, and of ours these kinds."""
    resources = [
        {"name": kind.plural, "kind": kind.kind, "namespaced": True, "verbs": VERBS}
        for kind in KINDS
        if kind.kind in kinds
    ]
    listed = [
        {"name": group, "versions": [{"groupVersion": f"{group}/v1", "version": "v1"}]} for group in groups
    ]
    return Discovery.from_documents(
        [
            {"kind": "APIGroupList", "groups": listed},
            *(
                {
                    "kind": "APIResourceList",
                    "groupVersion": f"{group}/v1",
                    "resources": resources if group == "velero.io" else [],
                }
                for group in groups
            ),
        ]
    )


@pytest.mark.spec("SRV-007", "CLI-042")
def test_all_kinds_must_be_served() -> None:
    check_kinds(serving(NAMES))
    for missing in NAMES:
        with pytest.raises(StartupError) as caught:
            check_kinds(serving([name for name in NAMES if name != missing]))
        first, hint = str(caught.value).splitlines()
        assert first == f"custom resource {missing} not found in Velero API group velero.io/v1"
        assert "pinnace install --crds-only" in hint


@pytest.mark.spec("SRV-007")
def test_every_missing_kind_is_named() -> None:
    with pytest.raises(StartupError) as caught:
        check_kinds(serving(NAMES[:3]))

    assert re.findall(r"custom resource (\w+) not found", str(caught.value)) == NAMES[3:]
    assert len(NAMES[3:]) == 8


@pytest.mark.spec("SRV-007")
@pytest.mark.parametrize("groups", [(), ("velero.io",)], ids=["no group", "a group without kinds"])
def test_a_cluster_without_our_group(groups: tuple[str, ...]) -> None:
    with pytest.raises(StartupError, match=r"^Velero API group velero\.io/v1 not found\. Please apply"):
        check_kinds(serving([], groups=groups))


@pytest.mark.spec("SRV-010")
def test_a_feature_needs_its_group(caplog: pytest.LogCaptureFixture) -> None:
    bare, with_snapshots = serving(NAMES), serving(NAMES, groups=("velero.io", SNAPSHOTS))

    check_features(bare, [])
    check_features(bare, ["OfTheFuture"])
    with pytest.raises(StartupError) as caught:
        check_features(bare, ["EnableCSI"])
    assert str(caught.value) == (
        "The 'EnableCSI' feature flag was specified, "
        "but CSI API group [snapshot.storage.k8s.io/v1beta1] was not found."
    )
    with caplog.at_level(logging.WARNING):
        check_features(with_snapshots, ["EnableCSI"])
    assert "does not take CSI snapshots" in caplog.text


async def test_the_namespace_must_exist() -> None:
    class Client:
        async def get(self, _resource: object, name: str) -> dict[str, str]:
            if name == "velero":
                return {}
            raise NotFound(404, reason="NotFound", message=f'namespaces "{name}" not found')

    client = cast("KubeClient", Client())
    await check_namespace(client, "velero")
    with pytest.raises(StartupError, match='namespace "other" not found: create it or run'):
        await check_namespace(client, "other")
