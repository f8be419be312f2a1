"""The objects of the example application, in the order in which they can be created.

The manifests in shop/ are ordinary YAML, one file a topic, numbered. An object near the size limit of the
API server, which would make a poor YAML file, is made here.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]

MANIFESTS = Path(__file__).with_name("shop")
CATALOGUE_SIZE_BYTES = 500_000

# Set after creation, as a controller would do; a restore leaves status out.
PROMOTION_STATUS = {"phase": "Active", "redemptions": 12_345_678_901}


def load_manifests(directory: Path = MANIFESTS) -> list[Object]:
    """Read every object of the manifests, in the order of file names and then of the documents."""
    return [
        document
        for path in sorted(directory.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
        if document
    ]


def catalogue() -> Object:
    """Make the ConfigMap that holds the shop's catalogue: half a megabyte that hardly compresses."""
    lines: list[str] = []
    size_bytes = 0
    while size_bytes < CATALOGUE_SIZE_BYTES:
        digest = hashlib.sha256(str(len(lines)).encode()).hexdigest()
        lines.append(f"{digest[:12]};Vare nº {len(lines)};{int(digest[12:16], 16) / 100:.2f}\n")
        size_bytes += len(lines[-1].encode())
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "catalogue",
            "namespace": "shop",
            "labels": {"app.kubernetes.io/name": "storefront"},
        },
        "data": {"products.csv": "".join(lines)},
    }


def application() -> list[Object]:
    """All objects of the application, in creation order."""
    return [*load_manifests(), catalogue()]


def namespaces(objects: Sequence[Object]) -> list[str]:
    """The names of the application's namespaces."""
    return [item["metadata"]["name"] for item in objects if item["kind"] == "Namespace"]
