"""What a backup collects: filters, namespaces, order, cohabitation, failing lists."""

import json
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.meta import LabelSelector
from pinnace.api.selection.label_choice import label_choice_errors
from pinnace.api.selection.validation import namespace_list_errors
from pinnace.api.velero.backup import BackupHooks, BackupResourceHookSpec
from pinnace.backup.errors import FatalBackupError
from pinnace.kube.errors import ConnectionFailed, status_error
from pinnace.kube.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    APIResource,
)
from pinnace.plugins.protocols import ResourceSelector
from tests.support.clock import TickingClock
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.backup.fakes import (
    EXTENSIONS_DEPLOYMENTS,
    NEW_EVENTS,
    FakeAction,
    a_backup,
    discovery_of,
    related,
    run_backup,
    thing,
    two_a_page,
)


def usual_cluster() -> ScriptedCluster:
    """Pods and deployments foo/bar and zoo/raz, volumes bar and baz."""
    cluster = two_a_page()
    cluster.add_all(PODS, "foo/bar", "zoo/raz").add_all(DEPLOYMENTS, "foo/bar", "zoo/raz")
    return cluster.add_all(PERSISTENT_VOLUMES, "bar", "baz")


def hooks_for(resource: str) -> BackupHooks:
    """Hooks for the pods of one resource filter."""
    return BackupHooks(resources=[BackupResourceHookSpec(name="h", included_resources=[resource])])


PODS_ONLY = ["pods/foo/bar", "pods/zoo/raz"]
DEPLOYMENTS_ONLY = ["deployments.apps/foo/bar", "deployments.apps/zoo/raz"]
VOLUMES = ["persistentvolumes/bar", "persistentvolumes/baz"]
FOO_ONLY = ["pods/foo/bar", "deployments.apps/foo/bar"]


@pytest.mark.spec("BKP-021")
async def test_everything_is_there_twice_after_the_version_file(tmp_path: Path) -> None:
    cluster = usual_cluster()
    outcome = await run_backup(tmp_path, cluster)
    assert outcome.names[0] == "metadata/version"
    places = {
        "pods": ("namespaces/foo/bar", "namespaces/zoo/raz"),
        "persistentvolumes": ("cluster/bar", "cluster/baz"),
        "deployments.apps": ("namespaces/foo/bar", "namespaces/zoo/raz"),
    }
    assert sorted(outcome.names[1:]) == sorted(
        f"resources/{resource}/{version}{place}.json"
        for resource, found in places.items()
        for place in found
        for version in ("v1-preferredversion/", "")
    )
    deployment = cluster.stored(DEPLOYMENTS, "bar", "foo")
    assert outcome.item("resources/deployments.apps/namespaces/foo/bar.json") == deployment
    assert (outcome.errors, outcome.warnings) == (0, 0)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {}, PODS_ONLY + VOLUMES + DEPLOYMENTS_ONLY, id="no filter", marks=pytest.mark.spec("BKP-021")
        ),
        pytest.param(
            {"included_resources": ["pods"]}, PODS_ONLY, id="pods", marks=pytest.mark.spec("BKP-022")
        ),
        pytest.param(
            {"excluded_resources": ["deployments"]},
            PODS_ONLY + VOLUMES,
            id="not deployments",
            marks=pytest.mark.spec("BKP-023"),
        ),
        pytest.param(
            {"included_namespaces": ["foo"]}, FOO_ONLY, id="one namespace", marks=pytest.mark.spec("BKP-024")
        ),
        pytest.param(
            {"excluded_namespaces": ["zoo"]},
            FOO_ONLY,
            id="not one namespace",
            marks=pytest.mark.spec("BKP-025"),
        ),
        pytest.param(
            {"include_cluster_resources": False},
            PODS_ONLY + DEPLOYMENTS_ONLY,
            id="no cluster resources",
            marks=pytest.mark.spec("BKP-026"),
        ),
        pytest.param(
            {"included_namespaces": ["foo", "zoo"], "include_cluster_resources": True},
            PODS_ONLY + VOLUMES + DEPLOYMENTS_ONLY,
            id="namespaces and cluster resources",
            marks=pytest.mark.spec("BKP-027"),
        ),
        pytest.param(
            {"included_namespaces": ["foo", "zoo"], "include_cluster_resources": False},
            PODS_ONLY + DEPLOYMENTS_ONLY,
            id="namespaces without cluster resources",
            marks=pytest.mark.spec("BKP-027"),
        ),
        pytest.param(
            {"include_cluster_resources": True},
            PODS_ONLY + VOLUMES + DEPLOYMENTS_ONLY,
            id="all with cluster resources",
            marks=pytest.mark.spec("BKP-027"),
        ),
        pytest.param(
            {"included_resources": ["*", "pods"], "excluded_resources": ["*"]},
            PODS_ONLY + VOLUMES + DEPLOYMENTS_ONLY,
            id="stars that validation would refuse",
            marks=pytest.mark.spec("BKP-028"),
        ),
        pytest.param(
            {"included_resources": ["pods", "unresolvable"]},
            PODS_ONLY,
            id="an unknown resource besides",
            marks=pytest.mark.spec("BKP-029"),
        ),
        pytest.param(
            {"included_resources": ["unresolvable"]}, [], id="only unknown", marks=pytest.mark.spec("BKP-029")
        ),
        pytest.param(
            {"excluded_resources": ["unresolvable"]},
            PODS_ONLY + VOLUMES + DEPLOYMENTS_ONLY,
            id="unknown excluded",
            marks=pytest.mark.spec("BKP-029"),
        ),
        pytest.param({"included_resources": ["*.apps"]}, DEPLOYMENTS_ONLY, id="glob of resources"),
        pytest.param(
            {"included_resources": ["Pods"]}, PODS_ONLY, id="other case", marks=pytest.mark.spec("BKP-065")
        ),
        pytest.param(
            {"included_resources": ["Deployment.apps"]},
            DEPLOYMENTS_ONLY,
            id="kind and group",
            marks=pytest.mark.spec("BKP-065"),
        ),
        pytest.param(
            {"included_resources": ["Po"]},
            [],
            id="short name in wrong case",
            marks=pytest.mark.spec("BKP-065"),
        ),
        pytest.param({"included_resources": ["po", "pv"]}, PODS_ONLY + VOLUMES, id="short names"),
        pytest.param({"included_namespaces": ["foo"], "excluded_namespaces": ["f*"]}, [], id="nothing left"),
        pytest.param({"included_namespace_scoped_resources": ["po"]}, PODS_ONLY, id="one namespaced kind"),
        pytest.param(
            {"included_cluster_scoped_resources": ["pv"], "excluded_namespace_scoped_resources": ["*"]},
            VOLUMES,
            id="only a cluster-scoped kind",
        ),
        pytest.param(
            {"included_namespaces": ["foo"], "included_cluster_scoped_resources": ["*"]},
            FOO_ONLY + VOLUMES,
            id="cluster-scoped kinds besides a namespace",
        ),
        pytest.param(
            {"included_namespaces": ["foo"], "excluded_cluster_scoped_resources": ["*"]},
            FOO_ONLY,
            id="no cluster-scoped kinds",
        ),
    ],
)
async def test_filters_select_the_items_of_a_backup(
    tmp_path: Path, spec: dict[str, Any], expected: list[str]
) -> None:
    outcome = await run_backup(tmp_path, usual_cluster(), a_backup(**spec))
    assert sorted(outcome.items) == sorted(expected)


@pytest.mark.spec("BKP-030")
async def test_label_selector_goes_to_the_server(tmp_path: Path) -> None:
    cluster = usual_cluster().add_all(PODS, "foo/labelled", labels={"a": "b"})
    cluster.add_all(PERSISTENT_VOLUMES, "labelled", labels={"a": "b"})
    backup = a_backup(label_selector=LabelSelector(match_labels={"a": "b"}))
    outcome = await run_backup(tmp_path, cluster, backup)
    assert outcome.items == ["pods/foo/labelled", "persistentvolumes/labelled"]
    lists = [call for call in cluster.placed_calls if call[0] == "list" and call[1] != "namespaces"]
    assert {call[3] for call in lists} == {"a=b"}


async def test_a_namespace_is_in_a_selective_backup_if_something_in_it_is(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(NAMESPACES, "empty", "full", "skipped")
    cluster.add_all(NAMESPACES, "chosen", labels={"a": "b"})
    for resource in (PODS, CONFIGMAPS):
        cluster.add_all(resource, "full/x", labels={"a": "b"}).add_all(resource, "empty/x")
    selector = LabelSelector(match_labels={"a": "b"})
    for names in ([], ["empty", "full", "chosen"], ["*l", "[ce]*"]):
        outcome = await run_backup(
            tmp_path, cluster, a_backup(label_selector=selector, included_namespaces=names)
        )
        assert sorted(outcome.items) == [
            "configmaps/full/x",
            "namespaces/chosen",
            "namespaces/full",
            "pods/full/x",
        ]
        assert (outcome.errors, outcome.warnings) == (0, 0)


@pytest.mark.parametrize("resource", [PODS, CONFIGMAPS])
@pytest.mark.parametrize("names", [[], ["gone", "there"], ["*"], ["g*", "th*"]])
async def test_a_namespace_that_is_being_deleted_is_left_out_with_a_warning(
    tmp_path: Path, resource: APIResource, names: list[str]
) -> None:
    cluster = (
        two_a_page()
        .add_all(NAMESPACES, "there")
        .add_all(NAMESPACES, "gone", deletionTimestamp="2021-08-11T21:00:00Z")
    )
    cluster.add_all(resource, "gone/rest", "there/x")
    outcome = await run_backup(tmp_path, cluster, a_backup(included_namespaces=names))

    assert sorted(outcome.items) == sorted([f"{resource.group_resource}/there/x", "namespaces/there"])
    assert (outcome.errors, outcome.warnings) == (0, 1)
    assert "Leaving out namespace gone with all that is still in it: it is being deleted" in outcome.log


@pytest.mark.spec("BEY-024")
async def test_an_object_that_several_selectors_match_is_in_the_backup_once(tmp_path: Path) -> None:
    cluster = two_a_page()
    for name, labels in (("both", {"a": "1", "b": "2"}), ("one", {"b": "2"}), ("other", {"b": "3"})):
        cluster.add_all(PODS, f"ns/{name}", labels=labels)
        cluster.add_all(SECRETS, f"ns/{name}", labels=labels)
    selectors = [LabelSelector(match_labels={"a": "1"}), LabelSelector(match_labels={"b": "2"})]
    outcome = await run_backup(tmp_path, cluster, a_backup(or_label_selectors=selectors))

    assert sorted(outcome.items) == sorted(
        f"{kind}/ns/{name}" for kind in ("pods", "secrets") for name in ("both", "one")
    )
    assert len(set(outcome.names)) == len(outcome.names)
    assert (outcome.errors, outcome.warnings) == (0, 0)
    assert label_choice_errors(selectors[0], selectors, "backup") == [
        "encountered labelSelector as well as orLabelSelectors in backup spec, only one can be specified"
    ]


@pytest.mark.found("Z3")
async def test_many_selectors_cost_one_list_of_each_kind(tmp_path: Path) -> None:
    cluster = two_a_page()
    for name, labels in (("in", {"k7": "v", "k999": "v"}), ("out", {"k7": "w"}), ("bare", {})):
        for kind in (PODS, SECRETS, CONFIGMAPS):
            cluster.add_all(kind, f"ns/{name}", labels=labels)
    selectors = [LabelSelector(match_labels={f"k{number}": "v"}) for number in range(1000)]
    outcome = await run_backup(tmp_path, cluster, a_backup(or_label_selectors=selectors))

    assert sorted(outcome.items) == sorted(f"{kind}/ns/in" for kind in ("pods", "secrets", "configmaps"))
    lists = [line for line in outcome.log.splitlines() if "Listing items" in line]
    assert len(lists) == len({line.split("resource=")[1].split()[0] for line in lists}) < 20
    assert (outcome.errors, outcome.warnings) == (0, 0)


async def test_empty_label_selector_matches_everything(tmp_path: Path) -> None:
    outcome = await run_backup(tmp_path, usual_cluster(), a_backup(label_selector=LabelSelector()))
    assert sorted(outcome.items) == sorted(PODS_ONLY + VOLUMES + DEPLOYMENTS_ONLY)
    assert outcome.errors == 0


@pytest.mark.spec("BKP-031")
@pytest.mark.parametrize("resource", [PODS, CONFIGMAPS])
async def test_an_item_with_the_exclusion_label_is_left_out(tmp_path: Path, resource: APIResource) -> None:
    cluster = two_a_page()
    for value in ("true", "false", "1", ""):
        cluster.add_all(resource, f"ns/v{value}", labels={"velero.io/exclude-from-backup": value, "a": "b"})
    backup = a_backup(label_selector=LabelSelector(match_labels={"a": "b"}))
    outcome = await run_backup(tmp_path, cluster, backup)
    name = resource.group_resource
    assert outcome.items == [f"{name}/ns/v", f"{name}/ns/v1", f"{name}/ns/vfalse"]


@pytest.mark.spec("BKP-032")
@pytest.mark.parametrize("resource", [PODS, CONFIGMAPS])
async def test_what_is_being_deleted_is_left_out(tmp_path: Path, resource: APIResource) -> None:
    cluster = (
        two_a_page()
        .add_all(resource, "ns/gone", deletionTimestamp="2021-08-11T21:00:00Z")
        .add_all(resource, "ns/there")
    )
    outcome = await run_backup(tmp_path, cluster)
    assert outcome.items == [f"{resource.group_resource}/ns/there"]


@pytest.mark.spec("BKP-033")
@pytest.mark.parametrize("include_cluster", [None, False])
async def test_included_namespaces_are_collected_by_name(
    tmp_path: Path, include_cluster: bool | None
) -> None:
    cluster = two_a_page().add_all(NAMESPACES, "ns-1", "ns-2")
    backup = a_backup(
        included_namespaces=["ns-1"],
        included_resources=["namespaces"],
        include_cluster_resources=include_cluster,
    )
    outcome = await run_backup(tmp_path, cluster, backup)
    assert outcome.names[1:] == [
        "resources/namespaces/v1-preferredversion/cluster/ns-1.json",
        "resources/namespaces/cluster/ns-1.json",
    ]


CLUSTER_SCOPED = "As a namespace is excluded, cluster-scoped objects are saved only if others need them: "


@pytest.mark.found("O03")
@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ({}, "--include-cluster-resources saves all, --include-cluster-resources=false says"),
        (
            {"included_namespaces": ["*"], "excluded_namespace_scoped_resources": ["x.y"]},
            "",
        ),
        (
            {"included_namespace_scoped_resources": ["*"]},
            "--include-cluster-scoped-resources '*' saves all, --exclude-cluster-scoped-resources '*' says",
        ),
        ({"include_cluster_resources": False}, ""),
        ({"include_cluster_resources": True}, ""),
        ({"excluded_cluster_scoped_resources": ["*"]}, ""),
        ({"included_cluster_scoped_resources": ["*"]}, ""),
        ({"included_resources": ["configmaps"]}, ""),
        ({"included_namespaces": ["ns-1"]}, ""),
        ({"excluded_namespaces": []}, ""),
    ],
)
async def test_an_excluded_namespace_that_takes_cluster_scoped_objects_away_is_a_warning(
    tmp_path: Path, fields: dict[str, Any], advice: str
) -> None:
    cluster = two_a_page().add_all(NAMESPACES, "ns-1", "ns-2").add_all(CONFIGMAPS, "ns-1/c")
    outcome = await run_backup(tmp_path, cluster, a_backup(**{"excluded_namespaces": ["ns-2"], **fields}))
    assert (CLUSTER_SCOPED in outcome.log) is bool(advice)
    assert advice in outcome.log


async def test_namespaces_listed_are_filtered_by_name(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(NAMESPACES, "ns-1", "ns-2", "ns-3")
    outcome = await run_backup(tmp_path, cluster, a_backup(excluded_namespaces=["ns-2"]))
    assert outcome.items == ["namespaces/ns-1", "namespaces/ns-3"]


@pytest.mark.spec("BEY-027")
async def test_missing_namespace_is_an_error_and_unselected_one_is_skipped(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(NAMESPACES, "plain").add_all(NAMESPACES, "labelled", labels={"a": "b"})
    backup = a_backup(
        included_namespaces=["labelled", "missing", "plain"],
        label_selector=LabelSelector(match_labels={"a": "b"}),
    )
    outcome = await run_backup(tmp_path, cluster, backup)
    assert outcome.items == ["namespaces/labelled"]
    assert outcome.errors == 1
    assert "Error getting namespace" in outcome.log


@pytest.mark.spec("BEY-027")
@pytest.mark.parametrize(
    ("includes", "excludes", "expected", "warnings"),
    [
        (["app-*"], [], ["app-a", "app-b"], 0),
        (["app-*", "db"], ["*-b"], ["app-a", "db"], 0),
        (["d?"], [], ["db"], 0),
        (["[ad]*"], [], ["app-a", "app-b", "db"], 0),
        (["x-*"], [], [], 2),
        (["*"], ["kube-*"], ["app-a", "app-b", "db"], 1),
    ],
)
async def test_globs_among_the_included_namespaces_select_by_name(
    tmp_path: Path, includes: list[str], excludes: list[str], expected: list[str], warnings: int
) -> None:
    cluster = two_a_page().add_all(NAMESPACES, "app-a", "app-b", "db", "kube-system")
    cluster.add_all(CONFIGMAPS, "app-a/c", "app-b/c", "db/c", "kube-system/c")
    backup = a_backup(included_namespaces=includes, excluded_namespaces=excludes)
    outcome = await run_backup(tmp_path, cluster, backup)
    found = [*(f"configmaps/{name}/c" for name in expected), *(f"namespaces/{name}" for name in expected)]
    assert sorted(outcome.items) == sorted(found)
    assert (outcome.errors, outcome.warnings) == (0, warnings)


@pytest.mark.spec("BEY-027")
@pytest.mark.parametrize(
    ("include", "expected"), [("ns?", ["ns1", "ns2", "ns3"]), ("ns[12]", ["ns1", "ns2"]), ("ns?2", ["ns12"])]
)
async def test_a_glob_counts_characters(tmp_path: Path, include: str, expected: list[str]) -> None:
    cluster = two_a_page().add_all(NAMESPACES, "ns1", "ns12", "ns2", "ns3")
    outcome = await run_backup(tmp_path, cluster, a_backup(included_namespaces=[include]))
    assert outcome.items == [f"namespaces/{name}" for name in expected]


EXCLUDED = {"velero.io/exclude-from-backup": "true"}


@pytest.mark.parametrize("resource", [PODS, CONFIGMAPS])
@pytest.mark.parametrize(
    ("spec", "warnings"),
    [
        pytest.param({}, 0, id="all namespaces"),
        pytest.param({"included_namespaces": ["s*"]}, 0, id="by a pattern"),
        pytest.param({"included_namespaces": ["secret", "seen"]}, 1, id="by its name"),
        pytest.param({"excluded_namespaces": ["secret"]}, 0, id="excluded besides"),
    ],
)
async def test_a_namespace_with_the_label_that_excludes_is_left_out_with_its_contents(
    tmp_path: Path, resource: APIResource, spec: dict[str, Any], warnings: int
) -> None:
    cluster = two_a_page().add_all(NAMESPACES, "seen").add_all(NAMESPACES, "secret", labels=EXCLUDED)
    cluster.add_all(resource, "seen/a", "secret/b")
    name = resource.group_resource
    # Objects that others need are no way around the label either.
    action = FakeAction(
        ResourceSelector(included_resources=(name,)), additional=lambda item: [related(SECRETS, "secret/s")]
    )
    cluster.add_all(SECRETS, "secret/s")

    outcome = await run_backup(tmp_path, cluster, a_backup(**spec), actions=[action])

    assert sorted(outcome.items) == sorted(["namespaces/seen", f"{name}/seen/a"])
    assert outcome.errors == 0
    left_out = [line for line in outcome.log.splitlines() if "Leaving out namespace secret" in line]
    assert len(left_out) == int("excluded_namespaces" not in spec)
    assert len([line for line in left_out if "level=warning" in line]) == warnings


async def test_cluster_scoped_objects_stay_in_where_a_namespace_is_left_out_by_its_label(
    tmp_path: Path,
) -> None:
    cluster = two_a_page().add_all(NAMESPACES, "secret", labels=EXCLUDED).add_all(PERSISTENT_VOLUMES, "pv")

    outcome = await run_backup(tmp_path, cluster)

    assert outcome.items == ["persistentvolumes/pv"]


async def test_a_backup_of_all_namespaces_whose_labels_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(CONFIGMAPS, "ns/c")
    cluster.refuse("list", "namespaces", status_error(403, {"message": "namespaces are forbidden"}))

    outcome = await run_backup(tmp_path, cluster)

    assert outcome.items == ["configmaps/ns/c"]
    assert outcome.errors == 2, "the labels, and the namespaces themselves"


@pytest.mark.found("op-61")
async def test_patterns_that_cannot_be_resolved_fail_the_backup_unless_namespaces_are_named(
    tmp_path: Path,
) -> None:
    cluster = two_a_page().add_all(CONFIGMAPS, "ns/c")
    cluster.refuse("list", "namespaces", status_error(403, {"message": "namespaces are forbidden"}))

    with pytest.raises(FatalBackupError, match=r"choose no namespace, as none can be listed: .*forbidden"):
        await run_backup(tmp_path, cluster, a_backup(included_namespaces=["n*"]))

    some = await run_backup(tmp_path, cluster, a_backup(included_namespaces=["n*", "ns"]))
    assert "configmaps/ns/c" in some.items


async def test_a_user_who_may_not_read_namespaces_backs_up_a_named_one(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(CONFIGMAPS, "own/c")
    forbidden = status_error(403, {"message": "forbidden"})
    for listed in ("namespaces", "clusterrolebindings.rbac.authorization.k8s.io"):
        cluster.refuse("list", listed, forbidden)
        cluster.refuse("get", listed, forbidden)
    backup = a_backup(included_namespaces=["own"], included_resources=["configmaps"])

    outcome = await run_backup(tmp_path, cluster, backup)

    assert (outcome.items, outcome.errors, outcome.warnings) == (["configmaps/own/c"], 0, 0)


@pytest.mark.parametrize("namespaces", [["nosuch"], ["nosuch", "ns*"]])
@pytest.mark.parametrize("resources", [[], ["configmaps"]])
async def test_a_named_namespace_that_does_not_exist_is_one_error(
    tmp_path: Path, namespaces: list[str], resources: list[str]
) -> None:
    cluster = two_a_page().add_all(NAMESPACES, "ns")
    backup = a_backup(included_namespaces=namespaces, included_resources=resources)

    outcome = await run_backup(tmp_path, cluster, backup)

    assert outcome.errors == 1
    assert r"namespaces \"nosuch\" not found" in outcome.log


@pytest.mark.spec("BKP-029")
@pytest.mark.parametrize(
    ("spec", "errors", "warnings", "text"),
    [
        ({"included_resources": ["pods", "deploymnets"]}, 1, 0, "did you mean deployments"),
        ({"included_resources": ["pods", "*.zoo"]}, 0, 1, "matches no resource"),
        ({"excluded_resources": ["secrts"]}, 0, 1, "did you mean secret"),
        ({"ordered_resources": {"pdos": "ns/a"}}, 0, 1, "did you mean pods"),
        ({"hooks": hooks_for("pdo")}, 0, 1, "did you mean po or pod"),
    ],
)
async def test_a_kind_that_is_not_served_is_named(
    tmp_path: Path, spec: dict[str, Any], errors: int, warnings: int, text: str
) -> None:
    outcome = await run_backup(tmp_path, usual_cluster(), a_backup(**spec))

    assert (outcome.errors, outcome.warnings) == (errors, warnings)
    assert text in outcome.log


@pytest.mark.parametrize(
    "spec",
    [
        {"label_selector": LabelSelector(match_labels={"app": "nosuch"})},
        {"included_resources": ["secrets"]},
        {"included_namespaces": ["x*"], "included_resources": ["pods"]},
    ],
)
async def test_a_backup_that_selects_nothing_has_a_warning(tmp_path: Path, spec: dict[str, Any]) -> None:
    outcome = await run_backup(tmp_path, usual_cluster(), a_backup(**spec))

    assert outcome.warnings >= 1
    assert "The backup is empty" in outcome.log
    assert "The backup is empty" not in (await run_backup(tmp_path, usual_cluster())).log


async def test_literal_namespaces_are_listed_one_by_one(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(CONFIGMAPS, "b/x", "a/x", "c/x")
    backup = a_backup(included_namespaces=["b", "a"], included_resources=["configmaps"])
    outcome = await run_backup(tmp_path, cluster, backup)
    assert sorted(cluster.placed_calls) == [
        ("get", "namespaces", "", "a"),
        ("get", "namespaces", "", "b"),
        ("list", "configmaps", "a", ""),
        ("list", "configmaps", "b", ""),
        ("list", "namespaces", "", ""),  # for names that the missing ones may have been meant to be
    ]
    assert outcome.items == ["configmaps/a/x", "configmaps/b/x"]


@pytest.mark.spec("BKP-037")
async def test_ordered_resources_are_collected_first(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(PODS, "ns1/pod1", "ns1/pod2", "ns1/pod3")
    cluster.add_all(PERSISTENT_VOLUMES, "pv1", "pv2", "pv3")
    backup = a_backup(ordered_resources={"pods": "ns1/pod2,ns1/pod1", "persistentvolumes": "pv5,pv2,pv1"})
    outcome = await run_backup(tmp_path, cluster, backup)
    assert outcome.items == [
        "pods/ns1/pod2",
        "pods/ns1/pod1",
        "pods/ns1/pod3",
        "persistentvolumes/pv2",
        "persistentvolumes/pv1",
        "persistentvolumes/pv3",
    ]
    assert outcome.warnings == 1
    assert "Cannot find resource 'pv5'." in outcome.log


async def test_order_names_only_what_would_be_collected(tmp_path: Path) -> None:
    cluster = (
        two_a_page()
        .add_all(CONFIGMAPS, "in/a", "in/b", "out/c")
        .add_all(CONFIGMAPS, "in/d", labels={"a": "b"})
    )
    backup = a_backup(
        included_namespaces=["in"],
        included_resources=["configmaps"],
        ordered_resources={"configmaps": "in/b,in/b,out/c,b"},
    )
    outcome = await run_backup(tmp_path, cluster, backup)
    assert outcome.items == ["configmaps/in/b", "configmaps/in/a", "configmaps/in/d"]
    assert outcome.warnings == 3


@pytest.mark.spec("BKP-038")
async def test_deployments_are_taken_from_one_group(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(DEPLOYMENTS, "ns/d").add_all(EXTENSIONS_DEPLOYMENTS, "ns/d")
    both = discovery_of([EXTENSIONS_DEPLOYMENTS, DEPLOYMENTS])
    for _ in range(2):
        outcome = await run_backup(tmp_path, cluster, discovery=both)
        assert outcome.items == ["deployments.apps/ns/d"]
    outcome = await run_backup(tmp_path, cluster, discovery=discovery_of([EXTENSIONS_DEPLOYMENTS]))
    assert outcome.items == ["deployments.extensions/ns/d"]


async def test_cohabitation_is_limited_to_its_groups(tmp_path: Path) -> None:
    foreign = APIResource(
        group="example.com", version="v1", name="deployments", kind="Deployment", namespaced=True
    )
    cluster = (
        two_a_page()
        .add_all(DEPLOYMENTS, "ns/d")
        .add_all(foreign, "ns/f")
        .add_all(EVENTS, "ns/e")
        .add_all(NEW_EVENTS, "ns/e")
    )
    served = discovery_of([EVENTS, DEPLOYMENTS, foreign, NEW_EVENTS])
    outcome = await run_backup(tmp_path, cluster, discovery=served)
    assert outcome.items == ["events/ns/e", "deployments.apps/ns/d", "deployments.example.com/ns/f"]
    outcome = await run_backup(tmp_path, cluster, a_backup(excluded_resources=["events"]), discovery=served)
    assert outcome.items[-1] == "events.events.k8s.io/ns/e"


async def test_other_versions_have_one_copy(tmp_path: Path) -> None:
    beta = APIResource(
        group="apps", version="v1beta1", name="deployments", kind="Deployment", namespaced=True
    )
    cluster = two_a_page().add_all(DEPLOYMENTS, "ns/d")
    served = discovery_of([DEPLOYMENTS, beta], all_versions=True)
    outcome = await run_backup(tmp_path, cluster, discovery=served)
    assert outcome.names[1:] == [
        "resources/deployments.apps/v1-preferredversion/namespaces/ns/d.json",
        "resources/deployments.apps/namespaces/ns/d.json",
        "resources/deployments.apps/v1beta1/namespaces/ns/d.json",
    ]


async def test_failing_list_is_an_error_and_the_rest_continues(tmp_path: Path) -> None:
    cluster = usual_cluster().add_all(SECRETS, "foo/s")
    cluster.refuse("list", "pods", status_error(403, {"message": "pods is forbidden"}))
    cluster.refuse("list", "secrets", ConnectionFailed("cut"))
    outcome = await run_backup(tmp_path, cluster)
    assert sorted(outcome.items) == sorted(VOLUMES + DEPLOYMENTS_ONLY)
    assert outcome.errors == 2
    assert "pods is forbidden" in outcome.log


async def test_list_that_breaks_half_way_is_never_silent(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(CONFIGMAPS, "ns/a", "ns/b", "ns/c")
    cluster.refuse("page", "configmaps", status_error(500, {"message": "etcd is gone"}))
    outcome = await run_backup(tmp_path, cluster)
    assert outcome.items == ["configmaps/ns/a", "configmaps/ns/b"]
    assert outcome.errors == 1


@pytest.mark.parametrize("resource", [CONFIGMAPS, PODS])
async def test_restarted_list_gives_nothing_twice(tmp_path: Path, resource: APIResource) -> None:
    cluster = two_a_page().add_all(resource, "ns/a", "ns/b", "ns/c")
    cluster.offers_tokens = False

    def expire(verb: str, _plural: str, _name: str) -> None:
        if verb == "page" and "page" not in {each.verb for each in cluster.requests[:-1]}:
            cluster.add_all(SECRETS, "ns/later")
            cluster.compact()

    cluster.before = expire
    outcome = await run_backup(tmp_path, cluster)
    name = resource.group_resource
    assert outcome.items == [f"{name}/ns/a", f"{name}/ns/b", f"{name}/ns/c"]
    assert outcome.errors == 0


@pytest.mark.spec("BKP-062", "BKP-063")
async def test_the_resource_list_and_the_progress_have_all_items(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(PODS, "ns2/pod2", "ns1/pod1").add_all(DEPLOYMENTS, "default/my-deploy")
    cluster.add_all(PERSISTENT_VOLUMES, "my-pv")
    outcome = await run_backup(tmp_path, cluster, clock=TickingClock())
    assert outcome.result.resource_list == {
        "apps/v1/Deployment": ["default/my-deploy"],
        "v1/PersistentVolume": ["my-pv"],
        "v1/Pod": ["ns1/pod1", "ns2/pod2"],
    }
    progress = outcome.result.progress
    assert (progress.total_items, progress.items_backed_up) == (4, 4)
    assert outcome.progress[0].total_items >= outcome.progress[0].items_backed_up == 2


async def test_the_estimate_is_logged_for_each_item(tmp_path: Path) -> None:
    cluster = ScriptedCluster(page_size=1).add_all(CONFIGMAPS, "ns/a", "ns/b", "ns/c")
    outcome = await run_backup(tmp_path, cluster, a_backup(included_resources=["configmaps"]))
    lines = [line for line in outcome.log.splitlines() if "Backed up" in line]
    assert [line.split('msg="')[1].split(" (")[0] for line in lines] == [
        f"Backed up {done} items out of an estimated total of 3" for done in (1, 2, 3)
    ]
    assert "backup=velero/b1" in lines[0]
    assert "name=a namespace=ns progress= resource=configmaps" in lines[0]


async def test_items_are_stored_with_all_their_fields(tmp_path: Path) -> None:
    extra = {"data": {"x": "<&>\u2028"}, "big": 2**62, "float": 1.5}
    cluster = two_a_page().put_all(CONFIGMAPS, {**thing(CONFIGMAPS, "a", "ns"), **extra})
    outcome = await run_backup(tmp_path, cluster)
    path = "resources/configmaps/namespaces/ns/a.json"
    assert json.loads(outcome.members[path]) == {**cluster.stored(CONFIGMAPS, "a", "ns"), **extra}
    assert (
        outcome.members[path]
        == outcome.members["resources/configmaps/v1-preferredversion/namespaces/ns/a.json"]
    )


@pytest.mark.spec("BEY-027")
@pytest.mark.parametrize(
    ("included", "excluded", "expected", "warnings", "errors"),
    [
        (["app-*"], [], {"app-a", "app-b"}, 0, 0),
        (["app-*", "db"], ["*-b"], {"app-a", "db"}, 0, 0),
        (["ns?"], [], {"ns1", "ns2", "ns3"}, 0, 0),
        (["ns[12]"], [], {"ns1", "ns2"}, 0, 0),
        (["x-*"], [], set(), 2, 0),
        (["*"], ["kube-*"], {"app-a", "app-b", "db", "ns1", "ns2", "ns3", "ns12"}, 1, 0),
        (["missing"], [], set(), 1, 1),
        (["missing", "db"], [], {"db"}, 0, 1),
    ],
)
async def test_which_namespaces_patterns_mean(
    tmp_path: Path,
    included: list[str],
    excluded: list[str],
    expected: set[str],
    warnings: int,
    errors: int,
) -> None:
    cluster = two_a_page()
    for name in ("app-a", "app-b", "db", "kube-system", "ns1", "ns2", "ns3", "ns12"):
        cluster.add_all(NAMESPACES, name).add_all(CONFIGMAPS, f"{name}/m")
    spec = {"included_namespaces": included, "excluded_namespaces": excluded}
    outcome = await run_backup(tmp_path, cluster, a_backup(**spec))

    assert {item.split("/")[1] for item in outcome.items} == expected
    assert (outcome.warnings, outcome.errors) == (warnings, errors)
    assert namespace_list_errors(included, excluded) == []


@pytest.mark.found("P15")
@pytest.mark.parametrize(
    ("name", "wanted", "warnings"),
    [
        (
            "example.io/p",
            ["nosuchthing", "secrets", "cm"],
            ["Plugin example.io/p is called for no nosuchthing"],
        ),
        ("example.io/p", ["configmap"], []),
        ("example.io/p", [], []),
        ("example.io/p", ["*"], []),
        ("velero.io/csi", ["volumesnapshots.snapshot.storage.k8s.io"], []),
    ],
    ids=["misspelt", "served", "all", "star", "velero's own"],
)
async def test_a_kind_that_a_plugin_names_and_that_does_not_exist_is_a_warning(
    tmp_path: Path, name: str, wanted: list[str], warnings: list[str]
) -> None:
    action = FakeAction(ResourceSelector(included_resources=wanted), name=name)

    cluster = two_a_page().add_all(NAMESPACES, "shop").add_all(SECRETS, "shop/s")
    outcome = await run_backup(tmp_path, cluster, a_backup(), actions=[action])

    logged = [line for line in outcome.log.splitlines() if "is called for no" in line]
    assert outcome.warnings == len(warnings) == len(logged)
    assert all(text in line and "level=warning" in line for text, line in zip(warnings, logged, strict=True))
