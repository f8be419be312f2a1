"""Checks what is wanted of an installation; texts name the flags of `install`. Pure. (docs/spec: CLI 11.1)"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from pinnace.api import phases
from pinnace.api.values.durations import Duration
from pinnace.csi.snapshots import FEATURE as CSI_FEATURE
from pinnace.installing.options import KUBELET_ROOT, InstallOptions
from pinnace.storage.providers import FILESYSTEM, PROVIDERS, lacks_region, qualified_provider

RESERVED_LABELS: Final = frozenset({"component", "deploy", "name", "control-plane"})
"""Labels of pods that workloads, services and commands select by."""


def _needing_image(options: InstallOptions) -> Mapping[str, object]:
    """The flags that have a meaning only with a server, and their values."""
    return {
        "--use-node-agent": options.node_agent,
        "--plugins": options.plugins,
        "--restore-only": options.restore_only,
        "--default-volumes-to-fs-backup": options.default_volumes_to_fs_backup,
        "--default-repo-maintain-frequency": options.maintenance_frequency,
        "--pod-labels": options.pod_labels,
        "--service-account-name": options.service_account,
        "--server-priority-class-name": options.server_priority_class,
        "--garbage-collection-frequency": options.garbage_collection_frequency,
        "--pod-volume-operation-timeout": options.pod_volume_operation_timeout,
        "--concurrent-backups": options.concurrent_backups,
        "--backup-repository-configmap": options.repository_config_map,
        "--repo-maintenance-job-configmap": options.maintenance_config_map,
        "--default-resource-modifier-configmap": options.default_modifiers,
        "--schedule-skip-immediately": options.schedule_skip_immediately,
        "--default-snapshot-move-data": options.default_snapshot_move_data,
        "--wait": options.wait,
    }


def _needing_node_agent(options: InstallOptions) -> Mapping[str, object]:
    """The flags that have a meaning only with the node agent, and their values."""
    return {
        "--privileged-node-agent": options.privileged_node_agent,
        "--node-agent-priority-class-name": options.node_agent_priority_class,
        "--node-agent-configmap": options.node_agent_config_map,
        "--kubelet-root-dir": options.kubelet_root != KUBELET_ROOT,
    }


def check(options: InstallOptions) -> str | None:
    """The first problem with the options, in the order of the spec, or None."""
    if options.bucket.startswith("-"):
        return f"Bucket names cannot begin with a dash. Bucket name was: {options.bucket}"
    if options.provider in FILESYSTEM:
        return _check_folder(options) or _check_resources(options)
    return (
        _check_locations(options)
        or _check_plugins(options)
        or _check_restic(options)
        or _check_secret(options)
        or _check_movement(options)
        or _check_server(options)
        or _check_resources(options)
    )


def _check_folder(options: InstallOptions) -> str | None:
    """Check the flags for a folder, which needs no bucket and no credentials and has no volume snapshots."""
    path = options.backup_location_config.get("path", "")
    if not path.startswith("/") or len(PurePosixPath(path).parts) < 2:
        return "--backup-location-config path=/absolute/folder is required with --provider filesystem"
    useless = {
        "--no-default-backup-location": not options.backup_location,
        "--secret-file": options.secret is not None,
        "--snapshot-location-config": options.snapshot_location_config,
        **_needing_image(options),
        **_needing_node_agent(options),
    }
    for flag, value in useless.items():
        if value:
            return f"Cannot use both --provider filesystem and {flag} at the same time"
    if options.image:
        return (
            "Cannot use both --provider filesystem and --image at the same time: "
            "the folder would be one of the pod, and lost with it"
        )
    return None


def _check_locations(options: InstallOptions) -> str | None:
    if not options.backup_location:
        for flag, value in (
            ("--bucket", options.bucket),
            ("--prefix", options.prefix),
            ("--backup-location-config", options.backup_location_config),
        ):
            if value:
                return f"Cannot use both {flag} and --no-default-backup-location at the same time"
    elif not options.provider:
        return "--provider is required"
    elif not options.bucket:
        return "--bucket is required"
    if options.snapshot_location and not options.provider:
        return (
            "--provider is required when --use-volume-snapshots is set to true, as it is by default: "
            "to take no native snapshots of volumes, add --use-volume-snapshots=false"
        )
    if not options.snapshot_location and options.snapshot_location_config:
        return "--snapshot-location-config must be empty when --use-volume-snapshots=false"
    if not options.backup_location and not options.snapshot_location and options.provider:
        return (
            "--provider must be empty when using --no-default-backup-location "
            "and --use-volume-snapshots=false"
        )
    return None


def snapshots_warning(options: InstallOptions) -> str | None:
    """A warning about a volume snapshot location that Velero accepts but that cannot work, or None."""
    if not options.snapshot_location or not lacks_region(options.provider, options.snapshot_location_config):
        return None
    return (
        "the volume snapshot location has no region, so backups with persistent volumes will be "
        f"{phases.ended(errors=1)}. Add --snapshot-location-config region=REGION, or "
        "--use-volume-snapshots=false if no volume is a disk of AWS"
    )


def _check_plugins(options: InstallOptions) -> str | None:
    """Check that a provider that the server does not know by itself comes with a plugin."""
    provider = options.provider
    if provider and qualified_provider(provider) not in PROVIDERS and not options.plugins:
        return f"--plugins flag is required: without one the server does not know the provider {provider}"
    return None


def _check_restic(options: InstallOptions) -> str | None:
    if options.default_volumes_to_fs_backup and not options.node_agent:
        return "--use-node-agent is required when using --default-volumes-to-fs-backup"
    if options.repository_password is not None and not options.repository_password.strip():
        return "--restic-password-file is empty: it must hold the password of the restic repositories"
    for flag, value in _needing_node_agent(options).items():
        if value and not options.node_agent:
            return f"--use-node-agent is required when using {flag}"
    if not options.kubelet_root.startswith("/"):
        return f"--kubelet-root-dir must be an absolute path: {options.kubelet_root!r} is not"
    return None


def _check_movement(options: InstallOptions) -> str | None:
    """Check that data of snapshots is moved only with CSI snapshots and with node agents, which do it."""
    if not options.default_snapshot_move_data:
        return None
    if CSI_FEATURE not in options.features.split(","):
        return "--features=EnableCSI is required when using --default-snapshot-move-data"
    if not options.node_agent:
        return "--use-node-agent is required when using --default-snapshot-move-data"
    return None


def _check_server(options: InstallOptions) -> str | None:
    """Refuse flags about a server if no server is deployed."""
    for flag, duration in (
        ("--default-repo-maintain-frequency", options.maintenance_frequency),
        ("--garbage-collection-frequency", options.garbage_collection_frequency),
        ("--pod-volume-operation-timeout", options.pod_volume_operation_timeout),
    ):
        try:
            if duration and Duration.parse(duration) < Duration():
                return f"{flag} must be non-negative"
        except ValueError as error:
            return f"{flag}: {error}"
    own = RESERVED_LABELS | ({"role"} if options.node_agent else set())
    if reserved := sorted(own & options.pod_labels.keys()):
        return f"--pod-labels cannot set {', '.join(reserved)}: pods are found by these labels"
    for flag, given in (
        ("--sa-annotations", bool(options.service_account_annotations)),
        ("--minimal-rbac", options.minimal_rights),
    ):
        if given and options.service_account:
            return (
                f"Cannot use both --service-account-name and {flag} at the same time: "
                "the account that exists keeps its annotations and rights"
            )
    for flag, value in _needing_image(options).items():
        if value and not options.image:
            return f"--image is required when using {flag}: without an image no server is deployed"
    return None


def _check_secret(options: InstallOptions) -> str | None:
    if options.secret is None and not options.no_secret:
        return "One of --secret-file or --no-secret is required"
    if options.secret is not None and options.no_secret:
        return "Cannot use both --secret-file and --no-secret"
    return None


def _check_resources(options: InstallOptions) -> str | None:
    for resources in (options.server_resources, options.node_agent_resources):
        try:
            resources.requirements()
        except ValueError as error:
            return str(error)
    return None
