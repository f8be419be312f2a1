"""The objects of public projects are whole ones, each once."""

import json
from pathlib import Path

from hack.cluster import applications
from hack.cluster.applications import _read, _title

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shapes.example.com}
spec: {versions: []}
"""
SAMPLES = """
apiVersion: example.com/v1
kind: Shape
metadata: {name: a, creationTimestamp: 2026-01-01T00:00:00Z}
---
apiVersion: v1
kind: List
items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}]
---
"""
NO_OBJECTS = """
{$patch: delete, apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}}
---
{apiVersion: v1, kind: Pod, metadata: {generateName: p-}}
---
text
"""


def test_definitions_and_samples_are_read_and_patches_and_templates_are_not(tmp_path: Path) -> None:
    (tmp_path / "crd.yaml").write_text(DEFINITION)
    (tmp_path / "samples.yaml").write_text(SAMPLES)
    (tmp_path / "again.yaml").write_text(SAMPLES)
    (tmp_path / "others.yaml").write_text(NO_OBJECTS)
    (tmp_path / "broken.yaml").write_text("a: {{ .Values.b }}")
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "t.yaml").write_text(SAMPLES.replace("name: a", "name: t"))

    found = _read(tmp_path)

    assert [each["metadata"]["name"] for each in found["definitions"]] == ["shapes.example.com"]
    assert [each["metadata"]["name"] for each in found["samples"]] == ["a", "c"]
    assert json.loads(json.dumps(found)) == found


def test_projects_have_names_for_namespaces() -> None:
    titles = [_title(module) for module in applications.MODULES]
    assert len(set(titles)) == len(titles) == 22
    assert {"cert-manager", "keda", "istio-io", "argo-workflows", "cluster-api-provider-aws"} <= set(titles)
