"""Makes the password of the repositories at the start of a server, and warns of the public one. (ADR 126)

A new installation gets a random one. Where repositories exist already, in the cluster's list or in one of its
locations, they were made with a password of before: Velero's default, unless somebody gave another, and then
that Secret has to be given here too. An existing Secret is never changed. (docs/spec: SRV 4)
"""

import asyncio
import base64
from collections.abc import Callable
from typing import Final

from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject, mapping
from pinnace.controllers.shared.locations import LocationStores, readable
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, KubeError, NotFound
from pinnace.kube.resources import (
    BACKUP_REPOSITORIES,
    BACKUP_STORAGE_LOCATIONS,
    RESTIC_REPOSITORIES,
    SECRETS,
    APIResource,
)
from pinnace.runtime.logfields import get_logger
from pinnace.server.checks import StartupError
from pinnace.storage.errors import StorageError
from pinnace.volumes.uploader.passwords import (
    LEGACY_FIRST,
    PUBLIC_PASSWORD,
    REPOSITORY_SECRET_NAME,
    SECRET_KEY,
    SECRET_NAME,
    new_password,
    read_secrets,
    with_public_password,
)

log = get_logger(__name__)

LOOK_SECONDS: Final = 20.0
"""The limit of the look into one location."""


async def prepare_repository_password(
    client: KubeClient,
    namespace: str,
    stores: LocationStores,
    *,
    make_password: Callable[[], bytes] = new_password,
) -> None:
    """Create the Secret under both of its names, with one password, and warn if that is the public one.

    Raises:
        StartupError: there is no Secret with the password, and none can be created.
    """
    try:
        found = await read_secrets(client, namespace)
        if not found:
            password = await _first_password(client, namespace, stores, make_password)
            data = {SECRET_KEY: base64.b64encode(password).decode()}
            # Another server may start just now: whichever Secret is first has the password of both.
            found[SECRET_NAME] = await _create(client, namespace, SECRET_NAME, data)
        data = mapping(next(iter(found.values())), "data")
        for name in LEGACY_FIRST:
            if name not in found:
                found[name] = await _create(client, namespace, name, data)
    except KubeError as error:
        raise StartupError(f"Secret {namespace}/{SECRET_NAME} cannot be read or made: {error}") from error
    if public := with_public_password(found):
        log.warning(
            "Volumes are saved under Velero's public default password: whoever can read the bucket can read"
            " them; `pinnace repo change-password` gives them another one",
            secrets=", ".join(public),
        )


async def _create(client: KubeClient, namespace: str, name: str, data: JSONObject) -> JSONObject:
    """The Secret of that name: a new one with this data, or that which exists by now."""
    secret: JSONObject = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "type": "Opaque",
        "data": dict(data),
    }
    try:
        await client.create(SECRETS, secret, namespace)
    except AlreadyExists:
        return await client.get(SECRETS, name, namespace)
    return secret


async def _first_password(
    client: KubeClient, namespace: str, stores: LocationStores, make_password: Callable[[], bytes]
) -> bytes:
    if where := await _existing_repositories(client, namespace, stores):
        log.warning(
            f"There are repositories of volumes in {where}, and no Secret with their password: Velero's"
            f" default is taken. If they have another one, put it into the Secrets {SECRET_NAME} and"
            f" {REPOSITORY_SECRET_NAME}"
        )
        return PUBLIC_PASSWORD
    log.info(
        "Volumes will be saved under a random password. Without it they cannot be restored: keep a copy of"
        " the Secret outside the cluster",
        secret=REPOSITORY_SECRET_NAME,
    )
    return make_password()


async def _existing_repositories(client: KubeClient, namespace: str, stores: LocationStores) -> str:
    """Where there are repositories, for a message; empty if none is known. Raises KubeError."""
    for resource in (BACKUP_REPOSITORIES, RESTIC_REPOSITORIES):
        if await _list(client, resource, namespace):
            return f"namespace {namespace}"
    # A tenant does not choose the password of all others.
    locations = [
        obj
        for obj in await _list(client, BACKUP_STORAGE_LOCATIONS, namespace)
        if Origin.LOCATION.namespace_annotation not in mapping(obj, "metadata", "annotations")
    ]
    holding = await asyncio.gather(*(_has_repositories(stores, obj) for obj in locations))
    names = [str(obj["metadata"]["name"]) for obj, holds in zip(locations, holding, strict=True) if holds]
    return f"location {', '.join(names)}" if names else ""


async def _list(client: KubeClient, resource: APIResource, namespace: str) -> list[JSONObject]:
    try:
        return await client.list_all(resource, namespace)
    except NotFound:
        return []  # the kind is not served


async def _has_repositories(stores: LocationStores, obj: JSONObject) -> bool:
    """Whether a location is known to have repositories.

    One that cannot be read does not decide for the public password: a wrong password is an error that says
    so, and a public one is not seen.
    """
    try:
        async with asyncio.timeout(LOOK_SECONDS), stores.open_location(readable(obj)) as store:
            return await store.has_repositories()
    except (StorageError, KubeError, TimeoutError) as error:
        log.warning(
            "A location could not be looked into for repositories of volumes",
            location=obj["metadata"]["name"],
            error=error,
        )
        return False
