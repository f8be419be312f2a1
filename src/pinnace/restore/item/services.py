"""Services whose ports, IP families or addresses this cluster cannot give. Pure. (docs/spec: RST 16.3)

A Service is refused as a whole if one of them is taken or not there. Here is what can be left out, and what
to say about the rest.
"""

import re
from typing import Final

import orjson

from pinnace.api import kinds, labels
from pinnace.api.objects import JSONObject, listed, mapping, objects, text
from pinnace.kube.errors import APIStatusError, KubeError

SERVICES: Final = kinds.SERVICES.group_resource
_PORT_REFUSED: Final = ("port is already allocated", "port is not in the valid range")
_FAMILY_REFUSED: Final = "not configured on this cluster"
_NOT_DUAL: Final = "not configured for dual-stack"
_FAMILY: Final = re.compile(r"spec\.ipFamilies\[(\d{1,2})\]", re.ASCII)
_PORT: Final = re.compile(r"spec\.ports\[(\d{1,4})\]\.nodePort", re.ASCII)
_MODIFIER: Final = "a resource modifier for services that removes"


def without_lacking_families(service: JSONObject, refusal: KubeError) -> tuple[JSONObject, str] | None:
    """The Service without the IP families that the cluster lacks, if it only prefers to have two.

    Returns:
        The Service and the families that were left out; None if it wants them all, or was refused for another
        reason.
    """
    spec = mapping(service, "spec")
    families = listed(spec, "ipFamilies")
    if spec.get("ipFamilyPolicy") != "PreferDualStack" or not isinstance(refusal, APIStatusError):
        return None
    lacking = {
        families[int(found[1])]
        for cause in objects(refusal.status, "details", "causes")
        if _FAMILY_REFUSED in text(cause, "message")
        and (found := _FAMILY.fullmatch(text(cause, "field")))
        and int(found[1]) < len(families)
    }
    if not lacking:
        return None
    changed = {**spec, "ipFamilies": [family for family in families if family not in lacking]}
    if not changed["ipFamilies"]:
        del changed["ipFamilies"]
    return {**service, "spec": changed}, ", ".join(sorted(map(str, lacking)))


def advice(service: JSONObject, refusal: KubeError) -> str:
    """The advice for a refused Service, to be put behind the server's text; empty if there is none."""
    said = str(refusal)
    if any(reason in said for reason in _PORT_REFUSED):
        if "HealthCheck" in said or "healthCheckNodePort" in said:
            return f"; {_MODIFIER} /spec/healthCheckNodePort lets the cluster choose another port"
        found = _PORT.search(said)
        paths = [f"/spec/ports/{found[1]}/nodePort"] if found else _node_port_paths(service)
        return f"; {_MODIFIER} {' and '.join(paths)} lets the cluster choose another port" if paths else ""
    if any(reason in said for reason in (_FAMILY_REFUSED, _NOT_DUAL)):
        if text(service, "spec", "ipFamilyPolicy") == "RequireDualStack":
            return (
                "; a resource modifier for services that replaces /spec/ipFamilyPolicy by PreferDualStack"
                " takes the IP families that the cluster has"
            )
        return f"; {_MODIFIER} /spec/ipFamilies lets the cluster choose the IP family"
    return ""


def _node_port_paths(service: JSONObject) -> list[str]:
    ports = listed(service, "spec", "ports")
    return [
        f"/spec/ports/{index}/nodePort"
        for index, port in enumerate(ports)
        if isinstance(port, dict) and "nodePort" in port
    ]


def lost_address(from_backup: JSONObject, created: JSONObject) -> str:
    """Why the cluster IP of a created Service is a warning; empty if nobody chose the former one.

    As with node ports, the API server notes no owner for an address that it chose itself.
    """
    former, new = text(from_backup, "spec", "clusterIP"), text(created, "spec", "clusterIP")
    if former in ("", "None") or former == new or not _is_chosen(from_backup):
        return ""
    return (
        f"its manifest asks for the cluster IP {former}, and it has {new or 'another one'} now: change what"
        " uses the old address, or restore it with a resource modifier for services that adds"
        f" /spec/clusterIP with the value {former}"
    )


def _is_chosen(service: JSONObject) -> bool:
    managed = objects(service, "metadata", "managedFields")
    if any("f:clusterIP" in mapping(entry, "fieldsV1", "f:spec") for entry in managed):
        return True
    applied = text(service, "metadata", "annotations", labels.LAST_APPLIED_CONFIGURATION)
    try:
        return bool(text(orjson.loads(applied), "spec", "clusterIP")) if applied else False
    except orjson.JSONDecodeError:
        return False
