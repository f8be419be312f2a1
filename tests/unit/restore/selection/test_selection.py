"""The selection, the target namespaces and the order of a restore."""

from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from pinnace.api.meta import LabelSelector
from pinnace.api.nonadmin.restore_limits import TenantLimits
from pinnace.api.velero.restore import RestoreHooks, RestoreResourceHookSpec, RestoreStatusSpec
from pinnace.kube.discovery import Discovery
from pinnace.kube.groups import APIGroup, GroupVersion
from pinnace.restore.request import RestoreSettings
from pinnace.restore.selection.order import DEFAULT_PRIORITIES, main_pass_order
from pinnace.restore.selection.validation import NON_RESTORABLE
from tests.unit.restore.world import (
    Harness,
    configmap,
    deployment,
    discovery,
    obj,
    pod,
    volume,
    world_of,
)

ITEMS = (
    pod("pod-1"),
    pod("pod-2", "ns-2"),
    deployment("deploy-1"),
    deployment("deploy-2", "ns-2"),
    volume("pv-1"),
    volume("pv-2"),
)
PODS = {"pods": ["ns-1/pod-1", "ns-2/pod-2"]}
DEPLOYMENTS = {"deployments.apps": ["ns-1/deploy-1", "ns-2/deploy-2"]}
VOLUMES = {"persistentvolumes": ["pv-1", "pv-2"]}
NS_1 = {"pods": ["ns-1/pod-1"], "deployments.apps": ["ns-1/deploy-1"]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, PODS | DEPLOYMENTS | VOLUMES, marks=pytest.mark.spec("RST-019"), id="no-filter"),
        pytest.param(
            {"included_resources": ["pods"]}, PODS, marks=pytest.mark.spec("RST-020"), id="pods-only"
        ),
        pytest.param({"included_resources": ["po"]}, PODS, id="short-name"),
        pytest.param({"included_resources": ["deploy*"]}, DEPLOYMENTS, id="glob-of-resources"),
        pytest.param(
            {"excluded_resources": ["deployments", "unresolvable"]},
            PODS | VOLUMES,
            marks=pytest.mark.spec("RST-022"),
            id="unresolvable-exclude",
        ),
        pytest.param(
            {"included_namespaces": ["ns-1"]}, NS_1, marks=pytest.mark.spec("RST-023"), id="one-namespace"
        ),
        pytest.param({"included_namespaces": ["ns-[1]"]}, NS_1, id="glob-of-namespaces"),
        pytest.param(
            {"included_namespaces": ["ns-1"], "include_cluster_resources": True},
            NS_1 | VOLUMES,
            marks=pytest.mark.spec("RST-024"),
            id="one-namespace-with-cluster",
        ),
        pytest.param(
            {"included_namespaces": ["ns-1"], "include_cluster_resources": False},
            NS_1,
            marks=pytest.mark.spec("RST-024"),
            id="one-namespace-without-cluster",
        ),
        pytest.param(
            {"include_cluster_resources": False},
            PODS | DEPLOYMENTS,
            marks=pytest.mark.spec("RST-025"),
            id="without-cluster",
        ),
        pytest.param(
            {"excluded_namespaces": ["ns-2"]}, NS_1, marks=pytest.mark.spec("RST-026"), id="exclusion"
        ),
    ],
)
async def test_filters_select_items(harness: Harness, spec: dict[str, Any], expected: dict[str, Any]) -> None:
    results = await harness.restore(*ITEMS, **spec)

    assert results.empty
    kinds = {kind for kind, _, _ in harness.world.created} - {"namespaces"}
    assert {kind: harness.world.created_of(kind) for kind in kinds} == expected


@pytest.mark.spec("BEY-029")
async def test_a_pattern_of_namespaces_selects_those_that_the_backup_has(harness: Harness) -> None:
    results = await harness.restore(
        configmap("m", "app-a"), configmap("m", "db"), pod("p", "db"), included_namespaces=["app-*"]
    )

    assert results.empty
    assert harness.world.created_of("configmaps") == ["app-a/m"]
    assert harness.world.created_of("namespaces") == ["app-a"]
    assert harness.world.created_of("pods") == []


@pytest.mark.spec("RST-027")
async def test_a_label_selector_selects_items_of_all_kinds(harness: Harness) -> None:
    labels = {"a": "b"}
    await harness.restore(
        pod("pod-1", labels=labels),
        pod("pod-2"),
        deployment("deploy-1", labels=labels | {"c": "d"}),
        volume("pv-1", labels=labels),
        volume("pv-2", labels={"a": "c"}),
        label_selector=LabelSelector(match_labels=labels),
    )

    created = set(harness.world.created) - {("namespaces", "", "ns-1")}
    assert created == {
        ("pods", "ns-1", "pod-1"),
        ("deployments.apps", "ns-1", "deploy-1"),
        ("persistentvolumes", "", "pv-1"),
    }


async def test_an_invalid_label_selector_restores_nothing(harness: Harness) -> None:
    selector = LabelSelector(match_labels={"not a key": "b"})

    results = await harness.restore(pod("pod-1"), label_selector=selector)

    assert [text.startswith("error parsing label selector: ") for text in results.errors.velero] == [True]
    assert harness.world.created == []


@pytest.mark.spec("RST-028")
async def test_namespaces_are_mapped(harness: Harness) -> None:
    await harness.restore(
        pod("pod-1"),
        pod("pod-2", "ns-2"),
        pod("pod-3", "ns-3"),
        namespace_mapping={"ns-1": "m1", "ns-2": "m2"},
    )

    assert harness.world.created_of("pods") == ["m1/pod-1", "m2/pod-2", "ns-3/pod-3"]
    assert harness.world.created_of("namespaces") == ["m1", "m2", "ns-3"]


@pytest.mark.spec("RST-029")
async def test_the_namespace_filter_sees_original_names(harness: Harness) -> None:
    await harness.restore(
        pod("pod-1"),
        pod("pod-2", "ns-2"),
        pod("pod-3", "ns-3"),
        namespace_mapping={"ns-1": "m1", "ns-2": "m2"},
        included_namespaces=["ns-1", "ns-2"],
    )

    assert harness.world.created_of("pods") == ["m1/pod-1", "m2/pod-2"]


async def test_of_two_namespaces_mapped_to_one_the_first_wins(harness: Harness) -> None:
    results = await harness.restore(
        configmap("same", "ns-1", data={"from": "1"}),
        configmap("same", "ns-2", data={"from": "2"}),
        namespace_mapping={"ns-1": "m", "ns-2": "m"},
    )

    assert results.empty
    assert harness.world.item("configmaps", "m", "same")["data"] == {"from": "1"}


@pytest.mark.spec("RST-030")
async def test_kinds_are_restored_in_order_of_priority_then_of_name(harness: Harness) -> None:
    harness.options = RestoreSettings(
        priorities=["pv", "serviceaccounts", "pods", "deployments.apps"], workers=4
    )
    namespaced = [make(f"{i}", "ns-1") for make in (pod, configmap, deployment) for i in range(5)]

    await harness.restore(*namespaced, obj("ServiceAccount", "sa", "ns-1"), volume("pv-1"), volume("pv-2"))

    kinds = [kind for kind, _, _ in harness.world.created if kind != "namespaces"]
    assert list(dict.fromkeys(kinds)) == [
        "persistentvolumes",
        "serviceaccounts",
        "pods",
        "deployments.apps",
        "configmaps",
    ]
    assert len(kinds) == len([kind for kind, run in _runs(kinds) for _ in range(run)])
    assert [kind for kind, _ in _runs(kinds)] == list(dict.fromkeys(kinds)), "kinds must not interleave"


def _runs(kinds: list[str]) -> list[tuple[str, int]]:
    runs: list[tuple[str, int]] = []
    for kind in kinds:
        if runs and runs[-1][0] == kind:
            runs[-1] = (kind, runs[-1][1] + 1)
        else:
            runs.append((kind, 1))
    return runs


@pytest.mark.spec("RST-031")
def test_the_main_pass_goes_through_priorities_then_through_the_archive() -> None:
    archived = ["prio-3", "backup-resource-3", "backup-resource-1", "backup-resource-2"]

    assert main_pass_order(["prio-3", "prio-2", "prio-1"], archived) == [
        "prio-3",
        "prio-2",
        "prio-1",
        "backup-resource-1",
        "backup-resource-2",
        "backup-resource-3",
        "prio-3",
    ]


@pytest.mark.found("O17b")
def test_the_default_priorities_put_what_pods_need_before_pods() -> None:
    before = DEFAULT_PRIORITIES[: DEFAULT_PRIORITIES.index("pods")]
    needed = {"persistentvolumes", "persistentvolumeclaims", "secrets", "configmaps", "serviceaccounts"}
    classes = {"priorityclasses.scheduling.k8s.io", "runtimeclasses.node.k8s.io"}
    admission = {"podsecuritypolicies.policy", "securitycontextconstraints.security.openshift.io"}
    assert needed | classes | admission <= set(before)


def test_the_default_priorities_put_the_addresses_of_services_before_services() -> None:
    before = DEFAULT_PRIORITIES[: DEFAULT_PRIORITIES.index("services")]
    assert {"endpoints", "endpointslices.discovery.k8s.io"} <= set(before)


async def test_kinds_to_restore_last_follow_all_others_under_any_name(harness: Harness) -> None:
    harness.options = RestoreSettings(priorities=["secrets"], last=["cm", "secrets"], workers=1)
    items = [configmap("c"), deployment("d"), obj("Secret", "s", "ns-1"), pod("p")]

    await harness.restore(*items)

    kinds = [kind for kind, _, _ in harness.world.created if kind != "namespaces"]
    assert kinds == ["secrets", "deployments.apps", "pods", "configmaps"]


def stranges(names: Iterable[str], **fields: Any) -> dict[str, bytes]:
    """Files of a kind that no cluster serves."""
    return {
        f"resources/stranges.strange.io/namespaces/ns-1/{name}.json": orjson.dumps(
            obj("Strange", name, "ns-1", api_version="strange.io/v1", **fields)
        )
        for name in names
    }


@pytest.mark.spec("RST-032")
async def test_each_object_of_a_kind_that_is_not_served_is_an_error(harness: Harness) -> None:
    results = await harness.restore(
        pod("pod-1"), files=stranges("ab"), namespace_mapping={"ns-1": "m1", "ns-2": "m2"}
    )

    assert results.errors.to_dict() == {
        "namespaces": {
            "m1": [
                f"error restoring stranges.strange.io/m1/{name}: the cluster does not serve "
                "stranges.strange.io"
                for name in "ab"
            ]
        }
    }
    assert harness.world.created_of("pods") == ["m1/pod-1"]


async def test_very_many_objects_that_are_not_served_share_lines_and_all_are_named(harness: Harness) -> None:
    names = [f"x-{number:03}" for number in range(250)]

    results = await harness.restore(files=stranges(names))

    lines = results.errors.namespaces["ns-1"]
    assert len(lines) == 3
    reason = "the cluster does not serve stranges.strange.io"
    assert lines[2].startswith(
        f"error restoring 250 stranges.strange.io: {reason} (201 to 250: x-200, x-201, "
    )
    assert [name for name in names if not any(name in line for line in lines)] == []


@pytest.mark.parametrize(
    "spec",
    [
        {"excluded_resources": ["stranges.strange.io"]},
        {"excluded_resources": ["stranges"]},
        {"included_resources": ["pods"]},
        {"excluded_namespaces": ["ns-1"]},
        {"label_selector": LabelSelector(match_labels={"a": "b"})},
    ],
    ids=["resource", "plural", "included", "namespace", "selector"],
)
async def test_an_excluded_kind_need_not_be_served(harness: Harness, spec: dict[str, Any]) -> None:
    results = await harness.restore(pod("p", "ns-2", labels={"a": "b"}), files=stranges("ab"), **spec)

    assert results.empty
    assert harness.world.created_of("pods") == ["ns-2/p"]


async def test_a_kind_in_a_group_cut_short_is_not_that_of_the_whole_group(harness: Harness) -> None:
    item = orjson.dumps(obj("Job", "x", "ns-1", api_version="bat/v1"))

    results = await harness.restore(files={"resources/jobs.bat/namespaces/ns-1/x.json": item})

    assert results.errors.namespaces["ns-1"] == [
        "error restoring jobs.bat/ns-1/x: the cluster does not serve jobs.bat"
    ]


async def test_an_api_that_discovery_could_not_reach_is_named_in_the_error(harness: Harness) -> None:
    harness.discovery = Discovery(
        [
            *harness.discovery.groups,
            APIGroup(
                name="strange.io",
                versions=(GroupVersion(version="v1", failure="no endpoints"),),
                preferred_version="v1",
            ),
        ]
    )

    results = await harness.restore(files=stranges("a"))

    assert results.errors.namespaces["ns-1"] == [
        "error restoring stranges.strange.io/ns-1/a: the cluster does not serve stranges.strange.io"
        " (Failed to discover group: strange.io/v1: no endpoints)"
    ]


@pytest.mark.found("O14a", "CF16")
async def test_a_kind_without_objects_whose_status_is_asked_for_is_a_warning(harness: Harness) -> None:
    wanted = RestoreStatusSpec(included_resources=["deploymnets", "deployments", "*"])

    results = await harness.restore(*ITEMS, restore_status=wanted)

    assert results.warnings.velero == [
        "spec.restoreStatus.includedResources: the cluster serves no resource 'deploymnets'; did you mean"
        " deployments or deployment or deployments.apps?"
    ]


@pytest.mark.found("CF16")
async def test_a_misspelt_kind_whose_status_is_left_out_is_a_warning(harness: Harness) -> None:
    wanted = RestoreStatusSpec(included_resources=["*"], excluded_resources=["podz", "nothing-like-it"])

    results = await harness.restore(*ITEMS, restore_status=wanted)

    (warning,) = results.warnings.velero
    assert warning.startswith(
        "spec.restoreStatus.excludedResources names podz, but the backup has no object of that kind; did you"
        " mean pods"
    )


@pytest.mark.spec("RST-021")
async def test_an_included_kind_that_does_not_exist_is_an_error_and_the_others_are_restored(
    harness: Harness,
) -> None:
    results = await harness.restore(*ITEMS, included_resources=["pods", "deploymnets"])

    assert results.errors.velero == [
        "spec.includedResources names deploymnets, but the backup has no object of that kind:"
        " the cluster serves no resource 'deploymnets';"
        " did you mean deployments or deployment or deployments.apps?"
    ]
    assert results.errors.count == 1
    assert harness.world.created_of("pods") == ["ns-1/pod-1", "ns-2/pod-2"]


SPECS_OF_NOTHING: dict[str, tuple[dict[str, Any], str]] = {
    "namespace": ({"included_namespaces": ["nosuchns"]}, "includedNamespaces: nosuchns"),
    "selector": (
        {"label_selector": LabelSelector(match_labels={"app": "nosuch"})},
        "labelSelector: app=nosuch",
    ),
    "pattern": ({"included_resources": ["nosuch*"]}, "includedResources: nosuch*"),
    "served": ({"included_resources": ["secrets"]}, "includedResources: secrets"),
    "cluster": (
        {"included_namespaces": ["ns-3"], "include_cluster_resources": False},
        "includedNamespaces: ns-3; includeClusterResources: false",
    ),
}


@pytest.mark.parametrize(("spec", "filters"), SPECS_OF_NOTHING.values(), ids=SPECS_OF_NOTHING)
async def test_a_restore_that_selects_nothing_warns(
    harness: Harness, spec: dict[str, Any], filters: str
) -> None:
    results = await harness.restore(*ITEMS, **spec)

    assert results.errors.count == 0
    assert results.warnings.velero[-1] == (
        f"nothing was restored: none of the 6 objects in the backup is selected ({filters})"
    )
    assert harness.world.created == []


async def test_an_empty_backup_warns(harness: Harness) -> None:
    results = await harness.restore(files={"resources/pods/odd": b"{}"})

    assert results.warnings.velero[0] == "nothing was restored: the backup holds no object"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"included_namespaces": ["ns-1", "ns2"]},
            'spec.includedNamespaces names "ns2", but the backup has no object of that namespace;'
            " did you mean ns-2?",
        ),
        (
            {"excluded_namespaces": ["ns2"]},
            'spec.excludedNamespaces names "ns2", but the backup has no object of that namespace;'
            " did you mean ns-2?",
        ),
        (
            {"namespace_mapping": {"elsewhere": "x"}},
            'spec.namespaceMapping names "elsewhere", but the backup has no object of that namespace',
        ),
        (
            {"excluded_resources": ["deploymnets"]},
            "spec.excludedResources names deploymnets, but the backup has no object of that kind;"
            " did you mean deployments or deployments.apps?",
        ),
    ],
    ids=["included", "excluded", "mapped", "resource"],
)
async def test_a_name_that_means_nothing_in_the_backup_is_a_warning(
    harness: Harness, spec: dict[str, Any], text: str
) -> None:
    results = await harness.restore(*ITEMS, **spec)

    assert results.warnings.velero == [text]
    assert results.errors.count == 0


async def test_excluding_a_kind_that_does_not_exist_is_no_warning(harness: Harness) -> None:
    results = await harness.restore(
        *ITEMS,
        excluded_resources=[*NON_RESTORABLE, "widgets.example.com"],
        excluded_namespaces=["kube-system"],
    )

    assert results.empty


async def test_files_in_an_archive_that_are_not_items_are_a_warning(harness: Harness) -> None:
    results = await harness.restore(pod("p"), files={"resources/pods/odd": b"{}"})

    assert results.warnings.velero == [
        "part of the backup was ignored: resources/pods/odd: not part of a backup's layout, ignored"
    ]


def definition(plural: str, kind: str, group: str) -> dict[str, Any]:
    return obj(
        "CustomResourceDefinition",
        f"{plural}.{group}",
        api_version="apiextensions.k8s.io/v1",
        spec={"group": group, "names": {"plural": plural, "kind": kind}},
    )


@pytest.mark.spec("RST-033")
async def test_custom_resources_come_back_with_their_definition(harness: Harness) -> None:
    custom = orjson.dumps(obj("Ship", "one", "ns-1", api_version="sea.io/v1"))

    results = await harness.restore(
        definition("ships", "Ship", "sea.io"),
        pod("pod-1"),
        files={"resources/ships.sea.io/namespaces/ns-1/one.json": custom},
    )

    assert results.empty
    assert harness.loads == 1
    assert harness.world.created[0][2] == "ships.sea.io"
    assert harness.world.created_of("ships.sea.io") == ["ns-1/one"]


async def test_discovery_is_asked_again_while_it_does_not_show_a_restored_kind(harness: Harness) -> None:
    answers = [discovery(), discovery(), discovery(("sea.io", "v1", "ships", "Ship", True))]
    asked = []

    async def load() -> Any:
        asked.append(1)
        return answers.pop(0)

    harness.load_discovery = load  # type: ignore[method-assign]
    custom = orjson.dumps(obj("Ship", "one", "ns-1", api_version="sea.io/v1"))

    await harness.restore(
        definition("ships", "Ship", "sea.io"),
        files={"resources/ships.sea.io/namespaces/ns-1/one.json": custom},
    )

    assert len(asked) == 3
    assert harness.world.created_of("ships.sea.io") == ["ns-1/one"]


async def test_a_short_name_of_a_restored_kind_works_in_the_filter(harness: Harness) -> None:
    custom = orjson.dumps(obj("Ship", "one", "ns-1", api_version="sea.io/v1"))

    await harness.restore(
        definition("ships", "Ship", "sea.io"),
        files={"resources/ships.sea.io/namespaces/ns-1/one.json": custom},
        included_resources=["ship", "customresourcedefinitions"],
    )

    assert harness.world.created_of("ships.sea.io") == ["ns-1/one"]


async def test_without_definitions_discovery_is_not_refreshed(harness: Harness) -> None:
    await harness.restore(pod("pod-1"))

    assert harness.loads == 0


async def test_excluding_a_namespace_drops_definitions_too(harness: Harness) -> None:
    await harness.restore(definition("ships", "Ship", "sea.io"), excluded_namespaces=["x"])

    assert harness.world.created == []


SHIPS = {
    "resources/ships.sea.io/namespaces/ns-1/one.json": orjson.dumps(
        obj("Ship", "one", "ns-1", api_version="sea.io/v1", labels={"app": "a"})
    )
}
LEFT_OUT = (
    "error restoring ships.sea.io/ns-1/one: the cluster does not serve ships.sea.io; its definition is in the"
    " backup, and this restore leaves it out: pinnace restore create --from-backup backup-1 --object"
    " customresourcedefinitions/ships.sea.io"
)


@pytest.mark.found("R6")
@pytest.mark.parametrize(
    "spec",
    [
        {"included_namespaces": ["ns-1"]},
        {"excluded_namespaces": ["x"]},
        {"label_selector": LabelSelector(match_labels={"app": "a"})},
        {},
    ],
    ids=["namespace", "other namespace", "selector", "everything"],
)
async def test_definitions_that_objects_need_are_taken_along(harness: Harness, spec: dict[str, Any]) -> None:
    others = [] if not spec else [definition("boats", "Boat", "sea.io")]

    results = await harness.restore(definition("ships", "Ship", "sea.io"), *others, files=SHIPS, **spec)

    assert results.empty
    assert harness.world.created_of("ships.sea.io") == ["ns-1/one"]
    definitions = harness.world.created_of("customresourcedefinitions.apiextensions.k8s.io")
    assert definitions == ["ships.sea.io"], "those of other kinds are not"


@pytest.mark.found("R6")
@pytest.mark.parametrize(
    "spec",
    [
        {"include_cluster_resources": False},
        {"included_resources": ["ships.sea.io"]},
        {"excluded_resources": ["customresourcedefinitions"]},
    ],
    ids=["no cluster-scoped ones", "other kinds", "excluded"],
)
async def test_a_definition_that_is_left_out_is_named_with_the_command(
    harness: Harness, spec: dict[str, Any]
) -> None:
    results = await harness.restore(definition("ships", "Ship", "sea.io"), files=SHIPS, **spec)

    assert results.errors.namespaces["ns-1"] == [LEFT_OUT]
    assert harness.world.created_of("customresourcedefinitions.apiextensions.k8s.io") == []


@pytest.mark.found("R6")
async def test_from_an_untrusted_location_no_definition_is_taken_along_or_named(harness: Harness) -> None:
    harness.world.put(obj("Namespace", "ns-1"))
    harness.request_fields = {"limits": TenantLimits(creatable=frozenset({("sea.io", "ships")}))}
    results = await harness.restore(
        definition("ships", "Ship", "sea.io"), files=SHIPS, included_namespaces=["ns-1"]
    )
    assert results.errors.namespaces["ns-1"] == [LEFT_OUT.partition("; its definition")[0]]
    assert harness.world.created == []


@pytest.mark.spec("RST-034")
@pytest.mark.found("U7")
async def test_an_archive_without_resources_is_a_warning(harness: Harness) -> None:
    results = await harness.restore(files={})

    assert results.warnings.velero == ["nothing was restored: the backup holds no object"]
    assert results.errors.count == 0


@pytest.mark.found("U5")
async def test_hooks_that_name_a_namespace_without_restored_objects_are_warnings(harness: Harness) -> None:
    def hooks(name: str, *namespaces: str) -> RestoreResourceHookSpec:
        return RestoreResourceHookSpec(name=name, included_namespaces=list(namespaces))

    chosen = [hooks("a", "ns-1"), hooks("b", "new", "*"), hooks("c", "ns-3"), hooks("d", "n*", "x*")]
    mapped = await harness.restore(
        pod("p"),
        pod("p", "ns-2"),
        namespace_mapping={"ns-1": "new"},
        hooks=RestoreHooks(resources=chosen),
    )

    assert mapped.warnings.velero == [
        'the hooks "a" (spec.hooks) name the namespace ns-1: it is restored as new, and hooks are chosen by'
        " the new namespace",
        'the hooks "c" (spec.hooks) name the namespace ns-3: nothing is restored into it; did you mean ns-2?',
        'the hooks "d" (spec.hooks) name the namespace x*: nothing is restored into it',
    ]


@pytest.mark.spec("RST-035")
async def test_a_broken_item_is_an_error_of_its_namespace_and_the_rest_is_restored(harness: Harness) -> None:
    results = await harness.restore(
        pod("pod-2"), files={"resources/pods/namespaces/ns-1/pod-1.json": b"{not json"}
    )

    assert harness.world.created_of("pods") == ["ns-1/pod-2"]
    assert list(results.errors.namespaces) == ["ns-1"]
    assert (
        'error decoding "resources/pods/namespaces/ns-1/pod-1.json": ' in results.errors.namespaces["ns-1"][0]
    )


async def test_a_broken_item_is_reported_under_a_label_selector_too(harness: Harness) -> None:
    results = await harness.restore(
        files={"resources/pods/namespaces/ns-1/pod-1.json": b"[]"},
        label_selector=LabelSelector(match_labels={"a": "b"}),
        namespace_mapping={"ns-1": "m1"},
    )

    assert list(results.errors.namespaces) == ["m1"]


@pytest.mark.spec("RST-037")
async def test_kinds_of_one_name_in_several_groups_are_kept_apart(tmp_path: Any) -> None:
    harness = Harness(tmp_path, world_of())
    harness.discovery = discovery(("other.io", "v1", "pods", "Pod", True))
    other = orjson.dumps(obj("Pod", "p", "ns-1", api_version="other.io/v1"))

    await harness.restore(
        pod("p"), volume("pv-1"), files={"resources/pods.other.io/namespaces/ns-1/p.json": other}
    )

    assert harness.world.created_of("pods") == ["ns-1/p"]
    assert harness.world.created_of("pods.other.io") == ["ns-1/p"]
    assert harness.world.created_of("persistentvolumes") == ["pv-1"]
