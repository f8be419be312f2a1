"""The text that `bug` prints. (docs/spec: CLI 8.4)"""

import os
import shutil
import subprocess
from collections.abc import Collection
from dataclasses import dataclass

from pinnace._version import __version__
from pinnace.api.values.error_texts import error_text
from pinnace.cli.connect import program_name

KUBECTL_TIMEOUT_SECONDS = 5.0

_TEMPLATE = """\
<!-- Copy this text into a new issue of the project, and fill in the first three parts. -->

**What steps did you take and what happened?**


**What did you expect to happen?**


**The output of these commands helps us a lot** (please look through it before you send it)

- `{program} debug`, which writes a bundle without secrets, or
- `kubectl logs deployment/velero -n velero`
- `{program} backup describe BACKUP --details` and `{program} backup logs BACKUP`
- `{program} restore describe RESTORE --details` and `{program} restore logs RESTORE`

**Environment**

- Version: v{facts.version}
- Features: {facts.features}
- kubectl: {facts.kubectl}
- Operating system: {facts.system}
- Architecture: {facts.architecture}
- Kubernetes installer and version, cloud provider, hardware:
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """The facts about this client in the report."""

    version: str
    features: str
    kubectl: str
    system: str
    architecture: str


def facts(features: Collection[str]) -> tuple[ClientFacts, list[str]]:
    """The facts, and what could not be found out."""
    try:
        kubectl, warnings = _kubectl_version(), []
    except (OSError, subprocess.SubprocessError) as error:
        kubectl, warnings = "unknown", [f"can't get kubectl version: {error_text(error)}"]
    host = os.uname()
    found = ClientFacts(
        version=__version__,
        features=", ".join(sorted(features)) or "none",
        kubectl=kubectl,
        system=f"{host.sysname} {host.release}",
        architecture=host.machine,
    )
    return found, warnings


def _kubectl_version() -> str:
    """kubectl's own version: the cluster is not asked. Raises OSError or SubprocessError."""
    program = shutil.which("kubectl")
    if program is None:
        raise FileNotFoundError("kubectl is not in PATH")
    ran = subprocess.run(  # noqa: S603 - the words are ours
        [program, "version", "--client"],
        capture_output=True,
        check=True,
        text=True,
        timeout=KUBECTL_TIMEOUT_SECONDS,
    )
    return ", ".join(line.strip() for line in ran.stdout.splitlines() if line.strip())


def report(found: ClientFacts) -> str:
    """The text to fill in."""
    return _TEMPLATE.format(facts=found, program=program_name())
