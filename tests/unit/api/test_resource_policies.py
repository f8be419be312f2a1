"""Resource policies: reading the document, and which rule is for which volume. (docs/spec: BEY 4.7, 4.8)"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.resource_policies import (
    PolicyError,
    VolumeAction,
    facts_of,
    read_policies,
)
from pinnace.api.selection.resource_filters import ScopedLists
from pinnace.api.strict_yaml import only_document, read_yaml

GIB = 2**30


def document(conditions: str, action: str = "skip") -> str:
    return f"""
version: v1
volumePolicies:
- conditions: {conditions}
  action: {{type: {action}}}
"""


def persistent(capacity: str = "100Gi", storage_class: str = "gp2", **source: Any) -> dict[str, Any]:
    spec = {"capacity": {"storage": capacity}, "storageClassName": storage_class, **source}
    return {"metadata": {"name": "pv"}, "spec": spec}


def claim(phase: str = "Bound", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "c", "namespace": "ns", "labels": labels}, "status": {"phase": phase}}


def matches(conditions: str, **known: Any) -> bool:
    rule = read_policies(document(conditions)).rule_for(facts_of(**known))
    return rule is not None and rule.action is VolumeAction.SKIP


CSI: dict[str, Any] = {"csi": {"driver": "a", "volumeAttributes": {"k": "v", "l": "w"}}}
ATTRIBUTES = "{csi: {driver: a, volumeAttributes: {k: %s}}}"
NFS: dict[str, Any] = {"nfs": {"server": "s", "path": "/x"}}


@pytest.mark.parametrize(
    ("conditions", "known", "expected"),
    [
        pytest.param(conditions, known, expected, marks=pytest.mark.spec(case))
        for case, conditions, known, expected in (
            ("BEY-031", '{capacity: "0,100Gi"}', {"persistent": persistent("100Gi")}, True),
            ("BEY-031", '{capacity: "0,100Gi"}', {"persistent": persistent("101Gi")}, False),
            ("BEY-031", '{capacity: ""}', {"persistent": persistent("101Gi")}, True),
            ("BEY-031", '{capacity: "100Gi,"}', {"persistent": persistent("200Gi")}, True),
            ("BEY-031", '{capacity: "100Gi,"}', {"persistent": persistent("99Gi")}, False),
            ("BEY-031", '{capacity: ",10Gi"}', {"volume": {"name": "v", "emptyDir": {}}}, True),
            ("BEY-032", "{csi: {}}", {"persistent": persistent(**CSI)}, True),
            ("BEY-032", "{csi: {}}", {"persistent": persistent(**NFS)}, False),
            ("BEY-032", "{csi: {driver: a}}", {"persistent": persistent(**CSI)}, True),
            ("BEY-032", "{csi: {driver: b}}", {"persistent": persistent(**CSI)}, False),
            (
                "BEY-032",
                "{csi: {driver: a, volumeAttributes: {k: v}}}",
                {"persistent": persistent(**CSI)},
                True,
            ),
            (
                "BEY-032",
                "{csi: {driver: a, volumeAttributes: {k: w}}}",
                {"persistent": persistent(**CSI)},
                False,
            ),
            ("BEY-033", "{nfs: {path: /x}}", {"persistent": persistent(**NFS)}, True),
            ("BEY-033", "{nfs: {path: /y}}", {"persistent": persistent(**NFS)}, False),
            ("BEY-033", "{nfs: {}}", {"persistent": persistent(**NFS)}, True),
            ("BEY-033", "{nfs: {}}", {"volume": {"name": "v", **NFS}}, True),
            ("BEY-033", "{nfs: {}}", {"persistent": persistent(**CSI)}, False),
            ("BEY-034", "{pvcLabels: {app: db, tier: 1}}", {"claim": claim(app="db")}, False),
            ("BEY-034", "{pvcLabels: {app: db, tier: 1}}", {"claim": claim(app="db", tier="1", z="2")}, True),
            ("BEY-035", "{pvcPhase: [Pending]}", {"claim": claim("Pending")}, True),
            ("BEY-035", "{pvcPhase: [Pending]}", {"claim": claim("Bound")}, False),
        )
    ],
)
def test_which_volumes_a_condition_selects(conditions: str, known: dict[str, Any], expected: bool) -> None:
    assert matches(conditions, **known) is expected


@pytest.mark.parametrize(
    ("conditions", "known", "expected"),
    [
        ("{storageClass: [gp2, other]}", {"persistent": persistent()}, True),
        ("{storageClass: [other]}", {"persistent": persistent()}, False),
        ("{storageClass: [gp2]}", {"volume": {"name": "v", "emptyDir": {}}}, False),
        ("{storageClass: [gp2], pvcPhase: [Pending]}", {"claim": claim("Pending")}, False),
        ("{volumeTypes: [emptyDir, configMap]}", {"volume": {"name": "v", "emptyDir": {}}}, True),
        ("{volumeTypes: [nfs]}", {"volume": {"name": "v", "emptyDir": {}}}, False),
        ("{volumeTypes: [unheardOf]}", {"volume": {"name": "v", "unheardOf": {}}}, False),
        ("{volumeTypes: [storageOS]}", {"volume": {"name": "v", "storageos": {}}}, True),
        ("{volumeTypes: [storageos]}", {"volume": {"name": "v", "storageos": {}}}, True),
        ("{volumeTypes: [csi]}", {"persistent": persistent(**CSI)}, True),
        ("{csi: , storageClass: }", {"persistent": persistent(**NFS)}, True),
        ("{}", {"claim": claim("Lost")}, True),
        ('{storageClass: [gp2], capacity: "1Ti,"}', {"persistent": persistent()}, False),
    ],
)
def test_all_conditions_hold_and_absent_ones_do(
    conditions: str, known: dict[str, Any], expected: bool
) -> None:
    assert matches(conditions, **known) is expected


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_a_capacity_is_between_both_ends_unless_one_is_zero(least: int, most: int, size: int) -> None:
    written = document(f'{{capacity: "{least}Gi,{most}Gi"}}')
    if most and least > most:
        with pytest.raises(PolicyError, match="must not be larger"):
            read_policies(written)
        return
    found = read_policies(written).rule_for(facts_of(persistent=persistent(str(size * GIB))))
    assert (found is not None) == (size >= least and (not most or size <= most))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, marks=pytest.mark.spec(case))
        for case, text in (
            ("BEY-030", "version: v2\n"),
            ("BEY-030", "volumePolicies: []\n"),
            ("BEY-030", "version: v1\nvolumePolices: []\n"),
            ("BEY-030", "version: v1\nversion: v1\n"),
            ("BEY-031", document('{capacity: "5Gi"}')),
            ("BEY-031", document('{capacity: "10Gi,5Gi"}')),
            ("BEY-031", document('{capacity: "1,2,3"}')),
            ("BEY-032", document("{csi: {volumeAttributes: {k: v}}}")),
            ("BEY-034", document("{pvcLabels: [app]}")),
            ("BEY-026", "version: v1\nincludeExcludePolicy: {includedClusterScopedResources: ['*']}\n"),
            (
                "BEY-026",
                "version: v1\nincludeExcludePolicy:\n  includedNamespaceScopedResources: [pods]\n"
                "  excludedNamespaceScopedResources: [pods]\n",
            ),
        )
    ],
)
def test_a_document_that_is_not_valid_is_refused(text: str) -> None:
    with pytest.raises(PolicyError):
        read_policies(text)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "a: b", "{", document("{}", "delete"), document("{size: 1}"), "a: &x [*x]", "? [a]\n: b"],
)
def test_what_is_no_policy_at_all_is_refused(text: str) -> None:
    with pytest.raises(PolicyError):
        read_policies(text)


def test_a_small_text_with_a_huge_meaning_is_refused() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcde", "bcdef", strict=True)
    )
    with pytest.raises(ValueError, match="more than"):
        read_yaml(bomb)


def test_the_first_rule_that_matches_decides() -> None:
    policies = read_policies(
        """
version: v1
volumePolicies:
- conditions: {storageClass: [fast]}
  action: {type: snapshot}
- conditions: {csi: {}}
  action: {type: fs-backup}
- conditions: {}
  action: {type: custom, parameters: {any: [thing, 1]}}
includeExcludePolicy:
  excludedNamespaceScopedResources: [configmaps]
""",
        "rules",
    )
    fast, slow = persistent(storage_class="fast", **CSI), persistent(**CSI)
    rules = [policies.rule_for(facts_of(persistent=each)) for each in (fast, slow, persistent(**NFS))]
    assert [rule and (rule.action, rule.source) for rule in rules] == [
        (VolumeAction.SNAPSHOT, "rules"),
        (VolumeAction.FS_BACKUP, "rules"),
        (VolumeAction.CUSTOM, "rules"),
    ]
    assert policies.lists == ScopedLists(excluded_namespaced=("configmaps",))


def test_scalars_are_texts_and_null_is_none() -> None:
    assert read_yaml("a: 1\nb: true\nc:\nd: 'null'\ne: 0,5\n") == {
        "a": "1", "b": "true", "c": None, "d": "null", "e": "0,5",
    }  # fmt: skip


@pytest.mark.parametrize("data", [{}, None, {"a": "1", "b": "2"}])
def test_a_config_map_has_exactly_one_key(data: Any) -> None:
    with pytest.raises(ValueError, match="exactly one key"):
        only_document({"data": data})
    assert only_document({"data": {"any": "text"}}) == "text"


@pytest.mark.found("G6")
def test_a_mover_that_only_later_versions_of_velero_have_is_named() -> None:
    with pytest.raises(PolicyError, match=r"the dataMover velero-block is not supported \(Velero 1\.19\)"):
        read_policies(document("{}", "snapshot, parameters: {dataMover: velero-block}"))


@pytest.mark.found("G6")
@pytest.mark.parametrize(
    "action",
    [
        "snapshot, parameters: {dataMover: velero-fs}",
        "custom, parameters: {dataMover: velero-block, snapshotClass: fast}",
    ],
)
def test_parameters_that_change_nothing_here_pass(action: str) -> None:
    assert len(read_policies(document("{}", action)).rules) == 1


@pytest.mark.spec("AFT-099")
def test_image_volumes_are_matched_by_their_type() -> None:
    image = {"name": "v", "image": {"reference": "example.com/i:1"}}
    assert matches("{volumeTypes: [image]}", volume=image)
    assert not matches("{volumeTypes: [image]}", volume={"name": "v", "emptyDir": {}})


def claim_with(mode: str = "", *modes: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"accessModes": list(modes)} | ({"volumeMode": mode} if mode else {})
    return {"metadata": {"name": "c", "namespace": "ns"}, "spec": spec}


@pytest.mark.parametrize(
    ("conditions", "claim_of", "expected"),
    [
        pytest.param(conditions, claim_of, expected, marks=pytest.mark.spec(case))
        for case, conditions, claim_of, expected in (
            ("AFT-090", "{pvcVolumeMode: Block}", claim_with("Block"), True),
            ("AFT-090", "{pvcVolumeMode: block}", claim_with("Block"), False),
            ("AFT-090", "{pvcVolumeMode: Block}", claim_with(), False),
            ("AFT-090", "{pvcVolumeMode: Block}", None, False),
            ("AFT-091", "{pvcAccessModes: [A, B]}", claim_with("", "B", "A"), True),
            ("AFT-091", "{pvcAccessModes: [A, B]}", claim_with("", "A"), False),
            ("AFT-091", "{pvcAccessModes: [A]}", claim_with("", "A", "B"), False),
            ("AFT-091", "{pvcAccessModes: [A]}", None, False),
            ("AFT-091", "{pvcAccessModes: []}", claim_with("", "A"), True),
        )
    ],
)
def test_conditions_on_the_claim_itself(
    conditions: str, claim_of: dict[str, Any] | None, expected: bool
) -> None:
    assert matches(conditions, claim=claim_of) is expected


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        pytest.param(written, problem, marks=pytest.mark.spec(case))
        for case, written, problem in (
            ("AFT-090", document("{pvcVolumeMode: [Block]}"), "pvcVolumeMode must be a string, got a list"),
            (
                "AFT-091",
                document("{pvcAccessModes: A}"),
                "pvcAccessModes must be a list of strings, got ",
            ),
            (
                "AFT-091",
                document("{pvcAccessModes: [{}]}"),
                "pvcAccessModes must be a list of strings, got element a mapping",
            ),
            (
                "AFT-092",
                document("{}", "skip, parameters: {dataMover: velero}"),
                'parameter "dataMover" is only supported for the "snapshot" action, but the action type is'
                ' "skip"',
            ),
            (
                "AFT-092",
                document("{}", "snapshot, parameters: {dataMover: foo}"),
                'invalid "dataMover" value "foo", valid values are "velero", "velero-fs", "velero-block"',
            ),
            (
                "AFT-092",
                document("{}", "snapshot, parameters: {dataMover: [a]}"),
                'parameter "dataMover" must be a string, got a list',
            ),
            (
                "AFT-095",
                document("{}", 'snapshot, parameters: {snapshotClass: ""}'),
                'parameter "snapshotClass" must not be empty',
            ),
            (
                "AFT-095",
                document("{}", "fs-backup, parameters: {snapshotClass: fast}"),
                'parameter "snapshotClass" is only supported for the "snapshot" action',
            ),
        )
    ],
)
def test_conditions_and_parameters_that_cannot_be_are_refused(written: str, problem: str) -> None:
    with pytest.raises(PolicyError) as raised:
        read_policies(written)
    assert problem in str(raised.value)
    assert str(raised.value).startswith("volume policy 1: ")


@pytest.mark.spec("AFT-095")
def test_a_rule_names_the_class_of_its_snapshots() -> None:
    policies = read_policies(document("{}", "snapshot, parameters: {snapshotClass: fast}"))
    assert [rule.snapshot_class for rule in policies.rules] == ["fast"]
