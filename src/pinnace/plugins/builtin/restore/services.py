"""Services: addresses and ports that the old cluster assigned are removed. (docs/spec: RST 16.3, BEY 10)

Which ports a user asked for is in the annotation of `kubectl apply` and in `metadata.managedFields`: the API
server has no owner for a port that it chose itself. A port that was chosen and is kept may be taken by
another Service, which would lose the whole Service.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import orjson

from pinnace.api import labels
from pinnace.api.kinds import SERVICES
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.api.values.digits import is_digits
from pinnace.plugins.builtin.restore.config import ActionError
from pinnace.plugins.protocols import ResourceSelector, RestoreItemInput, RestoreItemOutput

T = TypeVar("T")

_DIGITS_OF_PORTS = 5
_WORDS: Mapping[type, str] = {dict: "an object", list: "a list", str: "a text"}


class FreeService:
    """Removes the cluster IP, and ports that the user did not ask for."""

    name = "velero.io/service"

    async def applies_to(self) -> ResourceSelector:
        """Services."""
        return ResourceSelector(included_resources=(SERVICES.group_resource,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Keep `None` as cluster IP, and the ports that the restore or the user wants.

        Load balancer IP and external IPs stay, and a health check port if nothing says who chose it.

        Raises:
            ActionError: the annotation of `kubectl apply` cannot be read.
        """
        spec = mapping(given.item, "spec")
        if spec.get("clusterIP") != "None":
            spec.pop("clusterIP", None)
            # The server refuses the list without its first entry. Older typed Go clients dropped it silently.
            spec.pop("clusterIPs", None)
        if labels.VERIFICATION in given.restore.metadata.labels:
            # With a port of the original, the Service of a trial restore would be refused.
            for port in objects(spec, "ports"):
                port.pop("nodePort", None)
        elif given.restore.spec.preserve_node_ports is not True and spec.get("type") != "ExternalName":
            _free_ports(given.item, spec, objects(given.item_from_backup, "metadata", "managedFields"))
        return RestoreItemOutput(item=given.item)


def _free_ports(service: JSONObject, spec: JSONObject, managed: list[JSONObject]) -> None:
    applied = _Applied.of(service)
    owned = [mapping(entry, "fieldsV1", "f:spec") for entry in managed]
    for port in objects(spec, "ports"):
        is_owned = any(_owns_node_port(fields, port) for fields in owned)
        if not is_owned and not applied.asks_for(port):
            port.pop("nodePort", None)
    is_owned = any("f:healthCheckNodePort" in fields for fields in owned)
    if managed and not is_owned and not applied.has_health_check_port:
        spec.pop("healthCheckNodePort", None)


def _owns_node_port(fields: JSONObject, port: JSONObject) -> bool:
    """Whether the fields of a manager, as managedFields names them, have the node port of a port."""
    key = f'k:{{"port":{port.get("port")},"protocol":"{text(port, "protocol") or "TCP"}"}}'
    return "f:nodePort" in mapping(fields, "f:ports", key)


class _Applied(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the manifest of the last `kubectl apply`.

    Attributes:
        node_ports: names and numbers of the ports with a node port; an unnamed port has the empty name.
    """

    node_ports: frozenset[tuple[str, int]] = frozenset()
    has_health_check_port: bool = False

    def asks_for(self, port: JSONObject) -> bool:
        """Whether the manifest sets the node port: of a port of this name, or this number without a name."""
        name = text(port, "name")
        return any(
            applied == name and (bool(name) or number == port.get("nodePort"))
            for applied, number in self.node_ports
        )

    @classmethod
    def of(cls, service: JSONObject) -> "_Applied":
        """Read the annotation of a Service. Raises ActionError."""
        applied = mapping(service, "metadata", "annotations").get(labels.LAST_APPLIED_CONFIGURATION)
        if applied is None:
            return cls()
        try:
            manifest = orjson.loads(applied)
            if not isinstance(manifest, dict):
                raise TypeError("it is not an object")
            spec = _checked(manifest.get("spec"), dict, "spec")
            ports = [
                _checked(port, dict, "a port") for port in _checked(spec.get("ports"), list, "spec.ports")
            ]
            return cls(
                node_ports=frozenset(
                    (_checked(port.get("name"), str, "the name of a port"), number)
                    for port in ports
                    if (number := _node_port(port.get("nodePort"))) > 0
                ),
                has_health_check_port=bool(spec.get("healthCheckNodePort")),
            )
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


def _node_port(value: Any) -> int:
    """The number of a node port, which some tools write as a text; 0 for what asks for none."""
    if isinstance(value, str) and is_digits(value) and len(value) <= _DIGITS_OF_PORTS:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
