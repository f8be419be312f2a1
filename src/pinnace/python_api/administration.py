"""`doctor` and `install` of the Python API: their types and their work.

A module of its own, as the types are those of the rooms that do the work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from os import fspath

from pinnace.api.objects import JSONObject
from pinnace.api.pod_resources import PodResources
from pinnace.api.selection.validation import namespace_problem
from pinnace.doctor.examining import Subject, examine
from pinnace.doctor.findings import Finding, Level
from pinnace.installing.checks import check, snapshots_warning
from pinnace.installing.config_maps import config_map_problem
from pinnace.installing.observer import InstallObserver
from pinnace.installing.options import InstallOptions
from pinnace.installing.outcomes import InstallOutcome
from pinnace.installing.resources import crds, resources
from pinnace.installing.sending import Installer
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.python_api.errors import InvalidRequest
from pinnace.python_api.types import Cluster, Location

__all__ = [
    "Diagnosis",
    "Finding",
    "InstallOptions",
    "InstallOutcome",
    "InstallResult",
    "InstalledObject",
    "PodResources",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What the doctor found.

    Attributes:
        findings: in the order of the checks. `level` (OK, SKIPPED, WARNING, PROBLEM) and `code` are stable
            texts (docs/reference/doctor.md); `text` and `remedy` are for people, and name flags of commands.
    """

    findings: Sequence[Finding]

    @property
    def is_healthy(self) -> bool:
        """Whether there is no problem; warnings are none."""
        return all(finding.level is not Level.PROBLEM for finding in self.findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledObject:
    """One object of an installation, and what was done with it."""

    kind: str
    name: str
    outcome: InstallOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallResult:
    """How an installation ended.

    Attributes:
        objects: in the order of sending.
        foreign: workloads that still run other images than the wanted ones; `apply` replaces them.
        warnings: what needs attention.
    """

    objects: Sequence[InstalledObject]
    foreign: Sequence[str] = ()
    warnings: Sequence[str] = ()


async def diagnosis(location: Location | None, cluster: Cluster, namespaces: Sequence[str]) -> Diagnosis:
    """Make the checks of the doctor. Raises InvalidRequest."""
    for name in namespaces:
        if wrong := namespace_problem(name):
            raise InvalidRequest(f"namespaces: {wrong}")
    subject = Subject(
        kubeconfig=_kubeconfig(cluster),
        context=cluster.context,
        namespace=cluster.namespace,
        location=fspath(location.url) if location is not None else None,
        namespaces=namespaces,
    )
    return Diagnosis(findings=tuple(await examine(subject)))


async def installation(cluster: Cluster, options: InstallOptions) -> InstallResult:
    """Install the server. Raises InvalidRequest, InstallError, KubeError."""
    if problem := check(options):
        raise InvalidRequest(problem)
    made = resources(options, cluster.namespace)
    observer = _Notes()
    if warning := snapshots_warning(options):
        observer.warn(warning)
    async with KubeClient(load_config(_kubeconfig(cluster), cluster.context)) as client:
        if problem := await config_map_problem(client, cluster.namespace, options.config_maps):
            raise InvalidRequest(problem)
        installer = Installer(client, observer, merge=options.apply, keep_uploader=options.keeps_uploader)
        live = await installer.install(crds(non_admin=options.with_non_admin), made, wait=options.wait)
    unread = [f"could not be read: {text}" for text in live.unread]
    return InstallResult(
        objects=tuple(observer.objects),
        foreign=tuple(() if options.apply else live.foreign()),
        warnings=(*observer.warnings, *unread),
    )


class _Notes(InstallObserver):
    """Keeps what an installation reports."""

    def __init__(self) -> None:
        self.objects: list[InstalledObject] = []
        self.warnings: list[str] = []

    def done(self, obj: JSONObject, outcome: InstallOutcome) -> None:
        found = InstalledObject(kind=obj["kind"], name=obj["metadata"]["name"], outcome=outcome)
        self.objects.append(found)

    def warn(self, text: str) -> None:
        self.warnings.append(text.removeprefix("WARNING: "))


def _kubeconfig(cluster: Cluster) -> str | None:
    return fspath(cluster.kubeconfig) if cluster.kubeconfig is not None else None
