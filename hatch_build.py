"""Puts the manual pages of a release into its wheel; a step of the build backend, hatchling.

The pages are written by the program itself, which a build cannot run: it would need all that the program
requires. `make release` writes them into `build/man` first, and the source archive carries them along. Other
builds have none; `pinnace man --write` makes them. (docs/adr/056)
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManualPages(BuildHookInterface):
    """Adds `share/man` to wheels where the pages were written."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """See BuildHookInterface."""
        pages = Path(self.root) / "build" / "man"
        if version == "standard" and pages.is_dir():
            key = "shared_data" if self.target_name == "wheel" else "force_include"
            build_data[key][str(pages)] = "share/man" if self.target_name == "wheel" else "build/man"
