"""Asks a server, a location or the kubeconfig for the names that completion offers.

The user waits meanwhile: names that take longer than three seconds are not offered. No failure is reported,
since the command itself will report it.
"""

import os
import re
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from pinnace.cli.completion.candidates import HARMLESS
from pinnace.cli.completion.line import Line
from pinnace.cli.declaring.global_flags import GlobalFlags
from pinnace.cli.declaring.values import CompletionSource
from pinnace.cli.settings import Settings, resolve_settings

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient
    from pinnace.kube.resources import APIResource
    from pinnace.storage.backup_store import BackupStore

T = TypeVar("T")

SECONDS: Final = 3.0
"""How long the names may take, counted from the moment when the modules are loaded.

A cluster 100 ms away takes 0.4 s for a connection with TLS and one request, and a program that gets a token
for it a second or two. Nearby names come as soon as they are there; only a server that is silent takes as
long as this.
"""
_LIMIT: Final = 500
"""The number of objects whose names are offered; the API server has no order by age."""
_TIME: Final = re.compile(r"-(\d{14})$")
_METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_IN_LOCATIONS: Final = (CompletionSource.BACKUPS, CompletionSource.RESTORES)
_OF_TENANTS: Final = (
    CompletionSource.TENANT_BACKUPS,
    CompletionSource.TENANT_RESTORES,
    CompletionSource.TENANT_LOCATIONS,
)
_IN_CLUSTER: Final = (CompletionSource.NAMESPACES, CompletionSource.KINDS, *_OF_TENANTS)


def names_of(source: CompletionSource, line: Line) -> Iterable[str]:
    """The names, or none if they cannot be had. Ends the process silently where they take too long."""
    try:
        settings = resolve_settings(_flags_of(line))
        if source is CompletionSource.CONTEXTS:
            return _contexts(settings)
        if source in (CompletionSource.STORED, CompletionSource.STORED_WITH_NAMESPACE):
            return stored_names(_resource_list(settings, _backup_of(line)), source, line)
        if settings.location is not None and source in _IN_LOCATIONS:
            return _of_location(settings, source)
        if settings.location is not None and source not in _IN_CLUSTER:
            return []  # a location has no such objects
        return _of_cluster(settings, source, asked="global_namespace" in line.flags)
    except Exception:  # noqa: BLE001 - such as a broken kubeconfig, or a refusal: no message while the user types
        return []


def _flags_of(line: Line) -> GlobalFlags:
    """The global flags of the line; the shell has not replaced `~` and variables in it yet."""

    def given(name: str) -> str | None:
        value = line.flags.get(f"global_{name}")
        return None if value is None else os.path.expanduser(os.path.expandvars(value))

    return GlobalFlags(
        kubeconfig=given("kubeconfig"),
        kubecontext=given("kubecontext"),
        namespace=given("namespace"),
        location=given("location"),
    )


@contextmanager
def _in_time() -> Iterator[None]:
    """End the process when its time has passed, even while it waits for a server, a disk or a program."""
    signal.signal(signal.SIGALRM, lambda _number, _frame: os._exit(0))
    # Repeated, as Python hears of a signal that comes just before a call that blocks only at the next one.
    signal.setitimer(signal.ITIMER_REAL, SECONDS, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _contexts(settings: Settings) -> Iterable[str]:
    from pinnace.kube.config import contexts

    with _in_time():
        return contexts(settings.kubeconfig)


def _of_location(settings: Settings, source: CompletionSource) -> Iterable[str]:
    async def listed(store: "BackupStore") -> list[str]:
        return await (store.list_backups() if source is CompletionSource.BACKUPS else store.list_restores())

    return _asked(settings, listed)


def _asked(settings: Settings, question: "Callable[[BackupStore], Awaitable[T]]") -> T:
    """Ask a question about the stored backups of the location. Returns the answer."""
    import asyncio

    from pinnace.storage.location_url import location_from_url
    from pinnace.storage.open import open_backup_store

    async def asked() -> T:
        async with open_backup_store(location_from_url(settings.location or "")) as store:
            return await question(store)

    with _in_time():
        return asyncio.run(asked())


def _backup_of(line: Line) -> str | None:
    """The backup whose objects are offered; None for `history`, which is about all backups."""
    return None if line.command.name == "history" else line.flags.get("from_backup") or line.arguments[0]


def newest(backups: Iterable[str]) -> str | None:
    """The backup whose name ends with the latest time, as those of schedules do, else the last name. Pure.

    Names that are never offered do not count: anything may lie in a location.
    """
    harmless = (name for name in backups if HARMLESS.fullmatch(name))
    return max(harmless, key=lambda name: (_TIME.findall(name), name), default=None)


def _resource_list(settings: Settings, backup: str | None) -> Mapping[str, list[str]]:
    """The objects of a backup by kind, `apps/v1/Deployment` to `shop/web`, from the smallest file of them.

    Without a backup the newest one answers: there is no time to read several.
    """

    async def stored(store: "BackupStore") -> dict[str, list[str]]:
        name = backup or newest(await store.list_backups())
        return await store.read_resource_list(name) if name else {}

    if settings.location is not None:
        return _asked(settings, stored)
    import asyncio

    # Loaded when it is needed, but not in the time that the server has.
    import pinnace.client.signed_files  # noqa: F401
    from pinnace.api.objects import names_by_kind
    from pinnace.api.velero.download_request import DownloadTargetKind
    from pinnace.client.interface import DownloadOptions, fetch_json
    from pinnace.client.server import ServerBackend
    from pinnace.kube.client import KubeClient
    from pinnace.kube.config import load_config
    from pinnace.kube.resources import velero

    async def read() -> object:
        config = load_config(settings.kubeconfig, settings.kubecontext, patience_seconds=SECONDS)
        options = DownloadOptions(timeout_seconds=SECONDS)
        async with KubeClient(config) as client:
            backend = ServerBackend(client, settings.namespace)
            name = backup or newest(
                await _listed(client, velero(CompletionSource.BACKUPS), settings.namespace)
            )
            if name is None:
                return {}
            return await fetch_json(backend, DownloadTargetKind.BACKUP_RESOURCE_LIST, name, options)

    with _in_time():
        found = asyncio.run(read())
    return names_by_kind(found)


def stored_names(resources: Mapping[str, list[str]], source: CompletionSource, line: Line) -> list[str]:
    """The completions of an object in a backup: its kind first, then its name. Pure.

    Args:
        resources: as a backup lists them.
    """
    kind, slash, _ = line.typed.partition("/")
    kinds = {_kind_of(key): titles for key, titles in resources.items()}
    if not slash:
        end = "" if line.command.name == "ls" else "/"  # which lists all of a kind, too
        return [f"{each}{end}" for each in kinds]
    titles = kinds.get(kind, [])
    if source is CompletionSource.STORED_WITH_NAMESPACE:
        return [f"{kind}/{title}" for title in titles][:_LIMIT]
    namespace = line.flags.get("of_namespace")
    if namespace:
        titles = [title for title in titles if title.startswith(f"{namespace}/")]
    return [f"{kind}/{title.rpartition('/')[2]}" for title in titles][:_LIMIT]


def _kind_of(key: str) -> str:
    """`deployment.apps` of `apps/v1/Deployment`, `secret` of `v1/Secret`."""
    version, _, kind = key.rpartition("/")
    group = version.rpartition("/")[0]
    return f"{kind}.{group}".lower().rstrip(".")


def _of_cluster(settings: Settings, source: CompletionSource, *, asked: bool) -> Iterable[str]:
    import asyncio

    from pinnace.kube.client import KubeClient
    from pinnace.kube.config import load_config
    from pinnace.kube.transport.config import ClusterConfig

    async def listed(config: ClusterConfig) -> list[str]:
        own = settings.namespace if asked else config.namespace or "default"
        namespace = own if source in _OF_TENANTS else settings.namespace
        async with KubeClient(config) as client:
            if source is CompletionSource.KINDS:
                return await _kinds(client)
            return await _objects(client, source, namespace)

    with _in_time():
        config = load_config(settings.kubeconfig, settings.kubecontext, patience_seconds=SECONDS)
        return asyncio.run(listed(config))


async def _objects(client: "KubeClient", source: CompletionSource, namespace: str) -> list[str]:
    from pinnace.kube.resources import NAMESPACES, velero

    if source is CompletionSource.NAMESPACES:
        return await _listed(client, NAMESPACES, None)
    if source in _OF_TENANTS:
        from pinnace.nonadmin import objects

        resources = (objects.NON_ADMIN_BACKUPS, objects.NON_ADMIN_RESTORES, objects.NON_ADMIN_LOCATIONS)
        return await _listed(client, resources[_OF_TENANTS.index(source)], namespace)
    return await _listed(client, velero(source), namespace)


async def _listed(client: "KubeClient", resource: "APIResource", namespace: str | None) -> list[str]:
    """The names of the first objects; their specs are not asked for."""
    import orjson

    body = await client.request(
        "GET", resource.path(namespace), params={"limit": str(_LIMIT)}, accept=_METADATA_ONLY
    )
    return [str(item["metadata"]["name"]) for item in orjson.loads(body)["items"]]


async def _kinds(client: "KubeClient") -> list[str]:
    """The resources that can be backed up: `pods`, `deployments.apps`."""
    from pinnace.kube.discovering import fetch_groups
    from pinnace.kube.discovery import Discovery

    return [resource.group_resource for resource in Discovery(await fetch_groups(client)).resources]
