"""What hooks of backups and of restores have in common: how pods name commands and containers. Pure.

(docs/spec: API 15, 16)
"""

from typing import Final

import orjson

from pinnace.api.objects import JSONObject

FROM_ANNOTATION: Final = "<from-annotation>"
"""The name, in logs and errors, of a hook that a pod's annotations ask for."""


def parse_command(text: str) -> list[str]:
    """Return an annotation's command: the strings of a JSON array, or else the whole text as one word.

    (docs/spec: API 15.3)
    """
    if text.startswith("["):
        try:
            words = orjson.loads(text)
        except orjson.JSONDecodeError:
            return [text]
        if all(isinstance(word, str) for word in words):
            return list(words)
    return [text]


def container_names(pod: JSONObject) -> list[str]:
    """The containers of a pod in which hooks can run, in their order: neither init nor ephemeral ones."""
    containers = (pod.get("spec") or {}).get("containers") or []
    return [container.get("name", "") for container in containers]
