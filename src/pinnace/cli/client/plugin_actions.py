"""The item actions of plugins, which a dry run names because it does not run them."""

from pinnace.api.objects import objects, text
from pinnace.cli.errors import InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.settings import Settings
from pinnace.client.server_status import answered, ask_server
from pinnace.kube.client import KubeClient
from pinnace.plugins.errors import PluginError

_STATUS_SECONDS = 5.0


async def plugin_actions(settings: Settings, client: KubeClient, kind: str) -> list[str]:
    """Return the names of the actions of a kind, `BackupItemAction` or `RestoreItemAction`, of all versions.

    Raises:
        InvalidInput: a plugin of this machine cannot be loaded.
    """
    if settings.location is not None:
        from pinnace.operations.local import plugin_options
        from pinnace.plugins.installed import find_plugins

        options = plugin_options(settings.namespace, settings.kubeconfig or "", settings.features)
        try:
            found = await find_plugins(options, builtin=())
        except PluginError as error:
            raise InvalidInput(str(error)) from error
        async with found.operation(client=client, namespace=settings.namespace) as operation:
            actions = operation.restore_actions if kind == "RestoreItemAction" else operation.backup_actions
            return [action.name for action in actions]
    answer = await ask_server(client, settings.namespace, _STATUS_SECONDS)
    if not answered(answer):
        complain("WARNING: the server does not say which plugins it has: their actions are not shown.")
        return []
    return [
        name
        for plugin in objects(answer, "status", "plugins")
        if text(plugin, "kind").startswith(kind)
        and not (name := text(plugin, "name")).startswith(("velero.io/", "pinnace.io/"))
    ]
