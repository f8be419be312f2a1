"""The options of `plugin get`. Pure."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pinnace.cli.output.printing import OutputOptions

if TYPE_CHECKING:
    from pinnace.api.values.durations import Duration


@dataclass(frozen=True, kw_only=True)
class PluginGetOptions(OutputOptions):
    """`plugin get`; its table has neither labels nor columns of labels."""

    timeout: "Duration"
