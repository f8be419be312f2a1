"""Rewrite the generated files of the chart: definitions, alert rules, dashboard, schema of the values.

python -m deploy.helm.definitions
"""

import json
from pathlib import Path
from typing import Final

import yaml

from deploy.helm.monitoring import dashboard, rules
from deploy.helm.values_schema import schema
from pinnace.api.objects import JSONObject
from pinnace.installing.resources import crds

CHART = Path(__file__).with_name("pinnace")
KEEP: Final = {"helm.sh/resource-policy": "keep"}
"""Helm would delete the definitions of self-service with the release, and all requests of tenants with them;
those in crds/ it never does."""


def files() -> dict[Path, list[JSONObject]]:
    """The files with definitions, and the definitions that belong in each."""
    always = crds()
    known = {crd["metadata"]["name"] for crd in always}
    optional = [crd for crd in crds(non_admin=True) if crd["metadata"]["name"] not in known]
    return {
        CHART / "crds/definitions.yaml": always,
        CHART / "files/non-admin-definitions.yaml": [_kept(crd) for crd in optional],
    }


def other_files() -> dict[Path, str]:
    """The other generated files, and their content."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    return {
        CHART / "files/rules.yaml": yaml.safe_dump(rules(), sort_keys=False, width=110),
        CHART / "files/dashboard.json": json.dumps(dashboard(), indent=2) + "\n",
        CHART / "values.schema.json": json.dumps(schema(values), indent=2) + "\n",
    }


def text(definitions: list[JSONObject]) -> str:
    """The YAML of definitions, as the files hold it."""
    return yaml.safe_dump_all(definitions, sort_keys=False, width=110)


def _kept(crd: JSONObject) -> JSONObject:
    return {**crd, "metadata": {**crd["metadata"], "annotations": KEEP}}


if __name__ == "__main__":
    for path, definitions in files().items():
        path.write_text(text(definitions))
    for path, content in other_files().items():
        path.write_text(content)
