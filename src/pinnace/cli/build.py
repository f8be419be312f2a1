"""Makes Backups from the options of a command. Pure. (docs/spec: CLI 4.1)"""

from pinnace.api import labels
from pinnace.api.meta import ConfigReference, ObjectMeta
from pinnace.api.selection.resource_filters import filter_errors
from pinnace.api.selection.selectors import Selector
from pinnace.api.selection.validation import metadata_errors, namespace_list_errors
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import Backup, BackupSpec, BackupUploader
from pinnace.cli.common.content_options import (
    BackupContentOptions,
    BackupFilterOptions,
    BackupObjectOptions,
    BackupSpecOptions,
    ObjectFilterOptions,
)
from pinnace.cli.errors import InvalidInput


def requested_backup(name: str, namespace: str, options: BackupSpecOptions) -> Backup:
    """The Backup that the options describe. Raises InvalidInput."""
    if options.ttl < Duration():
        raise InvalidInput("--ttl must not be negative: such a backup would be deleted at once")
    spec = backup_spec(options)
    _set_filters(spec, options)
    spec.ttl = options.ttl
    spec.volume_snapshot_locations = list(options.volume_snapshot_locations)
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        labels=dict(options.labels),
        annotations={**options.annotations, **namespace_selector(options)},
    )
    check_metadata(metadata)
    return Backup(metadata=metadata, spec=spec)


def filtered_backup(options: BackupFilterOptions) -> Backup:
    """A Backup that has the filters of the options, and nothing else. Raises InvalidInput."""
    spec = _object_filters(options)
    _set_filters(spec, options)
    return Backup(metadata=ObjectMeta(annotations=namespace_selector(options)), spec=spec)


def _set_filters(spec: BackupSpec, options: BackupFilterOptions) -> None:
    """Set the filters that only administrators have. Raises InvalidInput, for those of the objects too."""
    check_selectors(options)
    spec.included_namespaces = list(options.include_namespaces)
    spec.excluded_namespaces = list(options.exclude_namespaces)
    if options.resource_policies_configmap:
        spec.resource_policy = ConfigReference(kind="configmap", name=options.resource_policies_configmap)
    namespaces = namespace_list_errors(spec.included_namespaces, spec.excluded_namespaces)
    if problems := [*filter_errors(spec), *namespaces]:
        raise InvalidInput("\n".join(problems))


def namespace_selector(options: BackupFilterOptions) -> dict[str, str]:
    """The annotation with the labels of the included namespaces; none if every namespace may be included."""
    if options.namespace_selector is None:
        return {}
    return {labels.NAMESPACE_SELECTOR: str(Selector.from_label_selector(options.namespace_selector))}


def backup_spec(options: BackupContentOptions) -> BackupSpec:
    """The spec without the fields that only administrators set. Raises InvalidInput."""
    check_not_negative("--csi-snapshot-timeout", options.csi_snapshot_timeout)
    check_not_negative("--item-operation-timeout", options.item_operation_timeout)
    spec = _object_filters(options)
    spec.snapshot_volumes = options.snapshot_volumes
    spec.storage_location = options.storage_location
    spec.default_volumes_to_fs_backup = options.default_volumes_to_restic
    spec.ordered_resources = ordered_resources(options.ordered_resources)
    spec.csi_snapshot_timeout = options.csi_snapshot_timeout
    spec.item_operation_timeout = options.item_operation_timeout
    spec.snapshot_move_data = options.snapshot_move_data
    spec.datamover = options.data_mover
    spec.backup_type = options.backup_type or ""
    if options.parallel_files_upload:
        spec.uploader_config = BackupUploader(parallel_files_upload=options.parallel_files_upload)
    return spec


def _object_filters(options: BackupObjectOptions) -> BackupSpec:
    return BackupSpec(
        included_resources=list(options.include_resources),
        excluded_resources=list(options.exclude_resources),
        label_selector=options.selector,
        or_label_selectors=list(options.or_selector),
        include_cluster_resources=options.include_cluster_resources,
        included_cluster_scoped_resources=list(options.include_cluster_scoped_resources),
        excluded_cluster_scoped_resources=list(options.exclude_cluster_scoped_resources),
        included_namespace_scoped_resources=list(options.include_namespace_scoped_resources),
        excluded_namespace_scoped_resources=list(options.exclude_namespace_scoped_resources),
    )


def check_metadata(metadata: ObjectMeta) -> None:
    """Refuse metadata that an API server would refuse, in whatever way the object is used.

    Without a server nothing else checks it, and a server that takes over the location could not make the
    object known.

    Raises:
        InvalidInput: with all problems.
    """
    if problems := metadata_errors(metadata):
        raise InvalidInput("; ".join(problems))


def check_not_negative(flag: str, duration: Duration | None) -> None:
    """Refuse a limit that would be over at once; 0 means the server's default. Raises InvalidInput."""
    if duration is not None and duration < Duration():
        raise InvalidInput(f"{flag} must not be negative")


def check_selectors(options: ObjectFilterOptions) -> None:
    """Raise InvalidInput if both kinds of label selectors are given."""
    if options.selector is not None and options.or_selector:
        raise InvalidInput("either a 'selector' or an 'or-selector' can be specified, but not both")


def ordered_resources(text: str) -> dict[str, str]:
    """Parse `pods=ns1/p1,ns1/p2;persistentvolumes=pv1`. Raises InvalidInput naming the entry."""
    result: dict[str, str] = {}
    for entry in text.split(";") if text else []:
        kind, *order = (part.strip() for part in entry.split("="))
        if len(order) != 1 or not kind:
            raise InvalidInput(f"Invalid OrderedResources '{entry}'.")
        if kind in result:
            raise InvalidInput(f"Invalid OrderedResources '{entry}': {kind} is given twice.")
        result[kind] = order[0]
    return result
