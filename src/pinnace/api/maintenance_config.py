"""The settings of maintenance Jobs, in the ConfigMap that `--repo-maintenance-job-configmap` names. Pure.

The key `global` has JSON for all repositories, the key `<namespace>-<location>-<type>` for one, which counts
more. A member that has no effect is an error that names it. (docs/spec: BEY 6.3)
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from pinnace.api import labels
from pinnace.api.meta import LabelSelector
from pinnace.api.pod_resources import PodResources
from pinnace.api.selection.selectors import Selector

GLOBAL: Final = "global"
KEEP: Final = 3
"""How many ended Jobs of a repository are kept by default."""

_MOST_KEPT: Final = 100
_RESERVED: Final = frozenset({labels.REPOSITORY_NAME, "job-name", "controller-uid"})
_OF_JOBS: Final = "batch.kubernetes.io/"
_FOR_ALL_ONLY: Final = ("priorityClassName", "podAnnotations", "podLabels")


class Nodes(Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """The nodes that may run the Job."""

    node_selector: LabelSelector


class _Resources(Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """`PodResources` as the ConfigMap writes them; the class is in the Python API, whose types are plain."""

    cpu_request: str = "0"
    cpu_limit: str = "0"
    memory_request: str = "0"
    memory_limit: str = "0"
    ephemeral_storage_request: str = "0"
    ephemeral_storage_limit: str = "0"

    def requirements(self) -> dict[str, dict[str, str]]:
        """Requests and limits as a container has them. Raises ValueError."""
        return PodResources(**asdict(self)).requirements()


class _Settings(Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    load_affinity: list[Nodes] = []
    pod_resources: _Resources | None = None
    keep_latest_maintenance_jobs: int | None = None
    priority_class_name: str = ""
    pod_annotations: dict[str, str] = {}
    pod_labels: dict[str, str] = {}


class MaintenanceConfig(Struct, frozen=True, kw_only=True):
    """The settings of the Jobs of one repository.

    Attributes:
        nodes: the nodes that may run a Job; None for all.
        resources: requests and limits of its container.
        keep: how many ended Jobs are kept.
    """

    nodes: LabelSelector | None = None
    resources: dict[str, dict[str, str]] = {}
    keep: int = KEEP
    priority_class: str = ""
    annotations: dict[str, str] = {}
    labels: dict[str, str] = {}


def repository_key(namespace: str, location: str, repository_type: str) -> str:
    """The key with the settings of one repository."""
    return f"{namespace}-{location}-{repository_type}"


def read_maintenance_config(data: Mapping[str, str], key: str = "") -> MaintenanceConfig:
    """The settings of one repository, or those for all.

    Args:
        data: of the ConfigMap.
        key: of the repository.

    Raises:
        ValueError: they are not valid, or something in them has no effect; with its name.
    """
    everywhere = _settings(data, GLOBAL)
    own = _settings(data, key) if key and key != GLOBAL else _Settings()
    affinity = own.load_affinity or everywhere.load_affinity
    resources = own.pod_resources or everywhere.pod_resources or _Resources()
    keeps = (own.keep_latest_maintenance_jobs, everywhere.keep_latest_maintenance_jobs, KEEP)
    return MaintenanceConfig(
        nodes=affinity[0].node_selector if affinity else None,
        resources=resources.requirements(),
        keep=next(each for each in keeps if each is not None),
        priority_class=everywhere.priority_class_name,
        annotations=everywhere.pod_annotations,
        labels=everywhere.pod_labels,
    )


def check_maintenance_config(data: Mapping[str, str]) -> None:
    """Check all keys of the ConfigMap. Raises ValueError, with the name of what is wrong."""
    for key in data:
        read_maintenance_config(data, key)


def _settings(data: Mapping[str, str], key: str) -> _Settings:
    document = data.get(key)
    if document is None:
        return _Settings()
    try:
        found = msgspec.json.decode(document, type=_Settings)
        if key != GLOBAL:
            _check_own(msgspec.json.decode(document))
        _check(found)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
        raise ValueError(f"{key}: {error}") from error
    return found


def _check_own(raw: Mapping[str, object]) -> None:
    for name in _FOR_ALL_ONLY:
        if name in raw:
            raise ValueError(f"{name} has no effect here: only the key {GLOBAL} may have it")


def _check(found: _Settings) -> None:
    if len(found.load_affinity) > 1:
        raise ValueError("loadAffinity must have one element, as others have no effect")
    for each in found.load_affinity:
        Selector.from_label_selector(each.node_selector)
    if found.pod_resources is not None:
        found.pod_resources.requirements()
    keep = found.keep_latest_maintenance_jobs
    if keep is not None and not 0 <= keep <= _MOST_KEPT:
        raise ValueError(f"keepLatestMaintenanceJobs must be a number from 0 to {_MOST_KEPT}")
    for name in (*found.pod_labels, *found.pod_annotations):
        if name in _RESERVED or name.startswith(_OF_JOBS):
            raise ValueError(f"{name} has no effect: it is set for each Job")
