"""What hooks of backups and of restores have in common: how pods name commands and containers. Pure.

(docs/spec: API 15, 16)
"""

from typing import Final

import orjson

from pinnace.api.objects import JSONObject, text

FROM_ANNOTATION: Final = "<from-annotation>"
"""The name, in logs and errors, of a hook that a pod's annotations ask for."""


def parse_command(command: str) -> list[str]:
    """Return an annotation's command: the strings of a JSON array, or else the whole text as one word.

    (docs/spec: API 15.3)
    """
    if command.startswith("["):
        try:
            words = orjson.loads(command)
        except orjson.JSONDecodeError:
            return [command]
        if all(isinstance(word, str) for word in words):
            return list(words)
    return [command]


def container_names(pod: JSONObject) -> list[str]:
    """The containers of a pod that hooks can run in: its own in their order, then its sidecars.

    A sidecar is an init container that goes on (`restartPolicy: Always`); others have ended when a pod runs.
    (docs/spec: AFT 7.2)
    """
    spec = pod.get("spec") or {}
    sidecars = [each for each in spec.get("initContainers") or [] if each.get("restartPolicy") == "Always"]
    return [container.get("name", "") for container in [*(spec.get("containers") or []), *sidecars]]


def is_ended(pod: JSONObject) -> bool:
    """Whether the containers of a pod have ended for good, so that nothing can run in them."""
    return text(pod, "status", "phase") in ("Succeeded", "Failed")
