"""Services: addresses and ports that the old cluster gave are given back. (docs/spec: RST 16.3)"""

from collections.abc import Mapping
from typing import Any, TypeVar

import orjson

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.plugins.builtin.restore.config import ActionError
from pinnace.plugins.protocols import ResourceSelector, RestoreItemInput, RestoreItemOutput

T = TypeVar("T")

_WORDS: Mapping[type, str] = {dict: "an object", list: "a list", str: "a text"}


class FreeService:
    """Removes the cluster IP, and node ports that the user did not ask for."""

    name = "velero.io/service"

    async def applies_to(self) -> ResourceSelector:
        """Services."""
        return ResourceSelector(included_resources=("services",))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Keep `None` as cluster IP, and node ports that the restore or the last `kubectl apply` wants.

        Health check port, load balancer IP and external IPs stay.

        Raises:
            ActionError: the annotation of `kubectl apply` cannot be read.
        """
        spec = mapping(given.item, "spec")
        if spec.get("clusterIP") != "None":
            spec.pop("clusterIP", None)
            # The server refuses the list without its first entry. Typed Go clients of old dropped it unseen.
            spec.pop("clusterIPs", None)
        if given.restore.spec.preserve_node_ports is not True and spec.get("type") != "ExternalName":
            wanted = _applied_node_ports(given.item)
            for port in objects(spec, "ports"):
                if text(port, "name") not in wanted:
                    port.pop("nodePort", None)
        return RestoreItemOutput(item=given.item)


def _applied_node_ports(service: JSONObject) -> set[str]:
    """Names of the ports for which the user's own manifest sets a node port; unnamed is the empty name."""
    applied = mapping(service, "metadata", "annotations").get(labels.LAST_APPLIED_CONFIGURATION)
    if applied is None:
        return set()
    try:
        manifest = orjson.loads(applied)
        if not isinstance(manifest, dict):
            raise TypeError("it is not an object")
        spec = _checked(manifest.get("spec"), dict, "spec")
        ports = [_checked(port, dict, "a port") for port in _checked(spec.get("ports"), list, "spec.ports")]
        return {
            _checked(port.get("name"), str, "the name of a port")
            for port in ports
            if _is_set(port.get("nodePort"))
        }
    except (orjson.JSONDecodeError, TypeError) as error:
        problem = f"error reading annotation {labels.LAST_APPLIED_CONFIGURATION}: {error}"
        raise ActionError(problem) from error


def _checked(value: Any, kind: type[T], what: str) -> T:
    """The value, empty for one that is absent. Raises TypeError for one of another type."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TypeError(f"{what} is not {_WORDS[kind]}")
    return value


def _is_set(node_port: Any) -> bool:
    if node_port is None:
        return False
    if isinstance(node_port, bool) or not isinstance(node_port, int):
        raise TypeError("nodePort is not a whole number")
    return node_port > 0
