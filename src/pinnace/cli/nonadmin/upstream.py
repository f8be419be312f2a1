"""Settings of the log in scripts for the upstream manager, and its flags without effect here. Pure.

The environment wins over the flags of the framework, as only the environment is supported upstream.
(docs/spec: NAC 2)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pinnace.api.values.digits import is_digits
from pinnace.cli.declaring.fields import Options, flag, switch
from pinnace.cli.declaring.types import Enum
from pinnace.cli.declaring.values import Value

_LEVELS: Final = ("panic", "fatal", "error", "warning", "info", "debug", "trace")
_ZAP_LEVELS: Final = ("debug", "info", "error", "panic")

_WITHOUT_EFFECT: Final = {
    "metrics-secure": "metrics are served over http; for https bind them to this machine, behind a proxy",
    "enable-http2": "the pages are served over HTTP/1.1",
    "zap-stacktrace-level": "errors are logged with a trace only if they are defects",
    "zap-time-encoding": "times are in RFC 3339",
}


class UpstreamOptions(Options):
    """Flags of the upstream manager that have no other meaning here."""

    zap_time_encoding: str | None = flag(value=Value("ENCODING"), help="Without effect.")
    zap_stacktrace_level: str | None = flag(help="Without effect.")
    zap_log_level: str | None = flag(help="As LOG_LEVEL: a name, or a number for debug.")
    zap_encoder: str | None = flag(type=Enum("json", "console"), help="As LOG_FORMAT.")
    zap_devel: bool = switch(help="Log as for developers: everything from debug on, as text.")
    enable_http2: bool = switch(help="Without effect: the pages are served over HTTP/1.1.")
    metrics_secure: bool = switch(help="Without effect: metrics are served over http.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChoice:
    """How the process logs, and the first lines of its log.

    Attributes:
        remarks: warnings about settings that cannot be used, and of flags without effect.
    """

    level: str
    fmt: str
    remarks: tuple[str, ...] = ()


def log_choice(environ: Mapping[str, str], options: UpstreamOptions) -> LogChoice:
    """Decide how to log. The environment takes precedence over the flags."""
    level, remark = _level(environ.get("LOG_LEVEL", ""), options)
    encoder = environ.get("LOG_FORMAT") or options.zap_encoder or ""
    remarks = [remark] if remark else []
    return LogChoice(
        # Nothing is logged below debug.
        level="debug" if level == "trace" else level,
        fmt="json" if encoder == "json" else "text",
        remarks=(*remarks, *_without_effect(options)),
    )


def _level(given: str, options: UpstreamOptions) -> tuple[str, str]:
    """The level, and a remark if the given one is unknown."""
    asked = options.zap_log_level or ""
    if given:
        if is_digits(given) and int(given) < len(_LEVELS):
            return _LEVELS[int(given)], ""
        known = given in _LEVELS
        return given if known else "info", "" if known else f"LOG_LEVEL={given} is not a level; info is used"
    if asked in _ZAP_LEVELS:
        return asked, ""
    if is_digits(asked) and int(asked) > 0:
        return "debug", ""
    default = "debug" if options.zap_devel else "info"
    return default, f"--zap-log-level={asked} is not a level; {default} is used" if asked else ""


def _without_effect(options: UpstreamOptions) -> Iterable[str]:
    given = {
        "metrics-secure": options.metrics_secure,
        "enable-http2": options.enable_http2,
        "zap-stacktrace-level": options.zap_stacktrace_level,
        "zap-time-encoding": options.zap_time_encoding,
    }
    for name, instead in _WITHOUT_EFFECT.items():
        if given[name]:
            yield f"--{name} has no effect: {instead}"
