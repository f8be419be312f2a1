"""The flags for the content of backups, restores and searches, and for waiting for them.

Apart from `options`, so that commands that only read do not declare them. What differs between the commands
is a word in the help (`verb`, `kind`) that the struct of the command gives, or a flag that it declares again.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from pinnace.cli.declaring.fields import (
    Options,
    Section,
    comma_list,
    duration,
    flag,
    key_values,
    string_slice,
    switch,
    text,
    tristate,
)
from pinnace.cli.declaring.types import BackupTypeFlag, Number, OrSelectorFlag, SelectorFlag
from pinnace.cli.declaring.values import (
    FILE,
    LOCATION,
    NAMESPACES,
    RESOURCES,
    TTL,
    CompletionSource,
    Value,
)
from pinnace.cli.guard import complain

if TYPE_CHECKING:
    from pinnace.api.meta import LabelSelector
    from pinnace.api.values.durations import Duration


class NamespaceFilterOptions(Options, section=Section.WHAT, namespaces="Namespaces"):
    """Which namespaces to `verb`."""

    include_namespaces: Sequence[str] = comma_list(
        default="*", value=NAMESPACES, help="{namespaces} to {verb}, '*' for all."
    )
    exclude_namespaces: Sequence[str] = comma_list(value=NAMESPACES, help="Namespaces to leave out.")


class ObjectFilterOptions(Options, section=Section.WHAT):
    """Which resources and objects to `verb`."""

    include_resources: Sequence[str] = comma_list(
        value=RESOURCES, help="Resource types to {verb} (resource.group), '*' for all."
    )
    exclude_resources: Sequence[str] = comma_list(value=RESOURCES, help="Resource types to leave out.")
    selector: "LabelSelector | None" = flag(
        "-l", "--selector", type=SelectorFlag(), help="{verb} only objects that match this label selector."
    )
    or_selector: "Sequence[LabelSelector]" = flag(
        type=OrSelectorFlag(),
        default="",
        help="{verb} only objects that match one of these: 'a=b or c in (d,e)'.",
    )
    include_cluster_resources: bool | None = tristate(help="Include cluster-scoped objects.")


class FilterOptions(NamespaceFilterOptions, ObjectFilterOptions):
    """Which namespaces, resources and objects to `verb`."""


class ScopedFilterOptions(Options, section=Section.WHAT):
    """Which resources to `verb`, each scope for itself; not together with the filters for all resources."""

    include_cluster_scoped_resources: Sequence[str] = comma_list(
        value=RESOURCES, help="Cluster-scoped resource types to {verb}, '*' for all."
    )
    exclude_cluster_scoped_resources: Sequence[str] = comma_list(
        value=RESOURCES, help="Cluster-scoped resource types to leave out, '*' for all."
    )
    include_namespace_scoped_resources: Sequence[str] = comma_list(
        value=RESOURCES, help="Namespaced resource types to {verb}, '*' for all."
    )
    exclude_namespace_scoped_resources: Sequence[str] = comma_list(
        value=RESOURCES, help="Namespaced resource types to leave out, '*' for all."
    )


class MetadataOptions(Options):
    """The metadata of what is created: a `kind` object."""

    labels: Mapping[str, str] = key_values(help="Labels for the {kind} object: k=v,...")
    annotations: Mapping[str, str] = key_values(help="Annotations for the {kind} object: k=v,...")


class OperationTimeoutOptions(Options):
    """How long operations of plugins may take."""

    item_operation_timeout: "Duration | None" = duration(
        help="How long an operation that a plugin has started may take: 4h if not given."
    )


class BackupObjectOptions(ObjectFilterOptions, ScopedFilterOptions, verb="back up"):
    """Which resources and objects to back up."""


class BackupFilterOptions(NamespaceFilterOptions, BackupObjectOptions):
    """Which namespaces, resources and objects to back up."""

    namespace_selector: "LabelSelector | None" = flag(
        type=SelectorFlag(),
        section=Section.WHAT,
        help="Back up only namespaces that have these labels when the backup begins.",
    )
    resource_policies_configmap: str = text(
        section=Section.WHAT,
        help="ConfigMap in the server's namespace with policies for volumes and resources.",
    )


class BackupContentOptions(BackupObjectOptions):
    """The content of a backup and where it is stored, for administrators and tenants."""

    ordered_resources: str = text(
        section=Section.WHAT,
        value=Value("ORDER"),
        help="Order within types: 'pods=ns1/p1,ns1/p2;persistentvolumes=pv1'.",
    )
    storage_location: str = text(
        section=Section.WHERE, value=LOCATION, help="Location to store the backup in (with a server)."
    )
    snapshot_volumes: bool | None = tristate(
        section=Section.VOLUMES, help="Take snapshots of PersistentVolumes."
    )
    default_volumes_to_restic: bool | None = tristate(
        "--default-volumes-to-restic",
        "--default-volumes-to-fs-backup",
        section=Section.VOLUMES,
        help="Back up all pod volumes from their files unless opted out.",
    )
    csi_snapshot_timeout: "Duration | None" = duration(
        section=Section.VOLUMES,
        help="How long a CSI snapshot may take until the storage system has named it: 10m if not given.",
    )
    backup_type: str | None = flag(
        type=BackupTypeFlag(),
        section=Section.VOLUMES,
        help="Full reads every file of the volumes, also those that look unchanged; else Incremental.",
    )
    parallel_files_upload: int = flag(
        type=Number(whole=True, least=0),
        default=0,
        section=Section.VOLUMES,
        help="How many files of a volume are read at once; 0 for the uploader's own choice.",
    )
    item_operation_timeout: "Duration | None"
    snapshot_move_data: bool | None = tristate(
        section=Section.VOLUMES,
        help="Move the data of CSI snapshots into the location (with a server and node agents).",
    )
    data_mover: str = text(
        section=Section.VOLUMES,
        value=Value("MOVER", words=("velero",)),
        help="The program that moves the data: velero, the built-in one.",
    )


def _explain_zero(ctx: click.Context, param: click.Parameter, ttl: "Duration") -> "Duration":
    """Say what --ttl 0 means: elsewhere it is "at once" or "for ever"."""
    source = ctx.get_parameter_source(param.name or "")
    if source is click.core.ParameterSource.COMMANDLINE and ttl.nanoseconds == 0:
        complain("--ttl 0 stands for the default: as the server says, or 720h (30 days)")
    return ttl


class BackupSpecOptions(BackupFilterOptions, BackupContentOptions):
    """The options for the spec of a backup, or of a schedule's template, and for their metadata."""

    ttl: "Duration" = duration(
        default="0s",
        callback=_explain_zero,
        value=TTL,
        help="How long to keep the backup; if not given as the server says, or 720h.",
        show_default=False,
    )
    volume_snapshot_locations: Sequence[str] = string_slice(
        section=Section.VOLUMES,
        value=Value("LOCATION,...", CompletionSource.SNAPSHOT_LOCATIONS),
        before="snapshot_volumes",
        help="Locations for volume snapshots, at most one per provider.",
    )
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class RestoreContentOptions(ObjectFilterOptions, verb="restore"):
    """The content of a restore and how it is restored, for administrators and tenants."""

    from_backup: str
    restore_volumes: bool | None = tristate(section=Section.VOLUMES, help="Restore volumes from snapshots.")
    preserve_nodeports: bool | None = tristate(section=Section.WHAT, help="Keep the node ports of Services.")
    existing_resource_policy: str | None
    item_operation_timeout: "Duration | None"
    write_sparse_files: bool | None = tristate(
        section=Section.VOLUMES, help="Write long runs of zeros in files of pod volumes as holes."
    )
    parallel_files_download: int = flag(
        type=Number(whole=True, least=0),
        default=0,
        section=Section.VOLUMES,
        help="How many files of a volume are written at once; 0 for the uploader's own choice.",
    )


class ChosenObjectOptions(Options):
    """The objects to restore, by name."""

    objects: Sequence[str] = flag(
        "--object",
        multiple=True,
        value=Value("KIND/NAMESPACE/NAME", CompletionSource.STORED_WITH_NAMESPACE),
        help="Restore only this object, as named in the backup; can be given several times. KIND/NAME is a"
        " cluster-scoped one.",
    )
    object_with_owners: bool = switch(help="Restore the owners of each --object, too.")
    with_dependencies: bool = switch(
        help="Restore what its pods refer to, too: Secrets, ConfigMaps, claims, service accounts."
    )


class RunMessageOptions(Options, section=Section.OUTPUT):
    """Who is told how a run without a server ended."""

    messages_file: str = text(
        value=FILE,
        help="With --location: tell the sinks of this file how it ended; default $PINNACE_MESSAGES_FILE.",
    )


class WaitOptions(Options, section=Section.OUTPUT):
    """Whether to wait for the end of a run, and whether the exit code then tells how it ended.

    `exit_code` is None where the config file decides whether the exit code tells how the run ended.
    """

    wait: bool = switch("-w", "--wait", help="Wait for the end (always so with --location).")
    exit_code: bool | None = tristate(
        help="With --wait: exit with 3 for PartiallyFailed, 4 for Failed, 2 for FailedValidation, as "
        "always with --location. `client config set exit-code=true` makes it the default."
    )
    progress: str = flag(
        type=click.Choice(["auto", "plain", "json", "none"]),
        default="auto",
        help="How progress is shown on stderr: auto redraws lines on a terminal.",
    )
