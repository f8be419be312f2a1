"""What the demonstration prints."""

from examples import report
from examples.compare import MISSING, Comparison, Difference, FieldRule, Key, KindRow, ObjectRule, Rules

KEY = Key("apps", "Deployment", "shop", "web")


def test_the_table_is_aligned_and_totalled() -> None:
    rows = [
        KindRow(kind="ConfigMap", before=12, lost=12, back=11, unexplained=1),
        KindRow(kind="Deployment.apps", before=3, lost=3, back=3, different=2),
    ]
    assert report.kind_table(rows).splitlines() == [
        "KIND             BEFORE  LOST  BACK  DIFFERENT  UNEXPLAINED",
        "ConfigMap            12    12    11          0            1",
        "Deployment.apps       3     3     3          2            0",
        "total                15    15    14          2            1",
    ]


def test_an_empty_world_has_a_table_too() -> None:
    assert report.kind_table([]).splitlines()[1].split() == ["total", "0", "0", "0", "0", "0"]


def test_unexplained_differences_are_shown_up_to_a_limit() -> None:
    differences = [
        Difference(key=KEY, path=("spec", "replicas"), before=3, after=number) for number in range(50)
    ]
    lines = report.unexplained(Comparison(rows=[], differences=differences)).splitlines()
    assert lines[0] == "  Deployment.apps/shop/web: spec.replicas: 3 became 0"
    assert len(lines) == report.SHOWN_DIFFERENCES + 1
    assert lines[-1] == "  ... and 10 more"


def test_a_lost_object_and_a_new_one_read_differently() -> None:
    assert str(Difference(key=KEY, path=(), before={}, after=MISSING)) == f"{KEY}: missing"
    assert str(Difference(key=KEY, path=(), before=MISSING, after={})) == f"{KEY}: was not there before"


def test_explanation_counts_objects_not_fields() -> None:
    rules = Rules(
        fields=[FieldRule(name="identity", reason="new", paths=[("metadata",)])],
        missing=[ObjectRule(name="token", reason="old", applies=lambda _item, _world: True)],
    )
    differences = [
        Difference(key=KEY, path=("metadata", "uid"), before="1", after="2", rule="identity"),
        Difference(key=KEY, path=("metadata", "generation"), before=1, after=2, rule="identity"),
        Difference(key=KEY, path=(), before={}, after=MISSING, rule="token"),
    ]
    assert report.explanation(Comparison(rows=[], differences=differences), rules).splitlines() == [
        "     1 differ in  identity: new",
        "     1 are missing, token: old",
    ]
