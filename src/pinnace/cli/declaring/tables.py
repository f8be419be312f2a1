"""The kinds of values of flags and arguments: the word for each in the help, and its source for completion.

Pure. The name of a parameter decides, as it has the same meaning in all commands. If it has not, the words of
the command precede it.
"""

from collections.abc import Sequence
from typing import Final

import click

from pinnace.cli.declaring.fields import Arguments, FlagOption
from pinnace.cli.declaring.values import CompletionSource as CompletionSource
from pinnace.cli.declaring.values import Value as Value

_GET_FORMATS: Final = ("table", "wide", "json", "yaml", "name", "jsonpath=", "custom-columns=")
_BROWSE_FORMATS: Final = {
    "backup ls": ("table", "wide", "json", "yaml", "name"),
    "backup show": ("yaml", "json"),
    "backup diff": ("table", "json", "yaml", "name"),
    "backup search": ("table", "json", "yaml", "name"),
    "backup verify": ("table", "json", "yaml"),
    "history": ("table", "wide", "json", "yaml", "name"),
    "install": ("json", "yaml"),
    "plugin get": ("table", "json", "yaml", "name", "jsonpath=", "custom-columns="),
}

_NAMESPACES: Final = Value("NAMESPACE,...", CompletionSource.NAMESPACES)
_RESOURCES: Final = Value("RESOURCE,...", CompletionSource.KINDS)
_NUMBER: Final = Value("NUMBER")
_FILE: Final = Value("FILE", CompletionSource.FILES)
_ADDRESS: Final = Value("ADDRESS", like=":8085")
_CPU: Final = Value("CPU", like="500m, 2")
_MEMORY: Final = Value("MEMORY", like="512Mi, 2Gi")
_PRIORITY_CLASS: Final = Value("PRIORITY_CLASS")
_FOLDER: Final = Value("FOLDER", CompletionSource.FOLDERS)
_DESCRIBED: Final = Value("FORMAT", words=("plaintext", "json"))

VALUES: Final[dict[str, Value]] = {
    **{f"{verb}_namespaces": _NAMESPACES for verb in ("include", "exclude")},
    **{f"{verb}_resources": _RESOURCES for verb in ("include", "exclude")},
    **{f"status_{verb}_resources": _RESOURCES for verb in ("include", "exclude")},
    **{
        f"{verb}_{scope}_scoped_resources": _RESOURCES
        for verb in ("include", "exclude")
        for scope in ("cluster", "namespace")
    },
    **{f"restic_pod_cpu_{bound}": _CPU for bound in ("request", "limit")},
    **{f"restic_pod_mem_{bound}": _MEMORY for bound in ("request", "limit")},
    **{f"velero_pod_cpu_{bound}": _CPU for bound in ("request", "limit")},
    **{f"velero_pod_mem_{bound}": _MEMORY for bound in ("request", "limit")},
    **{f"{path} output_format": Value("FORMAT", words=words) for path, words in _BROWSE_FORMATS.items()},
    "output_format": Value("FORMAT", words=_GET_FORMATS),
    "backup describe output": _DESCRIBED,
    "restore describe output": _DESCRIBED,
    "output": _FILE,
    "global_kubeconfig": _FILE,
    "global_kubecontext": Value("CONTEXT", CompletionSource.CONTEXTS),
    "global_namespace": Value("NAMESPACE", CompletionSource.NAMESPACES),
    "global_location": Value("FOLDER|URL", CompletionSource.FOLDERS),
    "global_features": Value("FEATURE,...", words=("EnableCSI", "EnableAPIGroupVersions", "NonAdmin")),
    "features": Value("FEATURE,...", words=("EnableCSI", "EnableAPIGroupVersions", "NonAdmin")),
    "of_namespace": Value("NAMESPACE", CompletionSource.NAMESPACES),
    "from_backup": Value("BACKUP", CompletionSource.BACKUPS),
    "nonadmin restore create from_backup": Value("BACKUP", CompletionSource.TENANT_BACKUPS),
    "from_schedule": Value("SCHEDULE", CompletionSource.SCHEDULES),
    "debug backup": Value("BACKUP", CompletionSource.BACKUPS),
    "debug restore": Value("RESTORE", CompletionSource.RESTORES),
    "storage_location": Value("LOCATION", CompletionSource.LOCATIONS),
    "nonadmin backup create storage_location": Value("LOCATION", CompletionSource.TENANT_LOCATIONS),
    "default_backup_storage_location": Value("LOCATION", CompletionSource.LOCATIONS),
    "volume_snapshot_locations": Value("LOCATION,...", CompletionSource.SNAPSHOT_LOCATIONS),
    "default_volume_snapshot_locations": Value("PROVIDER:LOCATION,..."),
    "namespace_mappings": Value("OLD:NEW,...", CompletionSource.NAMESPACES),
    "objects": Value("KIND/NAMESPACE/NAME", CompletionSource.STORED_WITH_NAMESPACE),
    "ordered_resources": Value("ORDER"),
    "schedule": Value("CRON", words=("@hourly", "@daily", "@weekly", "@monthly", "@yearly", "@every"),
                      like="'0 3 * * *', @daily, '@every 6h'"),
    "ttl": Value("DURATION", like="72h, 30d, 2w"),
    "default_backup_ttl": Value("DURATION", like="72h, 30d, 2w"),
    "labels": Value("KEY=VALUE,..."),
    "label_columns": Value("LABEL,..."),
    "data_mover": Value("MOVER", words=("velero",)),
    "resource_policies_configmap": Value("CONFIGMAP"),
    "resource_modifier_configmap": Value("CONFIGMAP"),
    "provider": Value("PROVIDER", words=("aws", "azure", "gcp", "pinnace.io/filesystem")),
    "bucket": Value("BUCKET"),
    "prefix": Value("PREFIX"),
    "credential": Value("SECRET=KEY"),
    "adopted_namespaces": Value("NAMESPACE=UID,..."),
    "allowed_endpoints": _ADDRESS,
    "config_map": Value("CONFIGMAP"),
    "cacert": _FILE,
    "secret_file": _FILE,
    "restic_password_file": _FILE,
    "crds_version": Value("VERSION", words=("v1",)),
    "image": Value("IMAGE"),
    "plugins": Value("IMAGE,..."),
    "service_account_name": Value("SERVICE_ACCOUNT"),
    "server_priority_class_name": _PRIORITY_CLASS,
    "node_agent_priority_class_name": _PRIORITY_CLASS,
    "kubelet_root_dir": _FOLDER,
    "folder": _FOLDER,
    "plugin_dir": _FOLDER,
    "host_pods": _FOLDER,
    "disable_controllers": Value("CONTROLLER,..."),
    "restore_resource_priorities": _RESOURCES,
    "zap_time_encoding": Value("ENCODING"),
    "zap_stacktrace_level": Value("LEVEL"),
    "zap_log_level": Value("LEVEL"),
    "metrics_address": _ADDRESS,
    "metrics_bind_address": _ADDRESS,
    "health_probe_bind_address": _ADDRESS,
    "profiler_address": _ADDRESS,
}  # fmt: skip
"""Keyed by the parameter's name, or by a command's words and that name."""

_TYPES: Final[dict[str, Value]] = {
    "duration": Value("DURATION", like="90s, 10m, 4h"),
    "wait": Value("DURATION", like="90s, 10m, 4h; longer than 0"),
    "labelSelector": Value("SELECTOR", like="app=web,tier!=db"),
    "orLabelSelector": Value("SELECTORS"),
    "mapStringString": Value("KEY=VALUE,..."),
    "stringArray": Value("NAME,..."),
    "strings": Value("NAME,..."),
    "boolean": Value("true|false", words=("true", "false")),
    "path": _FILE,
    "int": _NUMBER,
    "integer": _NUMBER,
    "integer range": _NUMBER,
    "float": _NUMBER,
}
"""Keyed by the name of the parameter's type."""

_NAMES: Final = {
    "backup": CompletionSource.BACKUPS,
    "restore": CompletionSource.RESTORES,
    "schedule": CompletionSource.SCHEDULES,
    "backup-location": CompletionSource.LOCATIONS,
    "snapshot-location": CompletionSource.SNAPSHOT_LOCATIONS,
    "repo": CompletionSource.REPOSITORIES,
    "restic repo": CompletionSource.REPOSITORIES,
    "nonadmin backup": CompletionSource.TENANT_BACKUPS,
    "nonadmin restore": CompletionSource.TENANT_RESTORES,
    "nonadmin storage-location": CompletionSource.TENANT_LOCATIONS,
}
SETTINGS: Final = ("namespace", "features", "cacert", "colorized", "exit-code")
"""The keys of the client's config file."""
ARGUMENTS: Final[dict[str, tuple[Value, ...]]] = {
    "backup ls": (Value("NAME", CompletionSource.BACKUPS), Value("KIND", CompletionSource.STORED)),
    "backup show": (Value("NAME", CompletionSource.BACKUPS), Value("KIND/NAME", CompletionSource.STORED)),
    "history": (Value("KIND/NAME", CompletionSource.STORED),),
    "completion": (Value("SHELL", words=("bash", "zsh", "fish")),),
    "client config get": (Value("KEY", words=SETTINGS),),
    "client config set": (Value("KEY", words=tuple(f"{key}=" for key in SETTINGS)),),
    "help": (Value("COMMAND", CompletionSource.COMMANDS),),
    "man": (Value("COMMAND", CompletionSource.COMMANDS),),
}
"""The value at each position; the last one is also for all that follow."""


def value_of(path: str, param: click.Parameter) -> Value:
    """The kind of value of a flag.

    Args:
        path: the words of its command, noun first, without the program.
    """
    if isinstance(param, FlagOption):
        return param.value
    name = param.name or ""
    words = tuple(map(str, getattr(param.type, "words", getattr(param.type, "choices", ()))))
    if words:
        return Value("|".join(words), words=words)
    named = VALUES.get(f"{path} {name}") or VALUES.get(name)
    known = named or _TYPES.get("labelSelector" if name == "selector" else param.type.name)
    return known or Value(name.rpartition("_")[2].upper())  # --node-agent-configmap CONFIGMAP


def argument_of(path: str, position: int, params: Sequence[click.Parameter] = ()) -> Value:
    """The kind of value of the argument at a position, counted from 0."""
    for param in params:
        if isinstance(param, Arguments):
            return param.value_at(position)
    known: Sequence[Value] = ARGUMENTS.get(path, ())
    if known:
        return known[min(position, len(known) - 1)]
    noun, _, verb = path.rpartition(" ")
    source = _NAMES.get(noun)
    return Value("NAME", None if verb == "create" else source)


def noun_first(words: Sequence[str]) -> str:
    """A command's words in the form of the tables: `backup get` for `get backups` too."""
    if len(words) == 2 and words[0] in ("create", "get", "describe", "delete"):
        return f"{words[1].removesuffix('s')} {words[0]}"
    return " ".join(words)
