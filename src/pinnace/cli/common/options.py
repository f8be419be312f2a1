"""The options of the commands that several nouns share, as structs. Pure.

The flags themselves are declared in `commands`; `flags.takes` proves that the names agree.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pinnace.cli.output.printing import ListingOptions
from pinnace.cli.structs import Struct

if TYPE_CHECKING:
    from pinnace.api.meta import LabelSelector
    from pinnace.api.values.durations import Duration


class ObjectFilterOptions(Struct):
    """Which resources and objects a backup or restore includes."""

    include_resources: Sequence[str]
    exclude_resources: Sequence[str]
    selector: "LabelSelector | None"
    or_selector: "Sequence[LabelSelector]"
    include_cluster_resources: bool | None


class FilterOptions(ObjectFilterOptions):
    """Which namespaces, resources and objects a backup or restore includes: `filter_options`."""

    include_namespaces: Sequence[str]
    exclude_namespaces: Sequence[str]


class BackupContentOptions(ObjectFilterOptions):
    """The content of a backup and where it is stored, for administrators and tenants."""

    include_cluster_scoped_resources: Sequence[str]
    exclude_cluster_scoped_resources: Sequence[str]
    include_namespace_scoped_resources: Sequence[str]
    exclude_namespace_scoped_resources: Sequence[str]
    storage_location: str
    ordered_resources: str
    snapshot_volumes: bool | None
    default_volumes_to_restic: bool | None
    csi_snapshot_timeout: "Duration | None"
    parallel_files_upload: int
    item_operation_timeout: "Duration | None"
    snapshot_move_data: bool | None
    data_mover: str


class BackupSpecOptions(FilterOptions, BackupContentOptions):
    """The options for the spec of a backup, or of a schedule's template."""

    ttl: "Duration"
    volume_snapshot_locations: Sequence[str]
    resource_policies_configmap: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class RestoreContentOptions(ObjectFilterOptions):
    """The content of a restore and how it is restored, for administrators and tenants."""

    from_backup: str
    restore_volumes: bool | None
    preserve_nodeports: bool | None
    existing_resource_policy: str | None
    item_operation_timeout: "Duration | None"
    write_sparse_files: bool | None
    parallel_files_download: int


class WaitOptions(Struct):
    """Whether to wait for the end of a run: `wait_options`.

    `exit_code` is None where the config file decides whether the exit code tells how the run ended.
    """

    wait: bool = False
    exit_code: bool | None = None
    progress: str = "auto"


class TLSOptions(Struct):
    """How the server of a download is verified."""

    insecure_skip_tls_verify: bool = False
    cacert: str = ""


class FetchOptions(TLSOptions):
    """How one file is downloaded: `download_options`."""

    timeout: "Duration"


class GetOptions(ListingOptions):
    """`get` of a noun."""

    names: Sequence[str]
    selector: str


class DescribeOptions(TLSOptions):
    """`describe` of a noun; schedules have nothing to download, and so no further flags."""

    names: Sequence[str]
    selector: str
    details: bool = False
    output: str = "plaintext"


class LogsOptions(FetchOptions):
    """`logs` of a noun."""

    names: Sequence[str]


class DeleteOptions(Struct):
    """`delete` of a noun.

    Attributes:
        force: leave behind the volume data that cannot be deleted. (docs/adr/021)
        restic_password_file: the password of the restic repositories; empty for the environment or
            the Secret.
    """

    names: Sequence[str]
    confirm: bool
    all: bool
    selector: "LabelSelector | None"
    force: bool = False
    restic_password_file: str = ""
