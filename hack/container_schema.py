"""Rewrite the schema of init containers of restore hooks from the OpenAPI document of a real API server.

python -m hack.container_schema

Run it when the cluster of the tests gets a new version of Kubernetes; a test says when.
"""

import json
import tempfile
from pathlib import Path
from typing import Any, Final

from hack.cluster.control_plane import ControlPlane
from pinnace.api.definitions.container_schema import FILE_NAME

Schema = dict[str, Any]

TARGET: Final = Path(__file__).parents[1] / "src/pinnace/api/definitions" / FILE_NAME
DOCUMENT: Final = "/openapi/v3/api/v1"
_CONTAINER: Final = "io.k8s.api.core.v1.Container"
_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_KEPT: Final = frozenset({"type", "format", "enum", "required"})
"""The schema without descriptions, which are most of it, and without hints for server-side apply."""


def container_schema(document: Schema) -> Schema:
    """The structural schema of a container in an OpenAPI v3 document."""
    return _structural(document["components"]["schemas"], {"$ref": f"#/components/schemas/{_CONTAINER}"})


def _structural(schemas: Schema, schema: Schema) -> Schema:
    reference = schema.get("$ref") or next((each["$ref"] for each in schema.get("allOf") or ()), "")
    name = reference.rpartition("/")[2]
    if name == _INT_OR_STRING:
        return {"x-kubernetes-int-or-string": True}
    if name == _QUANTITY:
        return {"x-kubernetes-int-or-string": True, "pattern": _QUANTITY_PATTERN}
    if name:
        return _structural(schemas, schemas[name])
    made = {key: value for key, value in schema.items() if key in _KEPT}
    if "properties" in schema:
        made["properties"] = {
            key: _structural(schemas, member) for key, member in sorted(schema["properties"].items())
        }
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            made[key] = _structural(schemas, schema[key])
    return made


def text(schema: Schema) -> str:
    """The content of the file."""
    return json.dumps(schema, sort_keys=True, indent=1) + "\n"


def main() -> None:
    """Start a cluster, get its schema, and write the file."""
    with tempfile.TemporaryDirectory() as directory, ControlPlane(Path(directory)) as plane:
        _status, document = plane.get(DOCUMENT)
        TARGET.write_text(text(container_schema(json.loads(document))))


if __name__ == "__main__":
    main()
