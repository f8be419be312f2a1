"""Builds the site (`make docs`): MkDocs Material, where every warning is an error. Nothing is fetched.

Pages are written for the repository, and three things are made fit for a site here: links to files outside
of `docs` have no target and become text, commands lose their prompts, which the copy button would copy, and
`\\|` in the code of a table loses its backslash, which only GitHub leaves out. Pages about tasks are found
before decisions and specifications.
"""

import html
import logging
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)(#[^)]*)?\)")
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.S)
_CONSOLE = re.compile(r"^( *)```console\n(.*?)^\1```$", re.S | re.M)
_BARRED = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")

SEARCH_BOOSTS = {"tasks": 4.0, "guides": 4.0, "reference": 1.0, "adr": 0.05, "spec": 0.05}
"""How much a match in a folder's pages counts; 2 for other pages."""


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


def without_prompts(text: str) -> str:
    """The page, with commands as one copies them, and what they print in blocks between them."""

    def parts(found: re.Match[str]) -> str:
        indent, goes_on = found[1], False
        blocks: list[tuple[str, list[str]]] = []
        for line in found[2].splitlines():
            shown = line.removeprefix(indent)
            is_command = goes_on or shown.startswith("$ ")
            language = "sh" if is_command else "text"
            if not blocks or blocks[-1][0] != language:
                blocks.append((language, []))
            blocks[-1][1].append(shown if goes_on else shown.removeprefix("$ "))
            goes_on = is_command and shown.endswith("\\")
        lines = [line for language, shown in blocks for line in (f"```{language}", *shown, "```", "")]
        return "\n".join(f"{indent}{line}".rstrip() for line in lines[:-1])

    return _CONSOLE.sub(parts, text)


def with_bars(text: str) -> str:
    """The page, with `|` for each `\\|` in the code of its tables."""

    def shown(found: re.Match[str]) -> str:
        code = html.escape(found[1].replace("\\|", "|"), quote=False)
        for sign in "|*_":
            code = code.replace(sign, f"&#{ord(sign)};")
        return f"<code>{code}</code>"

    lines = text.split("\n")
    return "\n".join(_BARRED.sub(shown, line) if line.startswith("|") else line for line in lines)


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
        source = Path(page.file.src_path)  # type: ignore[attr-defined]
        boost = SEARCH_BOOSTS.get(source.parts[0], 2.0)
        page.meta.setdefault("search", {})["boost"] = boost  # type: ignore[attr-defined]
        return with_bars(without_prompts(within_docs(markdown, ROOT / "docs" / source)))

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
