"""Which API version of a kind is restored."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.velero.backup import BackupStatus
from pinnace.kube.errors import Forbidden
from pinnace.restore.request import RestoreSettings
from pinnace.restore.selection.api_versions import (
    FEATURE,
    Versions,
    choose_directories,
    choose_version,
    group_of,
    in_order,
    is_active,
    parse_user_priorities,
    source_versions,
)
from tests.unit.restore.world import (
    Harness,
    deployment,
    obj,
)


@pytest.mark.spec("RST-088")
def test_the_users_lines_may_hold_spaces_and_blanks() -> None:
    text = "\n jobs.batch = v3 \n\n  pods=v2, v1beta2\n\n"
    assert parse_user_priorities(text) == {"jobs.batch": ("v3",), "pods": ("v2", "v1beta2")}


@pytest.mark.spec("RST-089")
@pytest.mark.parametrize("line", ["pods=v1=v2", "pods=", "=v1", "pods", "=", "pods = ", ""])
def test_lines_of_another_shape_are_ignored(line: str) -> None:
    assert parse_user_priorities(f"{line}\njobs.batch=v3") == {"jobs.batch": ("v3",)}


def versions(*names: str, preferred: str = "") -> Versions:
    return Versions(preferred or names[0], in_order(names))


@pytest.mark.spec("RST-090")
def test_the_users_first_common_version_wins() -> None:
    source = versions("v10alpha2", "v9beta1")
    target = versions("v9", "v10beta1", "v10alpha2")
    assert choose_version(source, target, ["foo", "v10alpha2", "v3"]) == "v10alpha2"


@pytest.mark.spec("RST-091")
@pytest.mark.parametrize("wanted", ["v9beta1", "v10beta1"], ids=["only-in-source", "only-in-target"])
def test_a_preferred_version_that_one_side_lacks_is_skipped(wanted: str) -> None:
    source = versions("v10alpha2", "v9beta1")
    target = versions("v9", "v10beta1", "v10alpha2")
    assert choose_version(source, target, [wanted]) == "v10alpha2"


@pytest.mark.parametrize(
    ("source", "target", "chosen"),
    [
        (versions("v1", "v2"), None, "v1"),
        (versions("v1", "v2"), versions("v2", "v3"), "v2"),
        (versions("v1", "v2"), versions("v3", "v1"), "v1"),
        (versions("v1", "v2beta1", "v2"), versions("v3", "v2", "v2beta1"), "v2"),
        (versions("v1", "v2beta1"), versions("v3", "v2beta1", preferred="v3"), "v2beta1"),
        (versions("v1"), versions("v2"), "v1"),
        (Versions("", ()), versions("v2"), ""),
    ],
    ids=["no-group", "target", "source", "common", "common-first-in-order", "nothing", "empty-source"],
)
def test_without_user_preferences_the_preferred_versions_decide(
    source: Versions, target: Versions | None, chosen: str
) -> None:
    assert choose_version(source, target) == chosen


@pytest.mark.spec("RST-092")
@pytest.mark.parametrize(("preferred_in_target", "directory"), [("v2", "v2"), ("v1", "v1-preferredversion")])
def test_the_directory_has_the_suffix_if_the_source_preferred_it(
    preferred_in_target: str, directory: str
) -> None:
    sources = {"deployments.apps": ["v1-preferredversion", "v2"]}
    targets = {"apps": Versions(preferred_in_target, ("v1", "v2"))}
    assert choose_directories(sources, targets, {}) == {"deployments.apps": directory}


@pytest.mark.spec("RST-093")
@pytest.mark.parametrize(
    ("directory", "group"),
    [
        ("clusterroles.rbac.authorization.k8s.io", "rbac.authorization.k8s.io"),
        ("pods", ""),
        ("cronjobs.batch", "batch"),
    ],
)
def test_the_group_is_what_follows_the_first_dot(directory: str, group: str) -> None:
    assert group_of(directory) == group


@pytest.mark.parametrize(
    ("features", "format_version", "active"),
    [([FEATURE], "1.1.0", True), ([FEATURE], "1", False), ([], "1.1.0", False), ([FEATURE], "", False)],
)
def test_versions_are_chosen_only_where_both_sides_can(
    features: list[str], format_version: str, active: bool
) -> None:
    assert is_active(features, format_version) is active


ORDERED = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]


@given(st.permutations(ORDERED))
def test_versions_are_sorted_as_kubernetes_does(names: list[str]) -> None:
    assert list(in_order(names)) == ORDERED


@given(st.lists(st.sampled_from(["v1", "v2", "v1beta1"]), unique=True), st.booleans())
def test_directories_give_back_their_versions(names: list[str], prefer: bool) -> None:
    directories = [f"{name}-preferredversion" if prefer and not at else name for at, name in enumerate(names)]
    source = source_versions(directories)
    assert set(source.all) == set(names)
    assert source.preferred == (names[0] if prefer and names else "")


LEGACY = deployment("d", annotations={"from": "legacy"})
PREFERRED = deployment("d", annotations={"from": "v1"})
OTHER = {**deployment("d", annotations={"from": "v2"}), "apiVersion": "apps/v2"}
ROOT = "resources/deployments.apps"
FILES = {
    f"{ROOT}/v1-preferredversion/namespaces/ns-1/d.json": orjson.dumps(PREFERRED),
    f"{ROOT}/v2/namespaces/ns-1/d.json": orjson.dumps(OTHER),
}


def wishes(namespace: str) -> Any:
    data = {"restoreResourcesVersionPriority": "deployments.apps=v2,v1"}
    return obj("ConfigMap", "enableapigroupversions", namespace, data=data)


async def restored_from(harness: Harness, files: dict[str, bytes] = FILES) -> str:
    from tests.unit.restore.world import (
        discovery,
    )

    harness.discovery = discovery(("apps", "v2", "deployments", "Deployment", True))
    harness.options = RestoreSettings(features=[FEATURE])
    results = await harness.restore(LEGACY, files=files)
    assert results.empty
    found: str = harness.world.item("deployments.apps", "ns-1", "d")["metadata"]["annotations"]["from"]
    return found


async def test_the_chosen_version_is_read(harness: Harness) -> None:
    harness.backup.status = BackupStatus(format_version="1.1.0")
    assert await restored_from(harness) == "v1"


@pytest.mark.parametrize("namespace", ["velero"])
async def test_the_users_preferences_are_read_from_the_cluster(harness: Harness, namespace: str) -> None:
    harness.backup.status = BackupStatus(format_version="1.1.0")
    harness.world.put(wishes(namespace))

    assert await restored_from(harness) == "v2"


async def test_an_item_that_the_chosen_directory_lacks_comes_from_the_legacy_one(harness: Harness) -> None:
    harness.backup.status = BackupStatus(format_version="1.1.0")
    other = {f"{ROOT}/v1-preferredversion/namespaces/ns-1/x.json": b"{}"}

    assert await restored_from(harness, other) == "legacy"


@pytest.mark.spec("RST-094")
async def test_an_old_backup_is_read_from_the_legacy_directories(harness: Harness) -> None:
    harness.backup.status = BackupStatus(format_version="1")

    assert await restored_from(harness) == "legacy"


async def test_preferences_that_cannot_be_read_end_the_restore(harness: Harness) -> None:
    harness.backup.status = BackupStatus(format_version="1.1.0")
    harness.options = RestoreSettings(features=[FEATURE])
    key = ("configmaps", "velero", "enableapigroupversions")
    harness.world.refuse("get", key, Forbidden(403, message="you may not"))

    results = await harness.restore(LEGACY)

    assert results.errors.velero == ["choosing API version to restore: you may not"]
    assert harness.world.created == []
