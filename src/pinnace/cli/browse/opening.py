"""Opens the backups that commands look into, with a server or a location alike.

An index that turns out to be unusable half-way is left aside, and the work is done once more without it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click
import msgspec

from pinnace.api.chosen_objects import ObjectName
from pinnace.api.objects import JSONObject, reasons
from pinnace.api.selection.label_choice import LabelChoice
from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.selection.validation import pair_errors
from pinnace.api.values.near import did_you_mean, near_names
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.archive.item_index import IndexedItem, Span
from pinnace.browse.choosing import Choice, is_type, parse_target
from pinnace.browse.errors import BrowseError, FileWithheld, IndexUnusable, MissingFile, NoParts
from pinnace.browse.joining import Identity
from pinnace.browse.stored import StoredBackup
from pinnace.cli.backends import open_backend
from pinnace.cli.browse.options import BrowseOptions
from pinnace.cli.browse.rows import in_one_line
from pinnace.cli.common.content_options import FilterOptions
from pinnace.cli.common.reading import downloads, refuse_unfinished
from pinnace.cli.connect import open_cluster, pasteable, run_async, settings_of
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.kinds import BACKUP
from pinnace.cli.settings import Settings
from pinnace.client.errors import ClientError, FileMissing, FileNotOffered, PartsUnsupported
from pinnace.client.interface import Backend, DownloadOptions
from pinnace.operations.workdir import work_directory
from pinnace.storage.errors import ObjectNotFound, StorageError, StoreUnavailable

if TYPE_CHECKING:
    from pinnace.browse.differences import Difference
    from pinnace.kube.client import KubeClient

T = TypeVar("T")

_MOST_COMPARED: Final = 5000
"""Names that a misspelt one is compared with: a million would take a minute, without an interrupt."""


class BackendFiles(msgspec.Struct, frozen=True):
    """The files of one backup, read through a backend."""

    backend: Backend
    name: str
    options: DownloadOptions
    failed_because: str = ""

    @asynccontextmanager
    async def stream(self, kind: DownloadTargetKind) -> AsyncIterator[AsyncIterator[bytes]]:
        """See Files.stream."""
        try:
            async with self.backend.stored_file(kind, self.name, self.options) as chunks:
                yield chunks
        except FileNotOffered as error:
            raise FileWithheld(
                f"the definition of DownloadRequests in the cluster does not know the {kind.words};"
                " `pinnace install --crds-only --apply` adds that"
            ) from error
        except FileMissing as error:
            raise self._missing(kind.words) from error

    @asynccontextmanager
    async def part(self, kind: DownloadTargetKind, span: Span) -> AsyncIterator[AsyncIterator[bytes]]:
        """See Files.part."""
        try:
            async with self.backend.stored_part(
                kind, self.name, (span.offset, span.length), self.options
            ) as chunks:
                yield chunks
        except FileMissing as error:
            raise self._missing(kind.words) from error
        except PartsUnsupported as error:
            raise NoParts(str(error)) from error
        except StoreUnavailable:
            raise
        except (StorageError, ClientError) as error:
            # Most likely the index names a part that does not exist. Otherwise reading the whole fails too.
            raise IndexUnusable(self.name, f"a part of the tarball cannot be read: {error}") from error

    async def tarball_bytes(self) -> int | None:
        """The size of the tarball; None if it cannot be asked for. Raises MissingFile."""
        try:
            return await self.backend.tarball_bytes(self.name)
        except ObjectNotFound as error:
            raise self._missing("tarball") from error
        except StorageError:
            return None

    def _missing(self, words: str) -> MissingFile:
        why = f": {self.failed_because}" if self.failed_because else ""
        return MissingFile(f"backup {self.name} has no {words}{why}")


class Library(msgspec.Struct):
    """The backups of a server or a location.

    Attributes:
        settings: of the command line.
        backend: where the backups are.
    """

    settings: Settings
    backend: Backend
    folder: Path
    options: DownloadOptions
    _opened: dict[str, StoredBackup] = msgspec.field(default_factory=dict)
    _left_out: set[str] = msgspec.field(default_factory=set)

    async def open(self, name: str) -> StoredBackup:
        """A backup that exists. Raises NotFound."""
        if name not in self._opened:
            backup = await self.backend.object(BACKUP.plural, name)
            if self.settings.location is None:  # in a location the metadata comes last, whatever it says
                await refuse_unfinished(self.backend, backup)
            files = BackendFiles(self.backend, name, self.options, "; ".join(reasons(backup)))
            flags = " --location URL" if self.settings.location is None else ""  # a server cannot write one
            self._opened[name] = StoredBackup(
                name, files, self.folder, _tell, files.tarball_bytes, flags=flags
            )
        return self._opened[name]

    @asynccontextmanager
    async def cluster(self) -> "AsyncIterator[KubeClient]":
        """A client for the cluster: that of the server, or with a location one of its own."""
        from pinnace.client.server import ServerBackend  # a location needs no HTTP client, but for this

        if isinstance(self.backend, ServerBackend):
            yield self.backend.client
        else:
            async with open_cluster(self.settings) as client:
                yield client

    async def all(self) -> "list[JSONObject]":
        """All finished backups, oldest first."""
        found = await self.backend.objects(BACKUP.plural)
        finished = [backup for backup in found if (backup.get("status") or {}).get("completionTimestamp")]
        return sorted(finished, key=_age)

    @contextmanager
    def unless_unreadable(self, name: str) -> Iterator[None]:
        """Skip a backup that cannot be read, with one warning: the others are still looked into."""
        try:
            yield
        except IndexUnusable:
            raise
        except BrowseError as error:
            if name not in self._left_out:
                complain(f"Backup {name} is left out: {error}.")
                self._left_out.add(name)

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work, again for each index that has to be left aside. Raises CommandError."""
        while True:
            try:
                return await work()
            except IndexUnusable as error:
                self._opened[error.backup].leave_index_aside(error.reason)
            except BrowseError as error:
                raise CommandError(pasteable(str(error))) from error

    def close(self) -> None:
        """Free what was decompressed."""
        for backup in self._opened.values():
            backup.close()


def _tell(text: str) -> None:
    complain(pasteable(text))


def _age(backup: JSONObject) -> tuple[str, str]:
    status = backup.get("status") or {}
    return str(status.get("startTimestamp") or ""), backup["metadata"]["name"]


def browse(ctx: click.Context, options: BrowseOptions, work: Callable[[Library], Awaitable[T]]) -> T:
    """Run a command's work with the backups of the settings."""
    settings = settings_of(ctx)
    how = downloads(settings, options, options.timeout.total_seconds())

    async def opened() -> T:
        async with work_directory(None) as folder, open_backend(settings) as backend:
            library = Library(settings, backend, folder, how)
            try:
                return await library.run(lambda: work(library))
            finally:
                library.close()

    return run_async(opened())


def chosen(options: BrowseOptions, filters: FilterOptions | None, words: Sequence[str]) -> Choice:
    """The items that a command selects. Raises InvalidInput."""
    try:
        target = parse_target(words) if words else ObjectName("", "", "")
    except ValueError as error:
        raise InvalidInput(str(error)) from error
    if target.namespace and options.of_namespace not in ("", target.namespace):
        raise InvalidInput(f"{target} is in namespace {target.namespace}, not in {options.of_namespace} (-n)")
    kind, name, namespace = target.kind, target.name, target.namespace or options.of_namespace
    if filters is None:
        return Choice(kind=kind, name=name, namespaces=_in(namespace))
    problems = [
        *pair_errors("namespace", filters.include_namespaces, filters.exclude_namespaces),
        *pair_errors("resource", filters.include_resources, filters.exclude_resources),
    ]
    if problems:
        raise InvalidInput("; ".join(problems))
    if namespace and list(filters.include_namespaces) != ["*"]:
        raise InvalidInput(f"give either {target if target.namespace else '-n'} or --include-namespaces")
    namespaces = IncludesExcludes(filters.include_namespaces, filters.exclude_namespaces)
    try:
        labels = LabelChoice.of(filters.selector, filters.or_selector)
    except ValueError as error:
        raise InvalidInput(str(error)) from error
    return Choice(
        kind=kind,
        name=name,
        namespaces=_in(namespace) if namespace else namespaces,
        resources=IncludesExcludes(filters.include_resources, filters.exclude_resources),
        labels=labels,
        cluster_resources=filters.include_cluster_resources,
    )


def _in(namespace: str) -> IncludesExcludes:
    return IncludesExcludes([namespace] if namespace else ())


async def required_item(backup: StoredBackup, choice: Choice) -> IndexedItem:
    """The only object of a backup that is selected. Raises CommandError if there is none, or several."""
    found = await only_item(backup, choice)
    if found is None:
        place = ", ".join(choice.namespaces.includes)
        where = f" in namespace {place}" if place else ""
        near = await meant_instead(backup, choice)
        raise CommandError(f"{choice.kind}/{choice.name} is not in backup {backup.name}{where}{near}")
    return found


async def only_item(backup: StoredBackup, choice: Choice) -> IndexedItem | None:
    """The only object of a backup that is selected, or None. Raises CommandError if there are several."""
    found: dict[Identity, IndexedItem] = {}
    async for batch in backup.entries():
        for entry in batch:
            if choice.admits(entry):
                found.setdefault(entry.identity, entry)
    if len(found) > 1:
        places = ", ".join(sorted(title_of(entry) for entry in found.values())[:10])
        namespaces = {entry.namespace for entry in found.values()}
        how = "give -n NAMESPACE" if len(namespaces) > 1 else "give the type with its group, KIND.GROUP"
        raise CommandError(f"{choice.kind}/{choice.name} means several objects: {places}; {how}")
    return next(iter(found.values()), None)


async def meant_instead(backup: StoredBackup, choice: Choice) -> str:
    """`; did you mean ...?` about an object that a backup does not have; empty if no name is similar."""
    any_name = replace(choice, name="")
    kinds, namespaces, names = set[str](), set[str](), set[str]()
    is_known = False
    async for batch in backup.entries():
        for entry in batch:
            is_known = is_known or is_type(entry, choice.kind)
            if len(kinds) < _MOST_COMPARED:
                kinds.add(entry.resource)
            if len(namespaces) < _MOST_COMPARED:
                namespaces.add(entry.namespace)
            if len(names) < _MOST_COMPARED and any_name.admits(entry):
                names.add(entry.name)
    if not is_known:
        return did_you_mean(near_names(choice.kind, kinds))
    if not names:
        asked = choice.namespaces.includes
        others = namespaces.difference(asked)
        return did_you_mean(f"-n {name}" for place in asked for name in near_names(place, others))
    return did_you_mean(f"{choice.kind}/{name}" for name in near_names(choice.name, names))


def title_of(item: "IndexedItem | Difference") -> str:
    """An item as a person names it: `deployments.apps/web in shop`."""
    where = f" in {item.namespace}" if item.namespace else ""
    return in_one_line(f"{item.resource}/{item.name}{where}")
