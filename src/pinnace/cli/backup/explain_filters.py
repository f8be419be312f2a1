"""`backup explain-filters`."""

from collections.abc import Sequence

from pinnace.cli.browse.options import output_format
from pinnace.cli.common.content_options import BackupFilterOptions
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Section, arguments, text
from pinnace.cli.declaring.values import BACKUP, STORED


class ExplainFiltersOptions(BackupFilterOptions):
    """Say which rule takes an object of the cluster into a backup, or leaves it out.

    The filters are those of a backup that exists (--backup), or the flags of backup create.
    """

    objects: Sequence[str] = arguments("KIND/NAMESPACE/NAME...", STORED)
    backup: str = text(section=Section.WHAT, value=BACKUP, help="Explain the filters of this backup.")
    output_format: str | None = output_format("json", "yaml")


explain_filters = lazy_command(
    "explain-filters",
    ExplainFiltersOptions,
    "pinnace.cli.backup.explaining:explain_filters",
    noun="backup",
    short_help="Say why an object is in a backup, or is not.",
    examples=(
        (
            "Why is it not in the backup?",
            "pinnace backup explain-filters secrets/shop/token --backup nightly",
        ),
        (
            "Would it be in one with these flags?",
            "pinnace backup explain-filters deployments/shop/web --include-namespaces shop -l app=web",
        ),
        (
            "The same with filters by namespace",
            "pinnace backup explain-filters cm/shop/settings --resource-policies-configmap by-namespace",
        ),
    ),
)
