"""The work of `repo change-password`."""

import os
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import click

from pinnace.aio.small_files import read_small_file
from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.objects import text
from pinnace.api.velero.backup_repository import RESTIC_REPOSITORY
from pinnace.cli.common.cluster import say_cluster
from pinnace.cli.common.outcome import say
from pinnace.cli.connect import caller, open_cluster, run_async, settings_of
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.process.change_password import ChangePasswordOptions
from pinnace.cli.settings import Settings
from pinnace.client.location import LocationBackend
from pinnace.controllers.shared.locations import LocationStores, readable
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConfigError
from pinnace.kube.resources import BACKUP_REPOSITORIES, BACKUP_STORAGE_LOCATIONS
from pinnace.operations.changing_password import (
    KeyedRepositories,
    PasswordOutcome,
    StoredPasswords,
    change_given,
    change_stored,
    check_new,
    repositories_in,
)
from pinnace.operations.local_deletion import find_password
from pinnace.operations.workdir import work_directory
from pinnace.storage.own_settings import REPOSITORY_SECRET
from pinnace.volumes.uploader.access import AccessProvider, LocationAccess, Repository
from pinnace.volumes.uploader.errors import UploaderError
from pinnace.volumes.uploader.passwords import LEGACY_FIRST, SECRET_KEY
from pinnace.volumes.uploaders import Uploaders


def change_password(ctx: click.Context, options: ChangePasswordOptions) -> int:
    """Change the password; returns the exit code."""
    settings = settings_of(ctx)
    if settings.location is not None and not options.new_password_file:
        raise InvalidInput(
            "--new-password-file is needed with --location: nothing else would keep the password"
        )
    if settings.location is not None and options.storage_location:
        raise InvalidInput("--storage-location names a location of a server, and goes without --location")
    if settings.location is None and options.restic_password_file:
        raise InvalidInput("--restic-password-file goes with --location; a server knows the password")
    try:
        new = None
        if options.new_password_file:
            new = check_new(read_small_file(Path(options.new_password_file)))
        if settings.location is not None:
            assert new is not None
            outcome = run_async(_without_server(settings, settings.location, options, new))
        else:
            outcome = run_async(_with_server(settings, options.storage_location, new))
    except UploaderError as error:
        raise CommandError(str(error)) from error
    return _report(settings, options, outcome)


def _report(settings: Settings, options: ChangePasswordOptions, outcome: PasswordOutcome) -> int:
    for title in outcome.foreign:
        complain(f"WARNING: {title}: none of the known passwords opens it; it is left as it is.")
    if outcome.failed:
        for title, reason in outcome.failed.items():
            complain(f"{title}: {reason}")
        complain(
            "The change is not complete. Backups and restores go on, with both passwords: keep both, and run"
            " the same command again."
        )
        return 1
    if settings.location is not None:
        say("The former password opens none of these repositories any more.")
    else:
        secret = "NAME" if options.storage_location else LEGACY_FIRST[1]
        say(
            "The password is changed. Without it the data of volumes is lost with this cluster: keep a copy"
            " of it elsewhere, by"
        )
        say(
            f"  kubectl -n {settings.namespace} get secret {secret} -o jsonpath='{{.data.{SECRET_KEY}}}'"
            " | base64 -d > repository-password"
        )
    return 0


async def _without_server(
    settings: Settings, url: str, options: ChangePasswordOptions, new: bytes
) -> PasswordOutcome:
    async with (
        LocationBackend.open(url, caller(), namespace=settings.namespace) as backend,
        work_directory(None) as workdir,
    ):
        location = backend.location
        if location.spec.config.get("resticRepoPrefix"):
            raise UploaderError(
                "the restic repositories are elsewhere (resticRepoPrefix), where they cannot be listed:"
                " change their password with `restic key`"
            )
        async with AsyncExitStack() as stack:
            client = None
            with suppress(ConfigError):  # no cluster is needed where a file has the password
                client = await stack.enter_async_context(open_cluster(settings))
            former = await find_password(options.restic_password_file, client, settings.namespace)
        repositories = KeyedRepositories(
            lambda password: Uploaders.of(LocationAccess(location, password, workdir)),
            await repositories_in(location, backend.store),
        )
        return await change_given(repositories, former, new, say)


async def _with_server(settings: Settings, only: str, new: bytes | None) -> PasswordOutcome:
    namespace = settings.namespace
    async with open_cluster(settings) as client, work_directory(None) as workdir:
        say_cluster(client, "Changing the password of repositories in")
        stores = LocationStores(client, namespace, workdir / "credentials")
        secrets = await _secrets(client, namespace, only)

        def opened(password: bytes) -> Uploaders:
            return Uploaders.of(
                AccessProvider(client, namespace, workdir, inherited=os.environ, password=password)
            )

        async def find() -> KeyedRepositories:
            return KeyedRepositories(opened, await _repositories(client, namespace, stores, only))

        return await change_stored(StoredPasswords(client, namespace, secrets), new, find, say)


async def _secrets(client: KubeClient, namespace: str, only: str) -> tuple[str, ...]:
    """The Secrets with the password that is changed. Raises KubeError, UploaderError."""
    if not only:
        return LEGACY_FIRST
    name = text(
        await client.get(BACKUP_STORAGE_LOCATIONS, only, namespace), "spec", "config", REPOSITORY_SECRET
    )
    if not name:
        raise UploaderError(
            f"location {only} names no Secret for its repositories (config.{REPOSITORY_SECRET}): they have"
            " the password of the server, which is changed without --storage-location"
        )
    return (name,)


async def _repositories(
    client: KubeClient, namespace: str, stores: LocationStores, only: str
) -> dict[str, Repository]:
    """The repositories with the password that is changed."""
    known = await client.list_all(BACKUP_REPOSITORIES, namespace)
    secret = (await _secrets(client, namespace, only))[0] if only else ""
    found: dict[str, Repository] = {}
    for obj in await client.list_all(BACKUP_STORAGE_LOCATIONS, namespace):
        location = readable(obj)
        config = location.spec.config
        if config.get(REPOSITORY_SECRET, "") != secret:
            continue
        elsewhere: list[str] = []
        if config.get("resticRepoPrefix") and not tenant_of(location.metadata):
            elsewhere = [
                text(each, "spec", "volumeNamespace")
                for each in known
                if text(each, "spec", "backupStorageLocation") == location.metadata.name
                and text(each, "spec", "repositoryType") in ("", RESTIC_REPOSITORY)
            ]
        async with stores.open_location(location) as store:
            found |= await repositories_in(location, store, more_restic=elsewhere)
    return found
