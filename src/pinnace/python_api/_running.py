"""Translates between the Python API and the operations: requests, clusters, locations, errors, progress."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from os import fspath
from pathlib import Path
from typing import TypeVar

from pinnace.age.errors import InvalidIdentity
from pinnace.age.identities import Identities
from pinnace.age.plugins import NobodyToAsk
from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.aio.small_files import read_small_file
from pinnace.api.labels import FAILED_BACKUP, WITHOUT_VOLUME_DATA
from pinnace.api.meta import LabelSelector, ObjectMeta
from pinnace.api.selection.selectors import parse_label_selector
from pinnace.api.values.default_names import stamped_name
from pinnace.api.values.durations import Duration
from pinnace.api.values.error_texts import cause_of, error_text
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.browse.errors import NoRoom
from pinnace.installing.errors import InstallError
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.errors import KubeError
from pinnace.operations import local
from pinnace.python_api.errors import (
    ClusterError,
    InvalidRequest,
    LocationError,
    NameTaken,
    PinnaceError,
    RunFailed,
)
from pinnace.python_api.types import (
    BackupOptions,
    BackupResult,
    BackupSummary,
    Cluster,
    ExistingResources,
    Location,
    Phase,
    Progress,
    ProgressCallback,
    ResourceModifier,
    RestoreOptions,
    RestoreResult,
    ScopedResources,
    Selection,
)
from pinnace.restore.modifiers.given import Given, rule_from
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.modifiers.rules import ModifierError, Rule
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError, StoreConfigError
from pinnace.storage.location_url import location_from_url
from pinnace.storage.open import open_backup_store
from pinnace.storage.own_settings import RECIPIENTS

_Result = TypeVar("_Result", BackupResult, RestoreResult)


class Reports(local.Observer):
    """Collects what the operations report, for a result.

    Attributes:
        notes: warnings that the run itself does not count.
    """

    def __init__(self, callback: ProgressCallback | None) -> None:
        self.notes: list[str] = []
        self._callback = callback
        self._error: Exception | None = None

    def warn(self, text: str) -> None:
        self.notes.append(text)

    async def publish(self, total: int, done: int) -> None:
        """Call the program's callback, unless it has raised before."""
        if self._callback is None or self._error is not None:
            return
        try:
            self._callback(Progress(done=done, total=total))
        except Exception as error:  # noqa: BLE001 - the program's own; it is raised by `check`
            self._error = error

    def check(self, result: _Result) -> _Result:
        """The result of a run that has ended.

        Raises:
            RunFailed: its phase is Failed.
            Exception: what the callback raised.
        """
        if result.phase is Phase.FAILED:
            raise RunFailed(result)
        if self._error is not None:
            raise self._error
        return result


@contextmanager
def translated() -> Iterator[None]:
    """Turn the errors of lower layers into those of the Python API. Others are defects and pass."""
    try:
        yield
    except Exception as error:
        cause = cause_of(error)
        if isinstance(cause, local.NameTaken):
            raise NameTaken(str(cause)) from error
        if isinstance(cause, local.InvalidRun):
            raise InvalidRequest(str(cause)) from error
        if isinstance(cause, KubeError | InstallError):
            raise ClusterError(str(cause)) from error
        if isinstance(cause, StorageError):
            raise LocationError(str(cause)) from error
        if isinstance(cause, NoRoom):
            raise PinnaceError(str(cause)) from error
        if isinstance(cause, OSError):
            raise PinnaceError(f"a file of this machine cannot be used: {error_text(cause)}") from error
        if isinstance(cause, PinnaceError) and cause is not error:
            raise cause from error
        raise


@asynccontextmanager
async def opened_location(
    location: Location, *, namespace: str = "velero", create: bool = False
) -> AsyncIterator[tuple[BackupStorageLocation, BackupStore]]:
    """Open the location; yields it with its store.

    Args:
        create: whether the first write makes a missing folder; if not, it is an error. (docs/adr/007)

    Raises:
        StorageError: it cannot be used as it is; the text never repeats the URL.
    """
    found = location_from_url(fspath(location.url), namespace=namespace)
    if location.recipients is not None:
        found.spec.config.pop(RECIPIENTS, None)
    if location.recipients:
        found.spec.config[RECIPIENTS] = ", ".join(location.recipients)
    async with open_backup_store(found, create=create).opened_by(_identities(location)) as store:
        yield found, store


def _identities(location: Location) -> Identities | None:
    if location.identity_file is None:
        return None
    path = fspath(location.identity_file)
    try:
        return Identities.parse(read_small_file(Path(path)), dialog=NobodyToAsk())
    except OSError as error:
        raise StoreConfigError(f"the identity file {path!r} cannot be read: {error_text(error)}") from error
    except InvalidIdentity as error:
        raise StoreConfigError(f"the identity file {path!r} cannot be used: {error}") from error


@asynccontextmanager
async def opened_run(
    location: Location, cluster: Cluster, reports: Reports, *, create: bool = False
) -> AsyncIterator[local.LocalRun]:
    """Open cluster and location for one run. Raises StorageError and KubeError."""
    kubeconfig = fspath(cluster.kubeconfig) if cluster.kubeconfig is not None else ""
    async with (
        opened_location(location, namespace=cluster.namespace, create=create) as (found, store),
        KubeClient(load_config(kubeconfig, cluster.context)) as client,
    ):
        yield local.LocalRun(
            client=client,
            location=found,
            store=store,
            namespace=cluster.namespace,
            kubeconfig=kubeconfig,
            features=frozenset(cluster.features),
            progress=reports.publish,
            observer=reports,
        )


def backup_request(name: str, cluster: Cluster, selection: Selection, options: BackupOptions) -> Backup:
    """The Backup that is asked for. Raises InvalidRequest."""
    scoped = options.scoped_resources or ScopedResources()
    spec = BackupSpec(
        snapshot_volumes=options.snapshot_volumes,
        ttl=_duration(options.ttl),
        ordered_resources=dict(options.ordered_resources),
        included_cluster_scoped_resources=names(scoped.included_cluster, "included_cluster"),
        excluded_cluster_scoped_resources=names(scoped.excluded_cluster, "excluded_cluster"),
        included_namespace_scoped_resources=names(scoped.included_namespaced, "included_namespaced"),
        excluded_namespace_scoped_resources=names(scoped.excluded_namespaced, "excluded_namespaced"),
    )
    _select(spec, selection)
    metadata = ObjectMeta(name=name, namespace=cluster.namespace, labels=dict(options.labels))
    return Backup(metadata=metadata, spec=spec)


def restore_request(backup: str, cluster: Cluster, selection: Selection, options: RestoreOptions) -> Restore:
    """The Restore that is asked for. Raises InvalidRequest."""
    spec = RestoreSpec(
        backup_name=backup,
        existing_resource_policy=_policy(options.existing_resources),
        namespace_mapping=dict(options.namespace_mapping),
        restore_pvs=options.restore_volumes,
        preserve_node_ports=options.preserve_node_ports,
    )
    _select(spec, selection)
    name = options.name or stamped_name(backup, SYSTEM_CLOCK.now())
    notes = {WITHOUT_VOLUME_DATA: "true"} if options.without_volume_data else {}
    notes |= {FAILED_BACKUP: "true"} if options.allow_failed else {}
    metadata = ObjectMeta(
        name=name, namespace=cluster.namespace, labels=dict(options.labels), annotations=notes
    )
    return Restore(metadata=metadata, spec=spec)


def summary_of(name: str, backup: Backup) -> BackupSummary:
    """The summary of a backup, under the name of its directory, even if its file has another name."""
    status = backup.status
    return BackupSummary(
        name=name,
        phase=phase_of(status.phase or Phase.NEW),
        items=status.progress.items_backed_up if status.progress else None,
        errors=status.errors,
        warnings=status.warnings,
        started=status.start_timestamp,
        completed=status.completion_timestamp,
        expires=status.expiration,
        labels=dict(backup.metadata.labels),
    )


def phase_of(text: str) -> Phase:
    """The phase; UNKNOWN if only other versions have it."""
    return Phase(text) if text in Phase.__members__.values() else Phase.UNKNOWN


def _select(spec: BackupSpec | RestoreSpec, selection: Selection) -> None:
    """Put what is selected into a spec. Raises InvalidRequest."""
    spec.included_namespaces = names(selection.included_namespaces, "included_namespaces")
    spec.excluded_namespaces = names(selection.excluded_namespaces, "excluded_namespaces")
    spec.included_resources = names(selection.included_resources, "included_resources")
    spec.excluded_resources = names(selection.excluded_resources, "excluded_resources")
    spec.label_selector = _selector(selection.labels, "labels")
    spec.or_label_selectors = _selectors(selection)
    spec.include_cluster_resources = selection.cluster_resources


def names(given: object, field: str) -> list[str]:
    """The names that a caller gave in a field. Raises InvalidRequest."""
    # A text is a sequence of texts too: "shop" would mean the namespaces s, h, o and p.
    if isinstance(given, str):
        raise InvalidRequest(f"{field} must be a list of names, not the text {given!r}")
    if not isinstance(given, list | tuple | set | frozenset) or not all(isinstance(n, str) for n in given):
        raise InvalidRequest(f"{field} must be a list of names")
    return sorted(given) if isinstance(given, set | frozenset) else list(given)


def _selector(text: str, field: str) -> LabelSelector | None:
    try:
        return parse_label_selector(text) if text else None
    except ValueError as error:
        raise InvalidRequest(f"{field}: {error}") from error


def _selectors(selection: Selection) -> list[LabelSelector]:
    field = "any_of_labels"
    found = [_selector(text, field) for text in names(selection.any_of_labels, field)]
    if None in found:
        raise InvalidRequest(f"{field} must not contain an empty selector, which would match everything")
    return [each for each in found if each is not None]


def _policy(given: ExistingResources) -> str:
    try:
        policy = ExistingResources(given)
    except ValueError as error:
        known = ", ".join(ExistingResources)
        raise InvalidRequest(f"existing_resources must be one of {known}, not {given!r}") from error
    return "" if policy is ExistingResources.NONE else str(policy)


def resource_modifiers(options: RestoreOptions) -> ResourceModifiers | None:
    """The changes to objects that are asked for; None if there are none. Raises InvalidRequest."""
    if not options.modifiers:
        return None
    try:
        return ResourceModifiers(
            [_rule(number, each) for number, each in enumerate(options.modifiers, start=1)]
        )
    except ModifierError as error:
        raise InvalidRequest(f"modifiers: {error}") from error


def _rule(number: int, modifier: ResourceModifier) -> Rule:
    selector = _selector(modifier.labels, f"modifiers: rule {number}: labels")
    return rule_from(
        number,
        Given(
            resources=modifier.resources,
            namespaces=names(modifier.namespaces, f"modifiers: rule {number}: namespaces"),
            name_pattern=modifier.name_pattern,
            labels=selector,
            matches=modifier.matches,
            json_patch=modifier.json_patch,
            merge_patch=modifier.merge_patch,
            strategic_patch=modifier.strategic_patch,
        ),
    )


def _duration(ttl: timedelta | None) -> Duration:
    if ttl is None:
        return Duration()
    if ttl <= timedelta():
        raise InvalidRequest("ttl must be positive")
    try:
        return Duration.seconds(ttl.total_seconds())
    except ValueError as error:
        raise InvalidRequest(f"ttl: {error}") from error
