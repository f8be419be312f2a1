"""What the repository that plugin authors start from says of itself is right."""

import tomllib
from pathlib import Path

from pinnace.plugins.python.loading import ENTRY_POINT_GROUP

TEMPLATE = Path(__file__).parents[3] / "examples" / "plugin"


def test_its_entry_point_is_of_the_group_that_is_looked_for() -> None:
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]

    assert project["entry-points"] == {ENTRY_POINT_GROUP: {"owner-plugin": "owner_plugin:plugins"}}
    assert project["scripts"] == {"owner-plugin": "owner_plugin.__main__:main"}
