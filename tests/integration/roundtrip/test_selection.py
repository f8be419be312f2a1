"""Any combination of filters, on a real API server: the backup holds exactly what the rules say."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from hack.cluster.control_plane import ControlPlane
from pinnace.api.selection.selectors import parse_label_selector
from pinnace.kube.client import KubeClient
from tests.integration.roundtrip.runs import back_up, items, members
from tests.integration.roundtrip.selection_world import ALIASES, CRDS, SELECTORS, Choice, World

EXAMPLES = 40
PREFIX = "PREFIX"
"""Stands for the world's own prefix, which is known only when the test runs."""

NAMESPACES = [f"{PREFIX}-{end}" for end in ("a", "b", "bb", "*", "b*", "?", "[ab]", "{a,bb}", "missing")]
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

    namespaces, resources = lists(NAMESPACES), lists(RESOURCES)
    return Choice(
        included_namespaces=namespaces[0],
        excluded_namespaces=namespaces[1],
        included_resources=resources[0],
        excluded_resources=resources[1],
        include_cluster_resources=draw(st.sampled_from([None, True, False])),
        selector=draw(st.sampled_from(["", *SELECTORS])),
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
    backup = await back_up(
        *(cluster, location, name),
        included_namespaces=list(choice.included_namespaces),
        excluded_namespaces=list(choice.excluded_namespaces),
        included_resources=list(choice.included_resources),
        excluded_resources=list(choice.excluded_resources),
        include_cluster_resources=choice.include_cluster_resources,
        label_selector=parse_label_selector(choice.selector) if choice.selector else None,
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


async def test_the_corners_of_the_filters(control_plane: ControlPlane, world: World, tmp_path: Path) -> None:
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
        Choice(included_resources=["sa", "clusterrolebindings"], included_namespaces=[first]),
    ):
        await check(control_plane, tmp_path, world, choice)
