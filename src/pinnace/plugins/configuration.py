"""Settings of plugins: the ConfigMaps of item actions, and the keys that a location may set. (PLG 9)"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from pinnace.api import labels
from pinnace.plugins.errors import PluginError, SettingsUnreadable
from pinnace.plugins.kinds import PluginId

if TYPE_CHECKING:
    from pinnace.kube.reading import ObjectLister

_OBJECT_STORE_KEYS: Final = ("bucket", "prefix", "caCert", "credentialsFile")


def check_config_keys(
    config: Mapping[str, str], valid: Collection[str] = (), *, object_store: bool = False
) -> None:
    """Refuse unknown keys of a location's configuration, such as misspelt ones.

    Args:
        valid: the keys that the plugin knows; their case matters.
        object_store: also accept the keys that every object store gets.

    Raises:
        PluginError: there are unknown keys. (docs/spec: PLG-019)
    """
    known = sorted({*valid, *(_OBJECT_STORE_KEYS if object_store else ())})
    if unknown := sorted(config.keys() - set(known)):
        raise PluginError(
            f"config has invalid keys [{' '.join(unknown)}]; valid keys are [{' '.join(known)}]"
        )


class ConfigReader:
    """Reads the ConfigMap of an item action.

    Args:
        client: the cluster; None where there is none, so that all actions have their defaults.
        namespace: the server's.
    """

    def __init__(self, client: "ObjectLister | None", namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def read(self, plugin: PluginId) -> Mapping[str, str]:
        """The data of the one ConfigMap with the action's labels, whatever its name; empty without one.

        Raises:
            SettingsUnreadable: the ConfigMaps cannot be listed.
            PluginError: there are several.
        """
        if self._client is None:
            return {}
        from pinnace.kube.errors import KubeError
        from pinnace.kube.resources import CONFIGMAPS

        selector = f"{labels.PLUGIN_CONFIG},{plugin.name}={plugin.kind}"
        try:
            found = await self._client.list_all(CONFIGMAPS, self._namespace, label_selector=selector)
        except KubeError as error:
            raise SettingsUnreadable(
                f"the settings of plugin {plugin.name} cannot be read, as the ConfigMaps of namespace"
                f' {self._namespace} with labels "{selector}" cannot be listed: {error}'
            ) from error
        if len(found) > 1:
            names = " ".join(sorted(one["metadata"]["name"] for one in found))
            raise PluginError(
                f'found more than one ConfigMap matching label selector "{selector}": [{names}]'
            )
        return (found[0].get("data") or {}) if found else {}
