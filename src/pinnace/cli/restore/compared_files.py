"""`restore create --dry-run --compare-files`: which files of claims that exist change. (docs/adr/122)"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pinnace.api.objects import JSONObject
from pinnace.api.values.counts import counted
from pinnace.api.velero.restore import ExistingVolumeDataPolicy, Restore
from pinnace.cli.errors import InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.restore.create import RestoreCreateOptions
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.operations.file_comparison import ComparedBackup, ComparedClaim, FileComparisons
from pinnace.operations.preview import Preview
from pinnace.volumes.uploader.comparing import FileComparison, FileFate

_SHOWN_NAMES: Final = 10
_MEANINGS: Final = {
    FileFate.CREATED: "created",
    FileFate.OVERWRITTEN: "overwritten, as they differ",
    FileFate.REMOVED: "removed, as the backup does not have them",
    FileFate.EXTRA: "not in the backup, and kept",
    FileFate.NOT_COMPARED: "not compared, as another file system is mounted there",
}


def check_compare_files(settings: Settings, options: RestoreCreateOptions) -> None:
    """Refuse a comparison that has nothing to compare. Raises InvalidInput."""
    if not options.previews:
        raise InvalidInput(
            "--compare-files is a part of a dry run: give --dry-run or --dry-run=server as well"
        )
    if settings.location is not None:
        raise InvalidInput(
            "--compare-files needs the node agents of a server, which restore the data of volumes, and with"
            " --location there are none"
        )
    if options.existing_volume_data_policy not in (
        ExistingVolumeDataPolicy.FULL,
        ExistingVolumeDataPolicy.INCREMENTAL,
    ):
        raise InvalidInput(
            "--compare-files compares the claims that a restore writes over: give"
            " --existing-volume-data-policy full or incremental as well"
        )


class ClaimFiles:
    """Compares the files of the claims of one dry run.

    Attributes:
        claims: the claims that were compared.
        leaves_pods: whether a pod could not be removed.
    """

    def __init__(self, client: KubeClient, namespace: str, restore: Restore, location: str) -> None:
        self.claims: Sequence[ComparedClaim] = ()
        self.leaves_pods = False
        spec = restore.spec
        backup = ComparedBackup(
            name=spec.backup_name,
            location=location,
            keep_unchanged=spec.existing_volume_data_policy == ExistingVolumeDataPolicy.INCREMENTAL,
            delete_extra=bool(spec.uploader_config and spec.uploader_config.delete_extra_files),
        )
        self._comparisons = FileComparisons(client, namespace, backup, tell=self._left)

    async def begin(self) -> None:
        """Remove what commands that were killed have left, before anything looks at the pods of claims."""
        await self._comparisons.remove_left()

    async def compare(self, found: Preview) -> None:
        """Compare the files of the claims of a preview."""
        wanted = found.notes.existing.values()
        if wanted:
            complain(f"Comparing the files of {counted(len(wanted), 'claim')}...")
        self.claims = await self._comparisons.of(wanted)

    @property
    def failed(self) -> bool:
        """Whether a claim could not be compared, or a pod stays."""
        return self.leaves_pods or any(each.error for each in self.claims)

    def data(self) -> Sequence[JSONObject]:
        """The claims as data."""
        return [_data(each) for each in self.claims]

    def lines(self) -> Iterator[tuple[int, str]]:
        """The claims for people: levels and texts."""
        for each in self.claims:
            title = f"{each.namespace}/{each.claim}"
            if each.error:
                yield 1, f"{title}: its files were not compared: {_one_line(each.error)}"
            elif each.files is None:
                yield 1, f"{title}: a device, which is written as a whole"
            else:
                yield 1, title
                yield from _lines(each.files)

    def _left(self, message: str) -> None:
        self.leaves_pods = True
        complain(message)


def _lines(files: FileComparison) -> Iterator[tuple[int, str]]:
    for fate, meaning in _MEANINGS.items():
        if not (number := files.counts.get(fate, 0)):
            continue
        yield 2, f"{number:,} {meaning}"
        names = files.names.get(fate, ())[:_SHOWN_NAMES]
        for name in names:
            yield 3, _one_line(name)
        if number > len(names):
            yield 3, f"... and {number - len(names):,} more; -o json has their names"
    same = "written again" if files.rewrites_same else "kept"
    yield 2, f"{files.counts.get(FileFate.SAME, 0):,} the same, and {same}"


def _one_line(text: str) -> str:
    """A text with what is not printable escaped: names of files may hold lines, and steer a terminal."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text
    )


def _data(found: ComparedClaim) -> JSONObject:
    claim: JSONObject = {"claim": f"{found.namespace}/{found.claim}"}
    if found.error:
        return {**claim, "error": found.error}
    if found.files is None:
        return {**claim, "wholeDevice": True}
    return {
        **claim,
        "counts": msgspec.to_builtins(found.files.counts),
        "files": {str(fate): list(found.files.names.get(fate, ())) for fate in _MEANINGS},
        "unlisted": found.files.unlisted,
        "rewritesSame": found.files.rewrites_same,
    }
