"""Filters by namespace and kind: what a document may say and what it chooses. (docs/spec/after-1.18.md, 2)"""

import pytest

from pinnace.api.resource_policies import PolicyError, read_policies, read_restore_policies
from pinnace.api.selection.filter_policies import AmbiguousKind, ResolvedPolicies
from pinnace.api.selection.names import MAX_PATTERN_CHARACTERS

KNOWN = {
    "configmap": "configmaps", "configmaps": "configmaps", "cm": "configmaps",
    "secret": "secrets", "secrets": "secrets",
    "deployment": "deployments.apps", "deployments": "deployments.apps",
    "deployment.apps": "deployments.apps", "service": "services",
    "clusterrole": "clusterroles.rbac.authorization.k8s.io",
}  # fmt: skip
SERVICES = "services.serving.knative.dev"


def policies(*entries: str, cluster: str = "") -> ResolvedPolicies:
    document = "version: v1\n"
    if entries:
        document += f"namespacedFilterPolicies: [{', '.join(entries)}]\n"
    if cluster:
        document += f"clusterScopedFilterPolicy: {{resourceFilters: [{cluster}]}}\n"
    return read_policies(document).filters.resolved(lambda name: KNOWN.get(name.lower(), name))


def entry(namespace: str, *filters: str) -> str:
    return f"{{namespaces: [{namespace}], resourceFilters: [{', '.join(filters)}]}}"


def takes(given: ResolvedPolicies, kind: str, namespace: str, name: str = "x", **labels: str) -> bool | None:
    """Whether an object is chosen; None if the filters of the spec decide."""
    ruling = given.ruling(kind, namespace)
    return None if ruling is None else ruling.takes(name, labels)


@pytest.mark.spec("AFT-020")
def test_a_namespace_of_a_policy_has_the_kinds_that_it_lists_and_others_obey_the_spec() -> None:
    given = policies(entry("a", "{kinds: [ConfigMap]}"))
    assert takes(given, "configmaps", "a") is True
    assert takes(given, "secrets", "a") is False
    assert takes(given, "configmaps", "b") is None
    assert takes(given, "clusterroles.rbac.authorization.k8s.io", "") is None


@pytest.mark.spec("AFT-022")
def test_a_catch_all_takes_the_kinds_that_no_other_filter_names() -> None:
    given = policies(
        entry(
            "a",
            "{kinds: [cm], names: ['app-*'], excludedNames: [app-old]}",
            "{labelSelector: {matchLabels: {x: y}}}",
        )
    )
    assert takes(given, "configmaps", "a", "app-1") is True
    assert takes(given, "configmaps", "a", "app-old") is False
    assert takes(given, "configmaps", "a", "other", x="y") is False
    assert takes(given, "secrets", "a") is False
    assert takes(given, "secrets", "a", x="y") is True


@pytest.mark.spec("AFT-023")
def test_a_filter_without_selectors_has_no_label_filter() -> None:
    ruling = policies(entry("a", "{kinds: [Secret]}")).ruling("secrets", "a")
    assert ruling is not None
    assert ruling.filter is not None
    assert ruling.filter.labels.empty


@pytest.mark.spec("AFT-024")
def test_the_name_of_a_namespace_wins_over_a_pattern_that_stands_before_it() -> None:
    given = policies(entry("'team-*'", "{kinds: [Secret]}"), entry("team-a", "{kinds: [ConfigMap]}"))
    assert takes(given, "configmaps", "team-a") is True
    assert takes(given, "secrets", "team-a") is False
    assert takes(given, "secrets", "team-b") is True


@pytest.mark.spec("AFT-025")
def test_of_two_patterns_the_first_decides() -> None:
    given = policies(entry("'team-*'", "{kinds: [Secret]}"), entry("'*-a'", "{kinds: [ConfigMap]}"))
    assert takes(given, "secrets", "team-a") is True
    assert takes(given, "configmaps", "team-a") is False
    assert takes(given, "configmaps", "b-a") is True


@pytest.mark.spec("AFT-032")
@pytest.mark.parametrize("kind", ["cm", "ConfigMap", "configmaps"])
def test_kinds_are_found_by_plural_singular_and_short_name(kind: str) -> None:
    assert takes(policies(entry("a", f"{{kinds: [{kind}]}}")), "configmaps", "a") is True


@pytest.mark.spec("AFT-032")
def test_a_kind_with_its_group_is_found() -> None:
    assert takes(policies(entry("a", "{kinds: [Deployment.apps]}")), "deployments.apps", "a") is True


@pytest.mark.spec("AFT-034")
@pytest.mark.spec("AFT-035")
def test_an_object_that_another_one_needs_is_left_out_only_by_its_name() -> None:
    given = policies(entry("a", "{kinds: [cm], names: [one], labelSelector: {matchLabels: {x: y}}}"))
    assert given.admits_needed("secrets", "a", "any")
    assert given.admits_needed("configmaps", "a", "one")
    assert not given.admits_needed("configmaps", "a", "two")


@pytest.mark.spec("AFT-036")
def test_the_cluster_policy_decides_about_the_kinds_that_it_lists() -> None:
    given = policies(cluster="{kinds: [ClusterRole], names: ['x*']}")
    assert takes(given, "clusterroles.rbac.authorization.k8s.io", "", "xy") is True
    assert takes(given, "clusterroles.rbac.authorization.k8s.io", "", "y") is False
    assert takes(given, "storageclasses.storage.k8s.io", "") is None


@pytest.mark.spec("AFT-037")
def test_a_policy_for_all_namespaces_says_nothing_about_cluster_scoped_kinds() -> None:
    given = policies(entry("'*'", "{kinds: [cm]}"))
    assert takes(given, "clusterroles.rbac.authorization.k8s.io", "") is None
    assert takes(given, "secrets", "any") is False


@pytest.mark.spec("AFT-038")
def test_a_selector_with_not_in_takes_objects_without_the_label() -> None:
    selector = "{matchExpressions: [{key: e, operator: NotIn, values: [dev]}]}"
    given = policies(entry("a", f"{{kinds: [cm], labelSelector: {selector}}}"))
    assert takes(given, "configmaps", "a") is True
    assert takes(given, "configmaps", "a", e="dev") is False


@pytest.mark.spec("AFT-040")
def test_an_empty_selector_counts_as_absent() -> None:
    one, other = "{matchLabels: {x: y}}", "{matchLabels: {p: q}}"
    given = policies(
        entry("a", f"{{kinds: [cm], labelSelector: {{}}, orLabelSelectors: [{one}, {{}}, {other}]}}")
    )
    assert takes(given, "configmaps", "a", p="q") is True
    assert takes(given, "configmaps", "a") is False


def test_a_star_beside_other_kinds_is_no_catch_all() -> None:
    given = policies(entry("a", "{kinds: ['*', cm]}"))
    assert takes(given, "secrets", "a") is False


@pytest.mark.spec("AFT-056")
def test_a_kind_of_the_same_name_in_another_group_is_not_the_one_that_is_listed() -> None:
    given = policies(entry("a", "{kinds: [Service]}", "{labelSelector: {matchLabels: {x: y}}}"))
    assert takes(given, "services", "a") is True
    assert takes(given, SERVICES, "a") is False
    assert takes(given, SERVICES, "a", x="y") is True


@pytest.mark.spec("AFT-031")
@pytest.mark.spec("AFT-054")
def test_one_resource_in_two_words_is_ambiguous() -> None:
    with pytest.raises(AmbiguousKind, match=r"deployments\.apps") as caught:
        policies(entry("a", "{kinds: [Deployment]}", "{kinds: [deployments]}"))
    assert caught.value.resource == "deployments.apps"


SELECTOR = "{matchLabels: {x: y}}"
GT = "{matchExpressions: [{key: e, operator: Gt, values: ['1']}]}"
POD = "{kinds: [Pod]}"
PATTERN = "[0].namespaces[0]: wildcard pattern contains"
FILTER = "[0].resourceFilters[0]"


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        pytest.param(entries, problem, marks=pytest.mark.spec(case))
        for case, entries, problem in (
            ("AFT-027", ["{namespaces: []}"], "[0]: at least one namespace must be specified"),
            ("AFT-027", [entry("a")], "[0]: at least one resourceFilter must be specified"),
            (
                "AFT-027",
                [entry("a", "{names: [x]}")],
                f"{FILTER}: names or excludedNames cannot be specified for catch-all filters",
            ),
            (
                "AFT-027",
                [entry("b", POD), entry("a", "{kinds: ['*']}", "{}")],
                "[1]: only one catch-all resource filter is allowed",
            ),
            (
                "AFT-027",
                [entry("a", POD, "{kinds: [cm, Pod]}")],
                '[0]: kind "Pod" appears in both resourceFilters[0] and resourceFilters[1]',
            ),
            (
                "AFT-027",
                [entry("a", "{kinds: [Pod, Pod]}")],
                '[0]: kind "Pod" appears in both resourceFilters[0] and resourceFilters[0]',
            ),
            (
                "AFT-027",
                [entry("a", f"{{kinds: [Pod], labelSelector: {SELECTOR}, orLabelSelectors: [{SELECTOR}]}}")],
                f"{FILTER}: labelSelector and orLabelSelectors cannot co-exist",
            ),
            (
                "AFT-028",
                [entry("a", "{kinds: [Pod], names: ['[a']}")],
                f'{FILTER}.names[0]: invalid glob pattern "[a": ',
            ),
            (
                "AFT-028",
                [entry("a", "{kinds: [Pod], excludedNames: [b, '{a']}")],
                f'{FILTER}.excludedNames[1]: invalid glob pattern "{{a": ',
            ),
            ("AFT-029", [entry("'a**'", POD)], f"{PATTERN} consecutive asterisks (only single * allowed)"),
            ("AFT-029", [entry("'a{b}'", POD)], f"{PATTERN} unsupported characters: |, (, ), !, {{, }}, ,"),
            ("AFT-029", [entry("'a[]'", POD)], f"{PATTERN} empty bracket pattern '[]'"),
            ("AFT-029", [entry("'a[b'", POD)], f"{PATTERN} unclosed bracket '['"),
            ("AFT-029", [entry("'a]'", POD)], f"{PATTERN} unmatched closing bracket ']'"),
            (
                "AFT-026",
                [entry("'team-*'", POD), entry("'team-*'", "{kinds: [cm]}")],
                ": duplicate namespace pattern 'team-*' found in policies [0 1]",
            ),
            (
                "AFT-039",
                [entry("a", f"{{kinds: [Pod], labelSelector: {GT}}}")],
                f"{FILTER}: invalid label selector: ",
            ),
            (
                "AFT-039",
                [entry("a", f"{{kinds: [Pod], orLabelSelectors: [{SELECTOR}, {GT}]}}")],
                f"{FILTER}.orLabelSelectors[1]: invalid label selector: ",
            ),
            ("AFT-042", [entry("''", POD)], "[0].namespaces[0]: a namespace must not be empty"),
        )
    ],
)
def test_what_no_policy_of_namespaces_may_say_is_refused_with_its_place(
    entries: list[str], problem: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        policies(*entries)
    assert f"namespacedFilterPolicies{problem}" in str(caught.value)


@pytest.mark.parametrize(("pattern", "is_refused"), [("n%04d-*", True), ("n%04d", False)])
def test_patterns_that_take_minutes_are_refused_and_as_many_names_are_not(
    pattern: str, is_refused: bool
) -> None:
    """Each pattern is compared with each namespace."""
    limit = MAX_PATTERN_CHARACTERS // len(pattern % 0) + 1
    names = [", ".join(repr(pattern % each) for each in range(half, limit, 2)) for half in (0, 1)]
    entries = [f"{{namespaces: [{each}], resourceFilters: [{POD}]}}" for each in names]
    if not is_refused:
        assert takes(policies(*entries), "Pod", "n0007") is True
        return
    with pytest.raises(PolicyError, match="the patterns of namespaces have 16387 characters together"):
        policies(*entries)


@pytest.mark.spec("AFT-041")
def test_a_misspelt_key_is_refused() -> None:
    with pytest.raises(PolicyError, match="resourceFilter"):
        policies("{namespaces: [a], resourceFilter: []}")


@pytest.mark.spec("AFT-027")
@pytest.mark.parametrize(
    ("filters", "problem"),
    [
        ("[]", ": resourceFilters cannot be empty; remove the policy block entirely if it is not needed"),
        (
            "[{kinds: [a]}, {}]",
            ".resourceFilters[1]: kinds must be specified (catch-all is not supported)",
        ),
        (
            "[{kinds: [a]}, {kinds: [a]}]",
            ': kind "a" appears in both resourceFilters[0] and resourceFilters[1]',
        ),
    ],
)
def test_what_no_policy_of_the_cluster_may_say_is_refused(filters: str, problem: str) -> None:
    with pytest.raises(PolicyError) as caught:
        read_policies(f"version: v1\nclusterScopedFilterPolicy: {{resourceFilters: {filters}}}\n")
    assert f"clusterScopedFilterPolicy{problem}" in str(caught.value)


@pytest.mark.spec("AFT-051")
@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("volumePolicies: [{action: {type: skip}}]", "volumePolicies are not supported for restore"),
        (
            "includeExcludePolicy: {includedNamespaceScopedResources: [pods]}",
            "includeExcludePolicy is not supported for restore",
        ),
    ],
)
def test_a_restore_has_no_rules_for_backups(rule: str, problem: str) -> None:
    with pytest.raises(PolicyError, match=problem):
        read_restore_policies(f"version: v1\n{rule}\n")


def test_a_document_without_policies_leaves_everything_to_the_spec() -> None:
    filters = read_restore_policies("version: v1\n").filters
    assert not filters
    assert takes(filters.resolved(str), "pods", "a") is None
