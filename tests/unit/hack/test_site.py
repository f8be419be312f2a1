"""Pages as the site shows them."""

from pathlib import Path

import pytest

from hack.site import ROOT, with_bars, within_docs, without_prompts


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


def test_what_the_copy_button_copies_is_what_a_shell_takes() -> None:
    page = (
        "1. Look:\n\n    ```console\n    $ pinnace a \\\n        --b\n    $ c\n    said\n    $ d\n    ```\n"
    )

    assert without_prompts(page) == (
        "1. Look:\n\n    ```sh\n    pinnace a \\\n        --b\n    c\n    ```\n\n"
        "    ```text\n    said\n    ```\n\n"
        "    ```sh\n    d\n    ```\n"
    )


def test_no_page_of_the_site_has_a_prompt_in_its_commands() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert "$ pinnace " not in without_prompts(page.read_text(encoding="utf-8")), page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            r"| `get -o json\|yaml` | `a_b\|c*` |",
            "| <code>get -o json&#124;yaml</code> | <code>a&#95;b&#124;c&#42;</code> |",
        ),
        (r"| `<a>\|b` |", "| <code>&lt;a&gt;&#124;b</code> |"),
        (r"| `plain` |", "| `plain` |"),
        (r"`no\|table`", r"`no\|table`"),
    ],
)
def test_bars_in_the_code_of_a_table_are_shown_without_a_backslash(text: str, shown: str) -> None:
    assert with_bars(text) == shown


def test_each_question_is_a_section_so_that_the_search_ranks_it_by_its_title() -> None:
    lines = (ROOT / "docs" / "faq.md").read_text().splitlines()

    assert "## What does an expired token do?" in lines
    assert not [line for line in lines if line.startswith("**")]
