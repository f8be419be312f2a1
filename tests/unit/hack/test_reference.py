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


def anchors(page: Path) -> set[str]:
    """The ids of a page's headings, as GitHub and the site make them."""
    content = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    headings = re.findall(r"^#+ (.+)$", content, re.M)
    texts = (re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", heading).strip().lower() for heading in headings)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", each)) for each in texts}


def test_links_between_pages_lead_somewhere() -> None:
    link = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
    broken = []
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    known = {page: anchors(page) for page in pages}
    for page in pages:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
        for target, anchor in link.findall(text):
            if "://" in target or target.startswith("mailto:"):
                continue
            place = (page.parent / target).resolve() if target else page
            if not place.exists() or (anchor and anchor not in known.get(place, {anchor})):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")

    assert len(known) > 100
    assert broken == []
