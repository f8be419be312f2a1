"""The options of `backup create` and `backup download`. Pure."""

from collections.abc import Sequence

from pinnace.cli.common.options import BackupSpecOptions, FetchOptions, WaitOptions
from pinnace.cli.output.printing import OutputOptions


class BackupCreateOptions(BackupSpecOptions, WaitOptions, OutputOptions):
    """`backup create`."""

    names: Sequence[str]
    from_schedule: str

    @property
    def name(self) -> str:
        """The backup's; empty where a schedule's template gives one."""
        return self.names[0] if self.names else ""


class BackupDownloadOptions(FetchOptions):
    """`backup download`; an empty `output` is NAME-data.tar.gz in the current folder."""

    names: Sequence[str]
    output: str
    force: bool
