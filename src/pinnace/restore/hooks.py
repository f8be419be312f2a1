"""Which restored pods have commands to run inside them. Running them is the work of `ExecHooks`.

(docs/spec: RST 21, API 16.3)
"""

from typing import Any

from pinnace.api import labels
from pinnace.api.restore import RestoreHooks
from pinnace.plugins.builtin.restore_init_hooks import HookSelector
from pinnace.restore.errors import SetupError

JSONObject = dict[str, Any]


class ExecHookFinder:
    """Tells pods with exec restore hooks from those without.

    Raises:
        SetupError: a hook's label selector is not valid.
    """

    def __init__(self, hooks: RestoreHooks) -> None:
        try:
            self._selectors = [
                HookSelector(group)
                for group in hooks.resources
                if any(hook.exec is not None for hook in group.post_hooks)
            ]
            for group in hooks.resources:
                HookSelector(group)
        except ValueError as error:
            raise SetupError(f"error parsing restore hooks: {error}") from error

    def finds(self, pod: JSONObject) -> bool:
        """Whether the pod, as the API server returned it, has a hook to run; its namespace is the target."""
        metadata = pod["metadata"]
        if (metadata.get("annotations") or {}).get(labels.POST_RESTORE_HOOK_COMMAND):
            return True
        return any(
            selector.matches(metadata.get("namespace", ""), metadata.get("labels"))
            for selector in self._selectors
        )
