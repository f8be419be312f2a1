"""Definitions and samples of public projects: objects that nobody here wrote, for tests.

They are the YAML files of Go modules at fixed versions, whose checksums are compared. They are fetched
through the Go module proxy and read once a machine, into
${PINNACE_CACHE:-~/.cache/pinnace}/applications/<key>.json.
"""

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from hack.cluster.binaries import cache_directory
from hack.cluster.errors import ProgramUnavailable

MODULES: Final = {
    "github.com/argoproj/argo-rollouts@v1.8.3": "h1:blbtQva4IK9r6gFh+dWkCrLnFdPOWiv9ubQYu36qeaA=",
    "github.com/argoproj/argo-workflows/v4@v4.0.5": "h1:/1lru5oXUd+k6KEDUps6rLX5OKfi1jTfabgXTly/VFU=",
    "github.com/cert-manager/cert-manager@v1.21.2": "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
    "github.com/cilium/cilium@v1.20.2": "h1:dqiEGIcXc+gqCLYG/l7VCFJ8GHyb4HUrwbZOpkX5dL8=",
    "github.com/elastic/cloud-on-k8s/v3@v3.5.0": "h1:sR4oj+gNnwI9hgsKhBwjUlx+5F2T/kND40hrzaogtek=",
    "github.com/external-secrets/external-secrets@v1.3.2": "h1:u2J8RjlHIeF0oZCqtl92adI/uZWUwOesJIDkfql6LqQ=",
    "github.com/fluxcd/source-controller@v1.7.0": "h1:/fBgS4CSmT5Jj/fjQDF92y+pC3gst1GJjgNSzY8Ff9I=",
    "github.com/k8snetworkplumbingwg/whereabouts@v0.9.2": "h1:M/LhO2FwXN4C3WPkD0FoT6JACraSW4XrU7mxX9xZd8o=",
    "github.com/kedacore/keda/v2@v2.21.0": "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=",
    "github.com/kubeflow/katib@v0.19.0": "h1:uexj303nRkGtTFtTkY4McCt6J0TCtnerX3i3E7TRA5M=",
    "github.com/kyverno/kyverno@v1.19.1": "h1:/MkgFii3/VlQfKR1JpC9tVwNNVNQTt2S4U6qCsafsTU=",
    "github.com/open-policy-agent/gatekeeper/v3@v3.23.1": "h1:njHTm0SJ6ZEhhEgmQTpJKTGQbc99fSs4hGiEp1OIKck=",
    "github.com/openshift/machine-api-operator@v0.2.1-0.20260226113419-88465550a74b": (
        "h1:LtHX/qyWHCOf/KqTAUHZOi4Q7cKErhm9f4jGYW4o2sk="
    ),
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": (
        "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
    ),
    "github.com/ray-project/kuberay/ray-operator@v1.5.0": "h1:KCjCQ7PSsvs9Ke+90CZbbs498nuaIJ/JkXk4vd54EVg=",
    "go.universe.tf/metallb@v0.16.2": "h1:RCSAGoZmqcvTg0e56+Okbwz8iTuQVX30JpKX5mYEPUM=",
    "istio.io/api@v1.32.0": "h1:37mJvg9I0biYZAEQF+MATs4FNeCpXEIVO3LFpVb6iNM=",
    "sigs.k8s.io/cluster-api-provider-aws/v2@v2.13.0": "h1:yQz7GBrIkPLuEJ5MXNuZ/6eUssTJK8reUnZ6t5QIPnU=",
    "sigs.k8s.io/cluster-api@v1.14.2": "h1:o3GFNaeNFAOEEMpDPfhCK+2CjmV6gtQ8yLEcUwCg7bA=",
    "sigs.k8s.io/gateway-api@v1.4.0": "h1:ZwlNM6zOHq0h3WUX2gfByPs2yAEsy/EenYJB78jpQfQ=",
    "sigs.k8s.io/kueue@v0.17.0": "h1:7hzb38M4eKGzYW+CFv2s1L+swzzacUCHOCXxZmAV90I=",
    "sigs.k8s.io/network-policy-api@v0.3.0": "h1:RL6fVXiix9IW1pj0ImkW645m+EWmb3dBGCiW19bg5+k=",
}
"""The modules, each with the checksum of its content as `go.sum` has it."""

FETCH_TIMEOUT_SECONDS: Final = 1200
_LARGEST_FILE_BYTES: Final = 3_000_000
"""Files beyond it are bundles of what is in others, too."""
_DEFINITION: Final = "CustomResourceDefinition"
_MAJOR_VERSION: Final = re.compile(r"v[0-9]+")
_ANSWER: Final = re.compile(r"^\{$.*?^\}$", re.MULTILINE | re.DOTALL)
"""Of `go mod download`, which prints one object after the other."""

Application = dict[str, list[dict[str, Any]]]
"""The `definitions` and `samples` of one project."""


def locate() -> Path:
    """Return a JSON file with the `Application` of each project, fetched into the cache if it is missing.

    Raises:
        ProgramUnavailable: a module could not be fetched, or has another content.
    """
    recipe = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
    target = cache_directory() / "applications" / f"{recipe}.json"
    if target.is_file():
        return target
    go = shutil.which("go")
    if not go:
        raise ProgramUnavailable("There is no `go` in PATH, which fetches the definitions of applications.")
    target.parent.mkdir(parents=True, exist_ok=True)
    found = {_title(module): _read(folder) for module, folder in _fetched(go).items()}
    with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as scratch:
        json.dump(found, scratch)
    Path(scratch.name).rename(target)
    return target


def _title(module: str) -> str:
    """`cert-manager` for `github.com/cert-manager/cert-manager@v1.21.2`."""
    parts = module.partition("@")[0].split("/")
    is_name = parts[-1] != "api" and not _MAJOR_VERSION.fullmatch(parts[-1])
    return parts[-1 if is_name else -2].replace(".", "-")


def _fetched(go: str) -> dict[str, Path]:
    """The folders with the content of all modules."""
    with tempfile.TemporaryDirectory() as outside:  # of any module, whose go.mod would count
        done = subprocess.run(
            [go, "mod", "download", "-json", *MODULES],
            cwd=outside,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_SECONDS,
            check=False,
        )
    try:
        answers = [json.loads(answer) for answer in _ANSWER.findall(done.stdout)]
    except json.JSONDecodeError as error:
        raise ProgramUnavailable(f"fetching modules: {error} in the output of `go mod download`") from error
    folders = dict[str, Path]()
    for answer in answers:
        module = f"{answer['Path']}@{answer['Version']}"
        if answer.get("Error"):
            raise ProgramUnavailable(f"fetching {module}: {answer['Error']}")
        if answer["Sum"] != MODULES[module]:
            raise ProgramUnavailable(f"{module} has the checksum {answer['Sum']}, not {MODULES[module]}")
        folders[module] = Path(answer["Dir"])
    if done.returncode != 0 or folders.keys() != MODULES.keys():
        raise ProgramUnavailable(f"fetching modules: {done.stderr.strip()}")
    return folders


def _read(folder: Path) -> Application:
    """The definitions and samples of a project, each once, in the order of their names."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for path in sorted(folder.rglob("*.yaml")):
        inside = path.relative_to(folder).parts
        is_template = "testdata" in inside or "templates" in inside
        if is_template or not path.is_file() or path.stat().st_size > _LARGEST_FILE_BYTES:
            continue
        for obj in _objects(path):
            found.setdefault((obj["apiVersion"], obj["kind"], obj["metadata"]["name"]), obj)
    objects = [found[key] for key in sorted(found)]
    return {
        "definitions": [obj for obj in objects if obj["kind"] == _DEFINITION and "versions" in obj["spec"]],
        "samples": [obj for obj in objects if obj["kind"] != _DEFINITION],
    }


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file; none of one that is no YAML, such as a template."""
    try:
        documents = list(yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, ValueError):
        return
    for document in documents:
        listed = document.get("items") if isinstance(document, dict) else None
        for obj in listed if isinstance(listed, list) else [document]:
            if _is_object(obj):
                yield json.loads(json.dumps(obj, default=str))


def _is_object(obj: object) -> bool:
    """Whether it is a whole object, rather than a patch of one."""
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict) or "$patch" in obj:
        return False
    if obj.get("kind") == _DEFINITION and not isinstance(obj.get("spec"), dict):
        return False
    return all(
        isinstance(text, str)
        for text in (obj.get("apiVersion"), obj.get("kind"), obj["metadata"].get("name"))
    )
