"""Plugins as init containers of the server's Deployment. Pure. (docs/spec: CLI 8.1)"""

import copy
from typing import Final

from pinnace.api.objects import JSONObject
from pinnace.installing.errors import InstallError

VOLUME = "plugins"
SERVER_CONTAINER = "velero"


UNPRIVILEGED: Final[JSONObject] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""The security context of a plugin's container: it copies files. Pod Security `restricted` needs both."""


def init_container_name(image: str) -> str:
    """The name of the init container for a plugin's image. (docs/spec: CLI 8.1, CLI-032)"""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    # A colon before the last slash belongs to a registry's port.
    name = f"{head}{slash}{last.partition(':')[0]}"
    registry, _, rest = name.partition("/")
    if name.startswith("/") or name.count("/") >= 2 or ":" in registry:
        name = rest
    return name.translate(str.maketrans("/_.", "---"))


def with_plugin(deployment: JSONObject, image: str, pull_policy: str) -> JSONObject:
    """The Deployment with one more plugin. Raises InstallError if it is not that of a server."""
    changed = copy.deepcopy(deployment)
    pod = _pod_spec(changed)
    volumes = pod.setdefault("volumes", [])
    if not any(volume.get("name") == VOLUME for volume in volumes):
        volumes.append({"name": VOLUME, "emptyDir": {}})
        _server_container(pod).setdefault("volumeMounts", []).append(
            {"name": VOLUME, "mountPath": "/plugins"}
        )
    pod.setdefault("initContainers", []).append(
        {
            "name": init_container_name(image),
            "image": image,
            "imagePullPolicy": pull_policy,
            "volumeMounts": [{"name": VOLUME, "mountPath": "/target"}],
            "securityContext": UNPRIVILEGED,
        }
    )
    return changed


def without_plugin(deployment: JSONObject, name_or_image: str) -> JSONObject:
    """The Deployment without the first init container of that name or image. Raises InstallError."""
    changed = copy.deepcopy(deployment)
    containers = _pod_spec(changed).get("initContainers") or []
    for position, container in enumerate(containers):
        if name_or_image in (container.get("name"), container.get("image")):
            del containers[position]
            return changed
    present = _names_of(containers)
    raise InstallError(f"init container {name_or_image} not found in Velero server deployment{present}")


def _names_of(containers: list[JSONObject]) -> str:
    names = ", ".join(str(container.get("name")) for container in containers)
    return f"; it has {names}" if names else "; it has none"


def _pod_spec(deployment: JSONObject) -> JSONObject:
    pod: JSONObject = deployment["spec"]["template"]["spec"]
    return pod


def _server_container(pod: JSONObject) -> JSONObject:
    for container in pod.get("containers") or []:
        if container.get("name") == SERVER_CONTAINER:
            found: JSONObject = container
            return found
    raise InstallError("velero container not found in velero deployment")
