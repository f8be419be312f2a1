"""`nonadmin storage-location create`. (docs/spec: NAC)"""

from collections.abc import Mapping

from pinnace.api.values.durations import Duration
from pinnace.cli.declaring.commands import lazy_command
from pinnace.cli.declaring.fields import Section, duration, key_values, text
from pinnace.cli.declaring.values import PROVIDER, SECRET_KEY
from pinnace.cli.nonadmin.options import RequestOptions


class TenantLocationOptions(RequestOptions):
    """Ask for a storage location; an administrator may have to approve it."""

    provider: str = text(default="aws", section=Section.WHERE, value=PROVIDER, help="Provider of the bucket.")
    bucket: str = text(section=Section.WHERE, help="The bucket. Required.")
    prefix: str = text(section=Section.WHERE, help="Path inside the bucket, after the namespace's name.")
    credential: Mapping[str, str] = key_values(
        section=Section.WHERE,
        value=SECRET_KEY,
        help="Secret of this namespace with the keys, and the key in it: secret=key. Required.",
    )
    config: Mapping[str, str] = key_values(
        section=Section.WHERE, help="Settings of the provider: region=...,..."
    )
    backup_sync_period: Duration | None = duration(
        before="labels", help="How often to look for backups in it."
    )


create_location = lazy_command(
    "create",
    TenantLocationOptions,
    "pinnace.cli.nonadmin.creating:location",
    noun="nonadmin storage-location",
    short_help="Ask for a location in your own bucket.",
    examples=(
        (
            "Ask for a location in your own bucket",
            "pinnace nonadmin storage-location create mine --bucket our-bucket --credential keys=cloud "
            "--config region=eu-central-1",
        ),
        (
            "A path in it",
            "pinnace nonadmin storage-location create mine --bucket our-bucket --prefix backups "
            "--credential keys=cloud",
        ),
        (
            "See what would be asked for",
            "pinnace nonadmin storage-location create mine --bucket ours --credential keys=cloud -o yaml",
        ),
    ),
)
