"""A restore for `restore describe`, as data: `describe` prints it as text, `describe_json` as JSON. Pure."""

from collections.abc import Sequence
from typing import Final

import msgspec

from pinnace.api.objects import JSONObject, text
from pinnace.cli.output import cells
from pinnace.cli.output.description import Filters, Head, filters, head
from pinnace.cli.restore.objects import RestoredObjects

EVERYTHING: Final = "all namespaces found in the backup"
_SKIPS_DEFAULT: Final = "skipDefaultResourceModifier"
"""A field that is not shown if it is `false`, as it asks for nothing then."""


class DescribedRestore(msgspec.Struct, frozen=True, kw_only=True):
    """What a description shows beside the Restore. A str is the error of reading the file.

    Attributes:
        objects, volume_infos, operations: set only with details.
    """

    results: JSONObject | str | None = None
    undecodable_results: bool = False
    pod_volume_restores: Sequence[JSONObject] = ()
    objects: RestoredObjects | str | None = None
    volume_infos: Sequence[JSONObject] = ()
    operations: Sequence[JSONObject] = ()
    waits_for: str = ""


class RestoreDescription(msgspec.Struct, frozen=True):
    """All that is said of a restore.

    Attributes:
        spec, status: what of them is shown as it is stored.
        found: the objects and files that it was made of.
    """

    head: Head
    backup: str
    filters: Filters
    restore_volumes: str
    preserve_node_ports: str
    spec: JSONObject
    status: JSONObject
    found: DescribedRestore


def described(restore: JSONObject, found: DescribedRestore) -> RestoreDescription:
    """The description of a restore."""
    spec = cells.spec(restore)
    return RestoreDescription(
        head=head(restore, "itemsRestored"),
        backup=text(spec, "backupName"),
        filters=filters(spec),
        restore_volumes=cells.tristate(spec.get("restorePVs")),
        preserve_node_ports=cells.tristate(spec.get("preserveNodePorts")),
        spec={key: value for key, value in spec.items() if key != _SKIPS_DEFAULT or value},
        status=cells.status(restore),
        found=found,
    )
