"""Makes Restores from the options of a command. Pure. (docs/spec: CLI 5.1)"""

from collections.abc import Collection

from msgspec.structs import replace

from pinnace.api import labels
from pinnace.api.chosen_objects import ChosenObjects, encode_chosen, parse_object
from pinnace.api.meta import ConfigReference, ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.selection.validation import namespace_problem
from pinnace.api.velero.restore import (
    ExistingVolumeDataPolicy,
    Restore,
    RestoreSpec,
    RestoreStatusSpec,
    RestoreUploader,
)
from pinnace.cli.build import check_metadata, check_not_negative, check_selectors
from pinnace.cli.common.content_options import ChosenObjectOptions, RestoreContentOptions
from pinnace.cli.errors import InvalidInput
from pinnace.cli.restore.create import RestoreCreateOptions


def requested_restore(name: str, namespace: str, options: RestoreCreateOptions) -> Restore:
    """The Restore that the options describe. Raises InvalidInput."""
    check_selectors(options)
    spec = restore_spec(options)
    spec.schedule_name = options.from_schedule
    spec.included_namespaces = list(options.include_namespaces)
    spec.excluded_namespaces = list(options.exclude_namespaces)
    spec.namespace_mapping = _namespace_mapping(options)
    spec.restore_status = _restored_status(options)
    if options.resource_modifier_configmap:
        spec.resource_modifier = ConfigReference(kind="configmap", name=options.resource_modifier_configmap)
    if options.resource_policies_configmap:
        spec.resource_policy = ConfigReference(kind="configmap", name=options.resource_policies_configmap)
    _set_data_policy(spec, options)
    if options.skip_default_resource_modifier:
        spec.skip_default_resource_modifier = True
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        labels=dict(options.labels),
        annotations=dict(options.annotations),
    )
    if options.without_volume_data:
        metadata.annotations[labels.WITHOUT_VOLUME_DATA] = "true"
    if options.identity_secret:
        metadata.annotations[labels.IDENTITY_SECRET] = options.identity_secret
    if options.allow_failed:
        metadata.annotations[labels.FAILED_BACKUP] = "true"
    metadata.annotations |= chosen_objects(options)
    check_metadata(metadata)
    return Restore(metadata=metadata, spec=spec)


def _set_data_policy(spec: RestoreSpec, options: RestoreCreateOptions) -> None:
    """Ask for data in claims that exist. Raises InvalidInput. (docs/spec: AFT 6.1)"""
    spec.existing_volume_data_policy = options.existing_volume_data_policy
    if spec.existing_volume_data_policy not in ("", *ExistingVolumeDataPolicy):
        raise InvalidInput(
            "existing-volume-data-policy has invalid value, it accepts only none, full, incremental as value"
        )
    if options.delete_extra_files is None:
        return
    if options.delete_extra_files and not spec.is_in_place:
        raise InvalidInput("--delete-extra-files needs --existing-volume-data-policy full or incremental")
    spec.uploader_config = spec.uploader_config or RestoreUploader()
    spec.uploader_config.delete_extra_files = options.delete_extra_files


def _namespace_mapping(options: RestoreCreateOptions) -> dict[str, str]:
    """The new names of namespaces. Raises InvalidInput for what is no name: each object would fail."""
    for old, new in options.namespace_mappings.items():
        if not old or not new:
            raise InvalidInput(f'--namespace-mappings: "{old}:{new}" lacks a name: write OLD:NEW')
        for name in (old, new):
            if problem := namespace_problem(name):
                raise InvalidInput(f"--namespace-mappings: {problem}")
    return dict(options.namespace_mappings)


def restore_spec(options: RestoreContentOptions) -> RestoreSpec:
    """The spec without the fields that only administrators set. Raises InvalidInput."""
    check_not_negative("--item-operation-timeout", options.item_operation_timeout)
    spec = RestoreSpec(
        backup_name=options.from_backup,
        included_resources=list(options.include_resources),
        excluded_resources=list(options.exclude_resources),
        label_selector=options.selector,
        or_label_selectors=list(options.or_selector),
        restore_pvs=options.restore_volumes,
        preserve_node_ports=options.preserve_nodeports,
        include_cluster_resources=options.include_cluster_resources,
        existing_resource_policy=options.existing_resource_policy or "",
        item_operation_timeout=options.item_operation_timeout,
    )
    if options.write_sparse_files is not None or options.parallel_files_download:
        spec.uploader_config = RestoreUploader(
            write_sparse_files=options.write_sparse_files,
            parallel_files_download=options.parallel_files_download,
        )
    return spec


def chosen_objects(options: ChosenObjectOptions, namespace: str = "") -> dict[str, str]:
    """The annotation with the single objects that are asked for; none if all are. Raises InvalidInput.

    Args:
        namespace: of the objects that are named without one.
    """
    if not options.objects:
        if options.object_with_owners or options.with_dependencies:
            raise InvalidInput(
                "--object-with-owners and --with-dependencies belong to --object KIND/NAMESPACE/NAME"
            )
        return {}
    try:
        named = map(parse_object, options.objects)
        found = tuple(each if each.namespace else replace(each, namespace=namespace) for each in named)
    except ValueError as error:
        raise InvalidInput(f"--object: {error}") from error
    chosen = ChosenObjects(
        objects=found, owners=options.object_with_owners, dependencies=options.with_dependencies
    )
    return {labels.CHOSEN_OBJECTS: encode_chosen(chosen)}


def _restored_status(options: RestoreCreateOptions) -> RestoreStatusSpec | None:
    """The resources whose status is restored. Excluded ones alone mean all others. (docs/spec: BEY 5.2)"""
    included, excluded = options.status_include_resources, options.status_exclude_resources
    if not included and not excluded:
        return None
    return RestoreStatusSpec(included_resources=list(included) or ["*"], excluded_resources=list(excluded))


def newest(backups: list[JSONObject], phases: Collection[str]) -> JSONObject | None:
    """The backup in one of the phases that started last, or None."""
    matching = [b for b in backups if (b.get("status") or {}).get("phase") in phases]
    return max(matching, key=lambda b: b["status"].get("startTimestamp") or "", default=None)
