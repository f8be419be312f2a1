"""The documentation of the example and its rules say the same."""

import re
from pathlib import Path

import examples
from examples.application import application
from examples.documented import DOCUMENTED

README = (Path(examples.__path__[0]) / "README.md").read_text(encoding="utf-8")


def documented_names() -> set[str]:
    section = README.split("## Documented differences", 1)[1]
    rows = re.findall(r"^\| ([^|]+?) \|", section, re.MULTILINE)
    return set(rows) - {"name", "---"}


def test_the_documentation_names_every_rule_and_no_other() -> None:
    rules = {rule.name for group in (DOCUMENTED.fields, DOCUMENTED.missing, DOCUMENTED.new) for rule in group}
    assert documented_names() == rules


def test_the_documentation_counts_the_objects() -> None:
    assert f"{len(application())} objects" in README
