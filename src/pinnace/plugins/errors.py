"""The errors of plugins; every text names the plugin or its program.

PluginError                what a plugin may raise itself; its text is for the operator
├── PluginNameError        a name that is not `<DNS subdomain>/<name>`
├── PluginLoadError        a Python plugin cannot be imported, or is none
├── PluginStartError       a program cannot be started, or does not answer like a plugin
├── PluginNotFound         no plugin of that kind and name
├── DuplicatePlugin        two plugins of one kind have the same name
├── SettingsUnreadable     the ConfigMap of an item action cannot be read
├── PluginPanic            a plugin's code raised what would end its process or its caller's task
└── PluginCallError        a call failed, inside the plugin or on the way to it
    └── PluginGone         the plugin's process is not there to answer
        └── PluginCrashed  the process ended during the call
"""

import msgspec

from pinnace.notices.codes import Code
from pinnace.notices.notice import Coded


class PluginError(Coded, Exception):
    """Base of the errors of this package. Plugins raise it with texts that operators see unchanged."""

    notice_code = Code.ACTION_FAILED

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle text and attributes, whatever arguments a subclass takes: pools of processes send errors."""
        return _as_it_was, (type(self), self.args, vars(self))


def _as_it_was(
    kind: type[PluginError], args: tuple[object, ...], attributes: dict[str, object]
) -> PluginError:
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error


class PluginNameError(PluginError, ValueError):
    """The name of a plugin has the wrong form. (docs/spec: PLG 1)"""


class PluginLoadError(PluginError):
    """A Python plugin cannot be loaded."""


class PluginStartError(PluginError):
    """A plugin's program cannot be started or is no plugin. (docs/spec: PLG 4)"""


class PluginNotFound(PluginError):
    """There is no plugin of that kind and name. (docs/spec: PLG 2)"""


class DuplicatePlugin(PluginError, ValueError):
    """Two plugins of one kind have the same name. (docs/spec: PLG 2)"""


class SettingsUnreadable(PluginError):
    """The ConfigMaps with the settings of an item action cannot be listed. (docs/spec: PLG 9)"""


class PluginPanic(PluginError):
    """A plugin's code cancelled itself, or raised what is no Exception: SystemExit, KeyboardInterrupt."""


class CodePosition(msgspec.Struct, frozen=True, kw_only=True):
    """Where in a plugin an error came from. (docs/spec: PLG 8)"""

    file: str
    line: int
    function: str


class PluginCallError(PluginError):
    """A call to a plugin failed.

    Attributes:
        plugin: the plugin's name.
        reason: the text of the error, in Velero's form: `rpc error: code = Unknown desc = …` for a process.
        origin: the place in the plugin's code, if it told.
    """

    def __init__(self, plugin: str, reason: str, *, origin: CodePosition | None = None) -> None:
        super().__init__(f"plugin {plugin}: {reason}")
        self.plugin = plugin
        self.reason = reason
        self.origin = origin


class PluginGone(PluginCallError):
    """The plugin's process ended, or cannot be started any more; a later call may find a new one."""


class PluginCrashed(PluginGone):
    """The plugin's process ended during the call.

    Attributes:
        was_killed: whether the host killed it, as another call was not answered.
    """

    def __init__(self, plugin: str, reason: str, *, was_killed: bool) -> None:
        super().__init__(plugin, reason)
        self.was_killed = was_killed


def describe(error: BaseException) -> str:
    """The text of a plugin's error: that of a PluginError unchanged, those of others with their type."""
    text = str(error)
    if isinstance(error, PluginError) and text:
        return text
    return f"{type(error).__name__}: {text}".removesuffix(": ")
