"""The init container that makes a pod wait for its volumes, as the ConfigMap of the action wants it: pure.

A ConfigMap that is wrong somewhere must not keep pods from coming back: what cannot be used is logged, and
the default taken. (docs/spec: PVL 10, API 12)
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from pinnace._version import __version__
from pinnace.api.objects import JSONObject
from pinnace.api.values.quantities import resource_requirements
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.plugins.builtin.restore.helper_security import security_context
from pinnace.plugins.builtin.restore.init_hooks import RESTIC_WAIT

log = logging.getLogger(__name__)

FALLBACK_IMAGE: Final = "velero/velero-restic-restore-helper:v1.6.3"
"""Velero's own helper does the same; taken where no workload says what image the server is of."""

HELPER_COMMAND: Final = ("/velero-restic-restore-helper",)
LATER_HELPER_COMMAND: Final = ("/velero-restore-helper",)
"""In images of Velero 1.10 and later."""
OWN_COMMAND: Final = ("pinnace", "restore-helper")
DEFAULT_CPU: Final = "100m"
DEFAULT_MEMORY: Final = "128Mi"


def configured_image(config: Mapping[str, str]) -> str | None:
    """The image of the ConfigMap, with a tag; None if it names none that can be used. (docs/spec: API-020)"""
    image = config.get("image", "")
    if not image:
        return None
    if "/" not in image:
        log.info("The configured image of the restore helper names no registry: the default is used")
        return None
    return image if ":" in image.rpartition("/")[2] else f"{image}:v{__version__}"


def helper_container(
    config: Mapping[str, str],
    pod_spec: JSONObject,
    *,
    image: str,
    command: Sequence[str],
    restore_uid: str,
    volumes: Sequence[str],
) -> JSONObject:
    """The container, with each volume mounted below /restores.

    Args:
        pod_spec: of the pod that waits.
    """
    return {
        "name": RESTIC_WAIT,
        "image": image,
        "command": [config["command"]] if config.get("command") else list(command),
        "args": [restore_uid],
        "env": [_from_pod("POD_NAMESPACE", "metadata.namespace"), _from_pod("POD_NAME", "metadata.name")],
        "resources": _resources(config),
        "securityContext": security_context(config, pod_spec),
        "volumeMounts": [{"name": volume, "mountPath": f"/restores/{volume}"} for volume in volumes],
    }


def _from_pod(name: str, field: str) -> JSONObject:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field}}}


def _resources(config: Mapping[str, str]) -> JSONObject:
    try:
        return _given_resources(config)
    except ValueError as error:
        text = "The configured resources of the restore helper are not used: %s"
        log.error(Notice(Code.SETTING_IGNORED, text), error)
        return _given_resources({})


def _given_resources(config: Mapping[str, str]) -> JSONObject:
    requirements = resource_requirements(
        config.get("cpuRequest") or DEFAULT_CPU,
        config.get("memRequest") or DEFAULT_MEMORY,
        config.get("cpuLimit") or DEFAULT_CPU,
        config.get("memLimit") or DEFAULT_MEMORY,
    )
    return {kind: dict(values) for kind, values in requirements.items() if values}
