"""Checks the flags of `install`, and names the location that they describe. Pure. (docs/spec: CLI 11.1)"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from pinnace.api.values.durations import Duration
from pinnace.cli.install.flags import GivenFiles, InstallFlags
from pinnace.csi.snapshots import FEATURE as CSI_FEATURE
from pinnace.installing.options import KUBELET_ROOT
from pinnace.storage.open import (
    AWS_PROVIDER,
    AZURE_PROVIDER,
    FILESYSTEM_PROVIDER,
    GCP_PROVIDER,
    qualified_provider,
)
from pinnace.storage.providers import FILESYSTEM, lacks_region

BUILT_IN: Final = (AWS_PROVIDER, GCP_PROVIDER, AZURE_PROVIDER, FILESYSTEM_PROVIDER)
"""Providers of backup locations that need no plugin."""


RESERVED_LABELS: Final = frozenset({"component", "deploy", "name", "control-plane"})
"""Labels by which workloads, services and commands find the pods."""


def _needing_image(flags: InstallFlags) -> Mapping[str, object]:
    """The flags that have a meaning only with a server, and their values."""
    return {
        "--use-node-agent": flags.use_restic,
        "--plugins": flags.plugins,
        "--restore-only": flags.restore_only,
        "--default-volumes-to-fs-backup": flags.default_volumes_to_restic,
        "--default-repo-maintain-frequency": flags.default_restic_prune_frequency,
        "--pod-labels": flags.pod_labels,
        "--service-account-name": flags.service_account_name,
        "--server-priority-class-name": flags.server_priority_class_name,
        "--garbage-collection-frequency": flags.garbage_collection_frequency,
        "--pod-volume-operation-timeout": flags.pod_volume_operation_timeout,
        "--concurrent-backups": flags.concurrent_backups,
        "--backup-repository-configmap": flags.backup_repository_configmap,
        "--repo-maintenance-job-configmap": flags.repo_maintenance_job_configmap,
        "--schedule-skip-immediately": flags.schedule_skip_immediately,
        "--default-snapshot-move-data": flags.default_snapshot_move_data,
        "--wait": flags.wait,
    }


def _needing_node_agent(flags: InstallFlags) -> Mapping[str, object]:
    """The flags that have a meaning only with the node agent, and their values."""
    return {
        "--privileged-node-agent": flags.privileged_node_agent,
        "--node-agent-priority-class-name": flags.node_agent_priority_class_name,
        "--node-agent-configmap": flags.node_agent_configmap,
        "--kubelet-root-dir": flags.kubelet_root_dir != KUBELET_ROOT,
    }


def check(flags: InstallFlags, files: GivenFiles) -> str | None:
    """The first problem with the flags, in the order of the spec, or None."""
    if flags.bucket.startswith("-"):
        return f"Bucket names cannot begin with a dash. Bucket name was: {flags.bucket}"
    if flags.provider in FILESYSTEM:
        return _check_folder(flags)
    return (
        _check_locations(flags)
        or _check_plugins(flags)
        or _check_restic(flags, files)
        or _check_secret(flags)
        or _check_movement(flags)
        or _check_server(flags)
    )


def _check_folder(flags: InstallFlags) -> str | None:
    """Check the flags for a folder, which needs no bucket and no credentials and has no volume snapshots."""
    path = flags.backup_location_config.get("path", "")
    if not path.startswith("/") or len(PurePosixPath(path).parts) < 2:
        return "--backup-location-config path=/absolute/folder is required with --provider filesystem"
    useless = {
        "--no-default-backup-location": flags.no_default_backup_location,
        "--secret-file": flags.secret_file,
        "--snapshot-location-config": flags.snapshot_location_config,
        **_needing_image(flags),
        **_needing_node_agent(flags),
    }
    for flag, value in useless.items():
        if value:
            return f"Cannot use both --provider filesystem and {flag} at the same time"
    if flags.image:
        return (
            "Cannot use both --provider filesystem and --image at the same time: "
            "the folder would be one of the pod, and lost with it"
        )
    return None


def _check_locations(flags: InstallFlags) -> str | None:
    if flags.no_default_backup_location:
        for flag, value in (
            ("--bucket", flags.bucket),
            ("--prefix", flags.prefix),
            ("--backup-location-config", flags.backup_location_config),
        ):
            if value:
                return f"Cannot use both {flag} and --no-default-backup-location at the same time"
    elif not flags.provider:
        return "--provider is required"
    elif not flags.bucket:
        return "--bucket is required"
    if flags.use_volume_snapshots and not flags.provider:
        return (
            "--provider is required when --use-volume-snapshots is set to true, as it is by default: "
            "to take no native snapshots of volumes, add --use-volume-snapshots=false"
        )
    if not flags.use_volume_snapshots and flags.snapshot_location_config:
        return "--snapshot-location-config must be empty when --use-volume-snapshots=false"
    if flags.no_default_backup_location and not flags.use_volume_snapshots and flags.provider:
        return (
            "--provider must be empty when using --no-default-backup-location "
            "and --use-volume-snapshots=false"
        )
    return None


def snapshots_warning(flags: InstallFlags) -> str | None:
    """A warning about a volume snapshot location that Velero accepts but that cannot work, or None."""
    is_made = flags.use_volume_snapshots and not flags.crds_only
    if not is_made or not lacks_region(flags.provider, flags.snapshot_location_config):
        return None
    return (
        "the volume snapshot location has no region, so backups with persistent volumes will be "
        "PartiallyFailed. Add --snapshot-location-config region=REGION, or --use-volume-snapshots=false if "
        "no volume is a disk of AWS"
    )


def _check_plugins(flags: InstallFlags) -> str | None:
    """Check that a provider that the server does not know by itself comes with a plugin."""
    provider = flags.provider
    if provider and qualified_provider(provider) not in BUILT_IN and not flags.plugins:
        return f"--plugins flag is required: without one the server does not know the provider {provider}"
    return None


def _check_restic(flags: InstallFlags, files: GivenFiles) -> str | None:
    if flags.default_volumes_to_restic and not flags.use_restic:
        return "--use-node-agent is required when using --default-volumes-to-fs-backup"
    if flags.restic_password_file and not files.restic_password.strip():
        return "--restic-password-file is empty: it must hold the password of the restic repositories"
    for flag, value in _needing_node_agent(flags).items():
        if value and not flags.use_restic:
            return f"--use-node-agent is required when using {flag}"
    if not flags.kubelet_root_dir.startswith("/"):
        return f"--kubelet-root-dir must be an absolute path: {flags.kubelet_root_dir!r} is not"
    return None


def _check_movement(flags: InstallFlags) -> str | None:
    """Check that data of snapshots is moved only with CSI snapshots and with node agents, which do it."""
    if not flags.default_snapshot_move_data:
        return None
    if CSI_FEATURE not in flags.features.split(","):
        return "--features=EnableCSI is required when using --default-snapshot-move-data"
    if not flags.use_restic:
        return "--use-node-agent is required when using --default-snapshot-move-data"
    return None


def _check_server(flags: InstallFlags) -> str | None:
    """Refuse flags about a server if no server is deployed."""
    if flags.default_restic_prune_frequency < Duration():
        return "--default-repo-maintain-frequency must be non-negative"
    for flag, duration in (
        ("--garbage-collection-frequency", flags.garbage_collection_frequency),
        ("--pod-volume-operation-timeout", flags.pod_volume_operation_timeout),
    ):
        if duration < Duration():
            return f"{flag} must be non-negative"
    own = RESERVED_LABELS | ({"role"} if flags.use_restic else set())
    if reserved := sorted(own & flags.pod_labels.keys()):
        return f"--pod-labels cannot set {', '.join(reserved)}: pods are found by these labels"
    for flag, given in (
        ("--sa-annotations", bool(flags.sa_annotations)),
        ("--minimal-rbac", flags.minimal_rbac),
    ):
        if given and flags.service_account_name:
            return (
                f"Cannot use both --service-account-name and {flag} at the same time: "
                "the account that exists keeps its annotations and rights"
            )
    for flag, value in _needing_image(flags).items():
        if value and not flags.image:
            return f"--image is required when using {flag}: without an image no server is deployed"
    return None


def _check_secret(flags: InstallFlags) -> str | None:
    if not flags.secret_file and not flags.no_secret:
        return "One of --secret-file or --no-secret is required"
    if flags.secret_file and flags.no_secret:
        return "Cannot use both --secret-file and --no-secret"
    return None
