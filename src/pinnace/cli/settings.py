"""The settings of a process: global flags, the client's config file, environment.

(docs/spec: CLI 1.1-1.6)
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pinnace.aio.small_files import read_small_file
from pinnace.cli.declaring.global_flags import GlobalFlags
from pinnace.cli.errors import InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.structs import Struct
from pinnace.cli.words import as_written, is_text
from pinnace.kube.transport.timeouts import DEFAULT_PATIENCE_SECONDS

DEFAULT_NAMESPACE = "velero"
SETTINGS = ("namespace", "features", "cacert", "colorized", "exit-code")
"""The keys of the client's config file."""


class Settings(Struct):
    """The settings of all commands.

    Attributes:
        location: None when a server does the work.
        given: the words of the global flags that another command needs to find the same objects.
        identity_file: opens encrypted backups.
        exit_code: whether `create --wait` tells by its exit code how the run ended.
    """

    namespace: str
    kubeconfig: str | None
    kubecontext: str | None
    location: str | None
    features: frozenset[str]
    colour: bool
    ca_cert: str
    given: tuple[str, ...] = ()
    identity_file: str | None = None
    exit_code: bool = False
    api_timeout_seconds: float = DEFAULT_PATIENCE_SECONDS


def config_path() -> Path:
    """The client's config file; shared with the compatible client on purpose."""
    return Path(os.path.expanduser("~")) / ".config" / "velero" / "config.json"


def load_config_file(path: Path) -> dict[str, Any]:
    """Read the config file. A missing one is empty; a broken one is empty with a warning on stderr."""
    try:
        content = json.loads(read_small_file(path))
        if not isinstance(content, dict):
            raise ValueError("it must hold one JSON object")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        complain(f"WARNING: Error reading config file: {path} is ignored: {reason}")
        return {}
    return content


def resolve_settings(flags: GlobalFlags, *, environ: Mapping[str, str] | None = None) -> Settings:
    """Merge flags, config file and environment by the precedence of the spec. (docs/spec: CLI 1.2-1.6)"""
    environ = os.environ if environ is None else environ
    config = load_config_file(config_path())
    if flags.location == "" and not environ.get("PINNACE_LOCATION"):  # most likely an unset variable
        complain("WARNING: --location is empty, so the command works on the server in the cluster")

    def text(key: str) -> str:
        value = config.get(key)
        return value if isinstance(value, str) else ""

    features = {name for name in text("features").split(",") if name}
    features |= {name for name in flags.features or [] if name}
    namespace = flags.namespace or text("namespace") or environ.get("VELERO_NAMESPACE") or DEFAULT_NAMESPACE
    if not is_text(namespace):  # a flag is checked before; this comes from the file or the environment
        raise InvalidInput(
            f'the namespace "{as_written(namespace)}" of the config file or VELERO_NAMESPACE is not UTF-8'
        )
    return Settings(
        namespace=namespace,
        kubeconfig=flags.kubeconfig,
        kubecontext=flags.kubecontext,
        location=location_of(flags, environ),
        features=frozenset(features),
        colour=_colour(flags.colorized, config, environ),
        ca_cert=text("cacert"),
        given=given_words(flags),
        identity_file=(
            flags.identity_file if flags.identity_file is not None else environ.get("PINNACE_IDENTITY_FILE")
        ),
        exit_code=_is_true(config.get("exit-code")),
        api_timeout_seconds=flags.api_timeout.total_seconds()
        if flags.api_timeout
        else DEFAULT_PATIENCE_SECONDS,
    )


def location_of(flags: GlobalFlags, environ: Mapping[str, str]) -> str | None:
    """The location to work on without a server; an empty flag undoes the variable."""
    return (flags.location if flags.location is not None else environ.get("PINNACE_LOCATION")) or None


def given_words(flags: GlobalFlags) -> tuple[str, ...]:
    """The flags that say where objects are; what the environment says holds for the next command too."""
    words: list[str] = []
    for name, value in (
        ("--kubeconfig", flags.kubeconfig),
        ("--kubecontext", flags.kubecontext),
        ("-n", flags.namespace),
        ("--location", flags.location),
        ("--identity-file", flags.identity_file),
    ):
        if value is not None:
            words += [name, value]
    return tuple(words)


def _is_true(value: object) -> bool:
    return value is True or value in ("1", "t", "T", "true", "True", "TRUE")


def _colour(flag: bool | None, config: dict[str, Any], environ: Mapping[str, str]) -> bool:
    """Colour: the flag, the config file, NO_COLOR, CLICOLOR_FORCE, else only on a terminal. (CLI 1.6)"""
    if flag is not None:
        return flag
    if "colorized" in config:
        # Anything but the text of a false boolean counts as true. (docs/spec: CLI 1.2)
        return config["colorized"] not in ("0", "f", "F", "false", "False", "FALSE")
    if environ.get("NO_COLOR"):
        return False
    if environ.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return sys.stdout is not None and sys.stdout.isatty() and environ.get("TERM") != "dumb"
