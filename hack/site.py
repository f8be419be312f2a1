"""Builds the site (`make docs`): MkDocs Material, where every warning is an error. Nothing is fetched.

Links to files outside of `docs` (the code, the README) have no target on a site and are shown as text there.
In the repository they work, and a test checks them.
"""

import logging
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(#[^)]*)?\)")
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.S)


def within_docs(text: str, page: Path) -> str:
    """The page, with links to files outside of the site as plain text."""

    def shown(found: re.Match[str]) -> str:
        target = found[2]
        if "://" in target or (page.parent / target).is_dir():
            return found[1] if "://" not in target else found[0]
        resolved = (page.parent / target).resolve()
        return found[0] if resolved.is_relative_to(ROOT / "docs") else found[1]

    parts = _CODE.split(text)
    return "".join(part if index % 2 else _LINK.sub(shown, part) for index, part in enumerate(parts))


def main() -> int:
    """Build the site. Returns 1 if there was any warning."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort
    from mkdocs.plugins import event_priority

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s", stream=sys.stderr)
    config = load_config(str(ROOT / "mkdocs.yml"))

    @event_priority(50)
    def on_page_markdown(markdown: str, page: object, **_others: object) -> str:
        return within_docs(markdown, ROOT / "docs" / page.file.src_path)  # type: ignore[attr-defined]

    config.plugins.events["page_markdown"].append(on_page_markdown)
    counter = _Warnings()
    logging.getLogger("mkdocs").addHandler(counter)
    try:
        build(config)
    except Abort as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if counter.count else 0


class _Warnings(logging.Handler):
    """Counts warnings, including those that MkDocs itself ignores."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


if __name__ == "__main__":
    raise SystemExit(main())
