"""Any combination of filters, on a real API server: the backup holds exactly what the rules say."""

import gzip
import json
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from hack.cluster.control_plane import ControlPlane
from pinnace.api.meta import ConfigReference
from pinnace.api.selection.label_choice import parse_or_selectors
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists
from pinnace.kube.resources import CONFIGMAPS, SECRETS
from pinnace.kube.resources import NAMESPACES as NAMESPACE_KIND
from tests.integration.roundtrip.runs import back_up, items, members, restore
from tests.integration.roundtrip.selection_world import ALIASES, CRDS, SELECTORS, Choice, World

EXAMPLES = 25
PREFIX = "PREFIX"
"""Stands for the world's own prefix, which is known only when the test runs."""

NAMESPACES = [f"{PREFIX}-{end}" for end in ("a", "b", "bb", "*", "b*", "?", "[ab]", "missing")]
RESOURCES = [
    *(name for resource, names in ALIASES.items() for name in (resource, *names)),
    *("gears", f"gears.{PREFIX}.example.com", f"*.{PREFIX}.example.com"),
    *("*.apps", "s*", "*map*", "cluster*", "[cs]*", "no-such-thing"),
]


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    """Filters that pass validation."""

    def lists(values: list[str]) -> tuple[list[str], list[str]]:
        some = st.lists(st.sampled_from(values), unique=True, max_size=4)
        includes = draw(st.one_of(st.just([]), st.just(["*"]), some))
        excludes = draw(st.one_of(st.just([]), some))
        return includes, [value for value in excludes if value not in includes]

    def scope() -> tuple[list[str], list[str]]:
        includes, excludes = lists(RESOURCES)
        return (includes, excludes) if includes or not draw(st.booleans()) else ([], ["*"])

    namespaces, resources = lists(NAMESPACES), lists(RESOURCES)
    selector = draw(st.sampled_from(["", *SELECTORS, "app=web or tier", "!tier,app or app in (web,db)"]))
    if draw(st.booleans()):
        cluster, namespaced = scope(), scope()
        return Choice(
            included_namespaces=namespaces[0],
            excluded_namespaces=namespaces[1],
            included_cluster=cluster[0],
            excluded_cluster=cluster[1],
            included_namespaced=namespaced[0],
            excluded_namespaced=namespaced[1],
            selector=selector,
        )
    return Choice(
        included_namespaces=namespaces[0],
        excluded_namespaces=namespaces[1],
        included_resources=resources[0],
        excluded_resources=resources[1],
        include_cluster_resources=draw(st.sampled_from([None, True, False])),
        selector=selector,
    )


def with_prefix(choice: Choice, prefix: str) -> Choice:
    def put(names: object) -> list[str]:
        assert isinstance(names, list | tuple)
        return [name.replace(PREFIX, prefix) for name in names]

    return Choice(
        included_namespaces=put(choice.included_namespaces),
        excluded_namespaces=put(choice.excluded_namespaces),
        included_resources=put(choice.included_resources),
        excluded_resources=put(choice.excluded_resources),
        include_cluster_resources=choice.include_cluster_resources,
        selector=choice.selector,
        included_cluster=put(choice.included_cluster),
        excluded_cluster=put(choice.excluded_cluster),
        included_namespaced=put(choice.included_namespaced),
        excluded_namespaced=put(choice.excluded_namespaced),
    )


@pytest.fixture
async def world(client: KubeClient) -> AsyncIterator[World]:
    made = World(f"w{secrets.token_hex(3)}")
    await made.install(client)
    yield made
    await made.remove(client)


async def check(cluster: ControlPlane, location: Path, world: World, choice: Choice) -> None:
    """Make a backup and compare it with what the rules say; also how it went."""
    name = f"b-{secrets.token_hex(6)}"
    selectors = parse_or_selectors(choice.selector) if choice.selector else []
    backup = await back_up(
        *(cluster, location, name),
        included_namespaces=list(choice.included_namespaces),
        excluded_namespaces=list(choice.excluded_namespaces),
        included_resources=list(choice.included_resources),
        excluded_resources=list(choice.excluded_resources),
        include_cluster_resources=choice.include_cluster_resources,
        label_selector=selectors[0] if len(selectors) == 1 else None,
        or_label_selectors=selectors if len(selectors) > 1 else [],
        included_cluster_scoped_resources=list(choice.included_cluster),
        excluded_cluster_scoped_resources=list(choice.excluded_cluster),
        included_namespace_scoped_resources=list(choice.included_namespaced),
        excluded_namespace_scoped_resources=list(choice.excluded_namespaced),
    )
    ours = {item.identity for item in world.items}
    everything = items(location, name)

    assert everything & ours == world.expected(choice)
    errors = world.missing_namespaces(choice)
    assert backup["status"].get("errors", 0) == errors
    assert backup["status"]["phase"] == ("PartiallyFailed" if errors else "Completed")
    assert backup["status"].get("progress", {}).get("itemsBackedUp", 0) == len(everything)
    names = members(location, name)
    assert names[0] == "metadata/version"
    assert len(names) == 1 + 2 * len(everything)


@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    derandomize=True,
)
@given(choices())
async def test_a_backup_holds_what_its_filters_select(
    control_plane: ControlPlane, world: World, tmp_path: Path, choice: Choice
) -> None:
    choice = with_prefix(choice, world.prefix)
    event(f"{min(len(world.expected(choice)), 10)} objects of ours")
    await check(control_plane, tmp_path, world, choice)


async def test_edge_cases_of_filters_select_as_specified(
    control_plane: ControlPlane, world: World, tmp_path: Path
) -> None:
    first, second, third = world.namespaces
    for choice in (
        Choice(),
        Choice(include_cluster_resources=False),
        Choice(included_namespaces=[second]),
        Choice(included_namespaces=[second], include_cluster_resources=True, selector="app=web"),
        Choice(included_namespaces=[first], include_cluster_resources=False),
        Choice(excluded_namespaces=[third]),
        Choice(included_namespaces=[f"{world.prefix}-b*"], excluded_namespaces=[third]),
        # Everything that is included is excluded by a pattern: a backup without namespaced objects.
        Choice(included_namespaces=[first], excluded_namespaces=[f"{world.prefix}-*"]),
        Choice(included_resources=["gears"]),
        Choice(included_resources=["gears", CRDS], included_namespaces=[second]),
        Choice(included_cluster=["*"], excluded_cluster=[CRDS], included_namespaces=[second]),
        Choice(excluded_cluster=["*"]),
        Choice(included_namespaced=["cm"], selector="app=web or tier"),
        Choice(excluded_namespaced=["*"], included_cluster=["pv", "clusterroles"]),
        Choice(included_namespaced=["persistentvolumes"], included_namespaces=[first]),
        Choice(included_resources=["sa", "clusterrolebindings"], included_namespaces=[first]),
    ):
        await check(control_plane, tmp_path, world, choice)


RULES = """
version: v1
volumePolicies:
- conditions: {capacity: "0,2Gi", volumeTypes: [hostPath]}
  action: {type: skip}
includeExcludePolicy:
  excludedNamespaceScopedResources: [secrets, deployments.apps]
"""


async def test_what_filters_and_policies_choose_is_restored(
    control_plane: ControlPlane, client: KubeClient, world: World, tmp_path: Path
) -> None:
    """The spec includes Secrets, so the policy does not exclude them; it says nothing about Deployments."""
    home, copy = world.namespaces[0], f"{world.prefix}-copy"
    with suppress(AlreadyExists):
        await client.create(NAMESPACE_KIND, {"metadata": {"name": "velero"}})
    rules = {"metadata": {"name": world.prefix}, "data": {"rules.yaml": RULES}}
    await client.create(CONFIGMAPS, rules, "velero")
    selectors = parse_or_selectors("app=web or tier")
    await back_up(
        *(control_plane, tmp_path, "chosen"),
        included_namespaces=[home],
        included_namespace_scoped_resources=["configmaps", "secrets", "sa"],
        included_cluster_scoped_resources=["pv"],
        or_label_selectors=selectors,
        resource_policy=ConfigReference(kind="ConfigMap", name=world.prefix),
    )
    await restore(
        *(control_plane, tmp_path, "again"),
        backup="chosen",
        namespace_mapping={home: copy},
        or_label_selectors=selectors[1:],
    )

    stored = gzip.decompress((tmp_path / "backups/chosen/chosen-volumeinfo.json.gz").read_bytes())
    (info,) = [each for each in json.loads(stored) if each["pvName"] == f"{world.prefix}-web"]
    assert info["skipped"]
    assert info["skippedReason"] == (
        f"any: the resource policies {world.prefix} have the action skip for the volume;"
    )
    assert {name for kind, namespace, name in items(tmp_path, "chosen") if namespace == home} >= {
        "one", "shown", "runner",
    }  # fmt: skip
    found = [obj["metadata"]["name"] for obj in await client.list_all(SECRETS, copy)]
    assert "one" in found
    maps = {obj["metadata"]["name"] for obj in await client.list_all(CONFIGMAPS, copy)}
    assert not maps & {"one", "two", "shown", "hidden"}
    await client.delete(NAMESPACE_KIND, copy)
    await client.delete(CONFIGMAPS, world.prefix, "velero")


POLICIES = """
version: v1
clusterScopedFilterPolicy:
  resourceFilters:
  - {{kinds: [ClusterRoleBinding], names: ["{0}-o*"]}}
namespacedFilterPolicies:
- namespaces: ["{0}-a"]
  resourceFilters:
  - {{kinds: [cm], names: [one, shown, hidden]}}
  - {{kinds: [Gear], labelSelector: {{matchLabels: {{app: db}}}}}}
- namespaces: ["{0}-b*"]
  resourceFilters:
  - {{kinds: [ConfigMap, deployments]}}
  - {{labelSelector: {{matchExpressions: [{{key: app, operator: NotIn, values: [web]}}]}}}}
"""


@pytest.mark.spec("AFT-020", "AFT-021", "AFT-022", "AFT-023", "AFT-036", "AFT-037", "AFT-038", "AFT-043")
async def test_filter_policies_choose_the_same_from_named_namespaces_and_from_the_whole_cluster(
    control_plane: ControlPlane, client: KubeClient, world: World, tmp_path: Path
) -> None:
    first, second, third = world.namespaces
    with suppress(AlreadyExists):
        await client.create(NAMESPACE_KIND, {"metadata": {"name": "velero"}})
    rules = {"metadata": {"name": world.prefix}, "data": {"rules.yaml": POLICIES.format(world.prefix)}}
    await client.create(CONFIGMAPS, rules, "velero")
    policy = ConfigReference(kind="ConfigMap", name=world.prefix)
    cluster = ["pv", "clusterroles", "clusterrolebindings"]
    whole = await back_up(*(control_plane, tmp_path, "whole"), resource_policy=policy)
    named = await back_up(
        *(control_plane, tmp_path, "named"),
        included_namespaces=[first, second, third],
        included_cluster_scoped_resources=cluster,
        resource_policy=policy,
    )
    await client.delete(CONFIGMAPS, world.prefix, "velero")

    assert (whole["status"]["phase"], named["status"]["phase"]) == ("Completed", "Completed")
    ours = {item.identity for item in world.items}
    namespaced = {
        ("configmaps", first, "one"),
        ("configmaps", first, "shown"),
        ("configmaps", second, "one"),
        ("configmaps", third, "one"),
        ("deployments.apps", third, "web"),
        (world.gears, second, "wheel"),
    }
    cluster_scoped = {
        *(("namespaces", "", name) for name in world.namespaces),
        *(("persistentvolumes", "", f"{world.prefix}-{end}") for end in ("web", "plain")),
        ("clusterroles.rbac.authorization.k8s.io", "", f"{world.prefix}-run"),
        ("clusterrolebindings.rbac.authorization.k8s.io", "", f"{world.prefix}-other"),
    }
    definition = (CRDS, "", world.gears)
    assert items(tmp_path, "named") & ours - {definition} == namespaced | cluster_scoped
    assert items(tmp_path, "whole") & ours == namespaced | cluster_scoped | {definition}
