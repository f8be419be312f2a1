"""Definitions and samples of public projects: objects that nobody here wrote, for tests.

They are the YAML files of Go modules at fixed versions, whose checksums are compared. They are fetched
through the Go module proxy and read once a machine, into
${PINNACE_CACHE:-~/.cache/pinnace}/applications/<key>.json.
"""

import hashlib
import json
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
    "github.com/cert-manager/cert-manager@v1.21.2": "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
    "github.com/cilium/cilium@v1.20.2": "h1:dqiEGIcXc+gqCLYG/l7VCFJ8GHyb4HUrwbZOpkX5dL8=",
    "github.com/elastic/cloud-on-k8s/v3@v3.5.0": "h1:sR4oj+gNnwI9hgsKhBwjUlx+5F2T/kND40hrzaogtek=",
    "github.com/external-secrets/external-secrets@v1.3.2": "h1:u2J8RjlHIeF0oZCqtl92adI/uZWUwOesJIDkfql6LqQ=",
    "github.com/fluxcd/source-controller@v1.7.0": "h1:/fBgS4CSmT5Jj/fjQDF92y+pC3gst1GJjgNSzY8Ff9I=",
    "github.com/kedacore/keda/v2@v2.21.0": "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=",
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": (
        "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
    ),
    "go.universe.tf/metallb@v0.16.2": "h1:RCSAGoZmqcvTg0e56+Okbwz8iTuQVX30JpKX5mYEPUM=",
    "istio.io/api@v1.32.0": "h1:37mJvg9I0biYZAEQF+MATs4FNeCpXEIVO3LFpVb6iNM=",
    "sigs.k8s.io/gateway-api@v1.4.0": "h1:ZwlNM6zOHq0h3WUX2gfByPs2yAEsy/EenYJB78jpQfQ=",
    "sigs.k8s.io/kueue@v0.17.0": "h1:7hzb38M4eKGzYW+CFv2s1L+swzzacUCHOCXxZmAV90I=",
}
"""The modules, each with the checksum of its content as `go.sum` has it."""

FETCH_TIMEOUT_SECONDS: Final = 600
_LARGEST_FILE_BYTES: Final = 3_000_000
"""Files beyond it are bundles of what is in others, too."""
_DEFINITION: Final = "CustomResourceDefinition"

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
    found = {_title(module): _read(_fetched(go, module)) for module in MODULES}
    with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as scratch:
        json.dump(found, scratch)
    Path(scratch.name).rename(target)
    return target


def _title(module: str) -> str:
    """`cert-manager` for `github.com/cert-manager/cert-manager@v1.21.2`."""
    parts = module.partition("@")[0].split("/")
    return (parts[-2] if parts[-1] in ("v2", "v3", "api") else parts[-1]).replace(".", "-")


def _fetched(go: str, module: str) -> Path:
    """The folder of a module's content."""
    with tempfile.TemporaryDirectory() as outside:  # of any module, whose go.mod would count
        done = subprocess.run(
            [go, "mod", "download", "-json", module],
            cwd=outside,
            capture_output=True,
            text=True,
            timeout=FETCH_TIMEOUT_SECONDS,
            check=False,
        )
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        answer = {"Error": done.stderr.strip()}
    if answer.get("Error") or done.returncode != 0:
        raise ProgramUnavailable(f"fetching {module}: {answer.get('Error') or done.stderr.strip()}")
    if answer["Sum"] != MODULES[module]:
        raise ProgramUnavailable(f"{module} has the checksum {answer['Sum']}, not {MODULES[module]}")
    return Path(answer["Dir"])


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
