"""The security context of the init container that waits for volumes: pure. (docs/spec: PVL 10, AFT-172)

The container must be admitted wherever the pod is, and must be able to enter its volumes. What an
administrator has configured comes first; else the container is allowed what the pod's first container is. As
that one was admitted and uses the volumes, both hold. A pod whose first container has no security context of
its own gets one that every Pod Security level admits, with the user and group of the pod.
"""

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pinnace.api.objects import JSONObject, copied, mapping
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice

log = logging.getLogger(__name__)

DEFAULT_USER: Final = 1000
"""The user of Velero's helper, where neither the ConfigMap nor the pod names one."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class _Strict(msgspec.Struct, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """A part of a container's security context, as the API knows it: only checked, never written."""


class _Capabilities(_Strict):
    add: list[str] | None = None
    drop: list[str] | None = None


class _Profile(_Strict):
    type: str
    localhost_profile: str | None = None


class _SELinuxOptions(_Strict):
    user: str | None = None
    role: str | None = None
    type: str | None = None
    level: str | None = None


class _SecurityContext(_Strict):
    allow_privilege_escalation: bool | None = None
    app_armor_profile: _Profile | None = None
    capabilities: _Capabilities | None = None
    privileged: bool | None = None
    proc_mount: str | None = None
    read_only_root_filesystem: bool | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    run_as_user: int | None = None
    se_linux_options: _SELinuxOptions | None = None
    seccomp_profile: _Profile | None = None
    windows_options: dict[str, Any] | None = None


def security_context(config: Mapping[str, str], pod_spec: JSONObject) -> JSONObject:
    """The security context of the ConfigMap, else of the pod's first container, else the default.

    Args:
        config: the data of the ConfigMap; a value that is not valid is logged, and not used.
        pod_spec: of the pod that waits.
    """
    if configured := {**_of_keys(config), **_whole(config)}:
        return configured
    containers = pod_spec.get("containers")
    first = containers[0] if isinstance(containers, list) and containers else None
    if isinstance(first, dict) and (context := mapping(first, "securityContext")):
        return copied(context)
    return _default(mapping(pod_spec, "securityContext"))


def _default(of_pod: Mapping[str, Any]) -> JSONObject:
    """A security context that the level `restricted` admits, with the user and group of the pod."""
    user, group = of_pod.get("runAsUser"), of_pod.get("runAsGroup")
    context: JSONObject = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsNonRoot": True,
        "runAsUser": DEFAULT_USER if user is None else user,
    }
    if user == 0:
        # The kubelet does not start a container as root that must not be root.
        del context["runAsNonRoot"]
        if "runAsNonRoot" in of_pod:
            context["runAsNonRoot"] = of_pod["runAsNonRoot"]
    if group is not None:
        context["runAsGroup"] = group
    return context


def _whole(config: Mapping[str, str]) -> JSONObject:
    """The security context in the key `secCtx`; empty if there is none, or it is not valid."""
    given = config.get("secCtx")
    if not given:
        return {}
    import yaml  # costs more than the rest of most commands

    try:
        found = yaml.safe_load(given)
        msgspec.convert(found, _SecurityContext)
    except (yaml.YAMLError, RecursionError, msgspec.ValidationError) as error:
        shown = " ".join(str(error).split())
        text = "The configured secCtx of the restore helper is not valid, and not used: %s"
        log.error(Notice(Code.SETTING_IGNORED, text), shown)
        return {}
    return dict(found)


def _of_keys(config: Mapping[str, str]) -> JSONObject:
    """The values of the keys for single fields, up to the first one that is not valid."""
    context: JSONObject = {}
    for key, field in (("secCtxRunAsUser", "runAsUser"), ("secCtxRunAsGroup", "runAsGroup")):
        if text := config.get(key):
            if not _INTEGER.fullmatch(text):
                return _without_rest(context, key, text)
            context[field] = int(text)
    if text := config.get("secCtxAllowPrivilegeEscalation"):
        if text not in _TRUE | _FALSE:
            return _without_rest(context, "secCtxAllowPrivilegeEscalation", text)
        context["allowPrivilegeEscalation"] = text in _TRUE
    return context


def _without_rest(context: JSONObject, key: str, text: str) -> JSONObject:
    message = "The configured %s of the restore helper is not valid: %r"
    log.error(Notice(Code.SETTING_IGNORED, message), key, text)
    return context
