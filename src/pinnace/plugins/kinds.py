"""The kinds of plugins and the rules for their names. (docs/spec: PLG 1)"""

import re
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from pinnace.plugins.errors import PluginNameError

_FORMAT = "Accepted format: <DNS subdomain>/<non-empty name>."
_SUBDOMAIN_LENGTH = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class PluginKind(StrEnum):
    """The kinds of plugins, in the order of listings and programs."""

    BACKUP_ITEM_ACTION = "BackupItemAction"
    VOLUME_SNAPSHOTTER = "VolumeSnapshotter"
    OBJECT_STORE = "ObjectStore"
    RESTORE_ITEM_ACTION = "RestoreItemAction"
    DELETE_ITEM_ACTION = "DeleteItemAction"
    BACKUP_ITEM_ACTION_V2 = "BackupItemActionV2"
    RESTORE_ITEM_ACTION_V2 = "RestoreItemActionV2"
    ITEM_BLOCK_ACTION = "ItemBlockAction"


SUPERSEDES: Final = {
    PluginKind.BACKUP_ITEM_ACTION_V2: PluginKind.BACKUP_ITEM_ACTION,
    PluginKind.RESTORE_ITEM_ACTION_V2: PluginKind.RESTORE_ITEM_ACTION,
}
"""Of a name that is registered under both kinds, the first is used. (docs/spec: BEY 9)"""


class PluginId(msgspec.Struct, frozen=True):
    """Identifies a plugin: the same name may be used for several kinds."""

    kind: PluginKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class FoundPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin and the program that has it."""

    plugin: PluginId
    program: Path


def check_name(name: str) -> None:
    """Check the name of a plugin: `<DNS subdomain>/<anything>`.

    Raises:
        PluginNameError: it is not of this form.
    """
    if name.count("/") != 1:
        raise PluginNameError(
            f"plugin name must have exactly two parts separated by a `/`. {_FORMAT} {name!r} is invalid"
        )
    domain, _, rest = name.partition("/")
    if not domain or not rest:
        raise PluginNameError(
            f"both parts of the plugin name must be non-empty. {_FORMAT} {name!r} is invalid"
        )
    if len(domain) > _SUBDOMAIN_LENGTH or not _SUBDOMAIN.fullmatch(domain):
        raise PluginNameError(
            f"first part of the plugin name must be a valid DNS subdomain. {_FORMAT} {name!r} is invalid"
        )


def qualified_name(provider: str) -> str:
    """The full name for the `provider` of a location: `aws` is `velero.io/aws`."""
    return provider if "/" in provider else f"velero.io/{provider}"
