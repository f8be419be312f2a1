"""The reference pages of the documentation are those that the code makes now."""

import re
from pathlib import Path

import pytest

from hack import reference

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "name", ["commands.md", "custom-resources.md", "metrics.md", "exit-codes.md", "environment.md"]
)
def test_a_committed_page_is_up_to_date(name: str) -> None:
    assert (reference.FOLDER / name).read_text() == reference.pages()[name], "run `make reference`"


def test_links_between_pages_lead_somewhere() -> None:
    link = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
    broken = []
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
        broken += [
            f"{page.relative_to(ROOT)}: {target}"
            for target in link.findall(text)
            if "://" not in target
            and not target.startswith("mailto:")
            and not (page.parent / target).exists()
        ]

    assert broken == []
