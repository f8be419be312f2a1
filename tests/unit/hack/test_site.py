"""Pages as the site shows them."""

from pathlib import Path

import pytest

from hack.site import ROOT, within_docs


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[FAQ](faq.md) and [x](faq.md#a)", "[FAQ](faq.md) and [x](faq.md#a)"),
        ("[code](../src/pinnace/__init__.py)", "code"),
        ("[decisions](adr/)", "decisions"),
        ("[there](https://example.com/a)", "[there](https://example.com/a)"),
        ("`[code](../src)`", "`[code](../src)`"),
    ],
)
def test_links_to_what_is_not_on_the_site_become_text(text: str, shown: str) -> None:
    page: Path = ROOT / "docs" / "index.md"

    assert within_docs(text, page) == shown
