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
    """The containers of a pod in which hooks can run, in their order: neither init nor ephemeral ones."""
    containers = (pod.get("spec") or {}).get("containers") or []
    return [container.get("name", "") for container in containers]


def is_ended(pod: JSONObject) -> bool:
    """Whether the containers of a pod have ended for good, so that nothing can run in them."""
    return text(pod, "status", "phase") in ("Succeeded", "Failed")
