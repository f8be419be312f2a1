"""Write the custom resource definitions of the chart anew, from the types they are derived from.

python -m deploy.helm.definitions
"""

from pathlib import Path

import yaml

from pinnace.cli.install_resources import crds

CHART = Path(__file__).with_name("pinnace")
FILE = CHART / "crds/definitions.yaml"


def text() -> str:
    """The content that the file should have."""
    return yaml.safe_dump_all(crds(), sort_keys=False, width=110)


if __name__ == "__main__":
    FILE.write_text(text())
