"""Medians, ratios, verdicts and tables."""

import json

import pytest

from bench import results
from bench.figures import Figure, Rule, Series, Target, Unit, markdown_table, text_table
from bench.measure import Sample
from bench.scenarios.objects import OURS, OURS_IN_PROCESS, speed_figures

TARGET = Target(first=1.5, aim=1.1)


def figure(
    ours: list[float], *floors: Series, rule: Rule = Rule.RATIO, target: Target | None = TARGET
) -> Figure:
    return Figure(
        name="backup",
        unit=Unit.SECONDS,
        rule=rule,
        ours=Series(name="pinnace", values=ours),
        floors=floors,
        target=target,
    )


def test_the_fastest_candidate_is_the_floor() -> None:
    made = figure([3, 9, 2], Series(name="slow", values=[4]), Series(name="fast", values=[1, 2, 9]))
    assert made.floor is not None
    assert made.floor.name == "fast"
    assert made.result == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        pytest.param(1.1, "aim", id="aim-itself"),
        pytest.param(1.11, "first target", id="between"),
        pytest.param(1.5, "first target", id="first-target-itself"),
        pytest.param(1.51, "NO", id="missed"),
    ],
)
def test_verdict(ours: float, verdict: str) -> None:
    assert figure([ours], Series(name="floor", values=[1])).verdict == verdict


def sample(seconds: float) -> Sample:
    output = json.dumps({"seconds": seconds / 2}).encode()
    return Sample(wall_seconds=seconds, cpu_seconds=seconds, peak_bytes=0, output=output)


def test_a_stricter_floor_has_figures_of_its_own_and_no_target() -> None:
    seconds = {OURS: 6.0, OURS_IN_PROCESS: 3.0, "plain": 4.0, "side by side": 2.0}
    samples = {name: [sample(value)] for name, value in seconds.items()}

    made = speed_figures("backup", samples, TARGET, "LIST", stricter=["side by side"])

    assert {each.name: (each.floor and each.floor.name, each.result, each.verdict) for each in made} == {
        "backup, whole command": ("plain", 1.5, "first target"),
        "backup, without process start": ("plain", 0.75, "aim"),
        "backup, whole command, against several LISTs at once": ("side by side", 3.0, ""),
        "backup, without process start, against several LISTs at once": ("side by side", 1.5, ""),
        "backup, client CPU of the process (LIST alone)": ("side by side", 3.0, ""),
    }


def test_a_difference_and_a_figure_of_its_own() -> None:
    floor = Series(name="bare", values=[20])
    assert figure([50], floor, rule=Rule.ADDED).result == 30
    assert figure([50], rule=Rule.ALONE).result == 50
    assert figure([50], floor, target=None).verdict == ""


def test_text_table_shows_median_and_spread() -> None:
    lines = text_table([figure([1.2, 1.0, 1.4], Series(name="pycurl x1", values=[1, 1, 1]))]).splitlines()
    assert lines[0].split() == ["figure", "floor", "ours", "result", "first", "target", "aim", "met"]
    assert "1.00 s (1.00-1.00) pycurl x1" in lines[1]
    assert "1.20 s (1.00-1.40)" in lines[1]
    assert lines[1].split()[-7:] == ["1.20x", "<=", "1.50x", "<=", "1.10x", "first", "target"]


def test_markdown_table_has_a_line_for_each_figure() -> None:
    lines = markdown_table(
        [figure([1.0], Series(name="f", values=[1])), figure([2.0], rule=Rule.ALONE)]
    ).splitlines()
    assert len(lines) == 4
    assert all(line.count("|") == 8 for line in lines)


def test_results_keep_earlier_runs_and_replace_the_same_one() -> None:
    facts = {"CPU": "a"}
    first = results.section("2026-01-01, 10 objects", facts, {}, [figure([1.0])])
    second = results.section("2026-01-02, 10 objects", facts, {}, [figure([2.0])])
    again = results.section("2026-01-01, 10 objects", facts, {}, [figure([3.0])])
    document = ""
    for new in (first, second, again):
        document = results.with_section(document, new)
    assert document.count("\n## ") == 2
    assert document.index("2026-01-01") < document.index("2026-01-02")
    assert "3.00 s" in document
    assert "1.00 s" not in document
    assert document.startswith(results.HEADER)
    assert results.with_section(document, again) == document
