"""Configuration of built-in restore actions: a ConfigMap, found by labels. (docs/spec: API 12, RST 16.1)"""

import asyncio

from pinnace.api import labels
from pinnace.api.velero.restore import Restore
from pinnace.kube.errors import Forbidden, KubeError
from pinnace.kube.reading import ObjectSource
from pinnace.kube.resources import CONFIGMAPS
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.plugins.logs import get_logger

log = get_logger(__name__)

RESTORE_ITEM_ACTION = "RestoreItemAction"


class ActionError(Exception):
    """A restore action cannot do its work on an item; the text ends in that item's error."""


class PluginConfig:
    """The data of an action's ConfigMap, read once for each restore and not once for each item."""

    def __init__(self, client: ObjectSource, namespace: str, action_name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._selector = f"{labels.PLUGIN_CONFIG},{action_name}={RESTORE_ITEM_ACTION}"
        self._lock = asyncio.Lock()
        self._known: tuple[Restore, dict[str, str]] | None = None

    async def data(self, restore: Restore) -> dict[str, str]:
        """The mapping that holds for this restore; empty without a ConfigMap.

        Raises:
            ActionError: there is more than one ConfigMap, or they cannot be listed.
        """
        async with self._lock:
            if self._known is None or self._known[0] is not restore:
                self._known = (restore, await self._read())
            return self._known[1]

    async def _read(self) -> dict[str, str]:
        try:
            found = await self._client.list_all(CONFIGMAPS, self._namespace, label_selector=self._selector)
        except Forbidden as error:
            # A user of one namespace may not look into the server's; their restore has no settings there.
            log.warning(
                Notice(Code.SETTING_IGNORED, "ConfigMaps of %s may not be read, the defaults are used"),
                self._selector,
                extra={"error": str(error)},
            )
            return {}
        except KubeError as error:
            raise ActionError(f"error listing ConfigMaps of {self._selector}: {error}") from error
        if len(found) > 1:
            names = " ".join(sorted(one["metadata"]["name"] for one in found))
            raise ActionError(
                f'found more than one ConfigMap matching label selector "{self._selector}": [{names}]'
            )
        return (found[0].get("data") or {}) if found else {}
