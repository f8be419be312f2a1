"""RESULTS.md: one section a run, the newest first. Rewriting is pure, reading and writing are not."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.figures import Figure, markdown_table

RESULTS = Path(__file__).with_name("RESULTS.md")
HEADER = """# Benchmark results

Written by `python -m bench --write-results`; what is measured, and how, is in the modules beside this file.
Where a floor is given, the result is a ratio (or a difference) between two things measured in one run: ours,
and a floor that does the least any program could do for the same outcome. Without a floor it is our figure
alone. Figures are medians, with minimum and maximum in brackets.

Where a floor has several candidates the fastest counts and is named, by the client and how many of its
requests run side by side: `pycurl x1` is one list after the other over libcurl, `pycurl x4` four at once,
`aiohttp x64` 64 requests with aiohttp. The backup's target speaks of lists one after the other; the stricter
floor has lines of its own.

`first target` is what a figure must reach, `aim` what it should; `met` names the better of the two that it
reaches, or `NO`. A heading has the number of objects behind each part that has any.
"""


def section(
    title: str, machine: Mapping[str, str], setting: Mapping[str, str], figures: Sequence[Figure]
) -> str:
    """One run as Markdown."""
    facts = "\n".join(f"- {name}: {value}" for name, value in {**machine, **setting}.items())
    return f"## {title}\n\n{facts}\n\n{markdown_table(figures)}\n"


def with_section(document: str, new: str) -> str:
    """Put a section in front of the others; one with the same heading is replaced."""
    heading = new.split("\n", 1)[0]
    _, *sections = ("\n" + document).split("\n## ")
    others = [f"## {text.strip()}\n" for text in sections if f"## {text}".split("\n", 1)[0] != heading]
    return "\n".join([HEADER, new, *others])


def write(new: str, path: Path = RESULTS) -> None:
    """Add a section to the file."""
    document = path.read_text(encoding="utf-8") if path.exists() else ""
    path.write_text(with_section(document, new), encoding="utf-8")
