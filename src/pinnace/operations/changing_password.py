"""Changes the password of all repositories that have it. (ADR 126)

Guarantees: at each moment every repository opens with a password that is stored, so that backups and restores
go on, and a change that was interrupted at any point is completed by the same call. With a server the Secret
has the passwords; without one the caller has them in two files, and nothing is stored here.

    1. the Secret gets the new password beside the one that counts      `next-repository-password`
    2. each repository gets the new one: restic beside the old key, kopia in its place
    3. the new one counts, and the old one stands beside it             `former-repository-password`
    4. repositories that were made meanwhile get the new one, and restic's old keys are removed
    5. the old one leaves the Secret

Assumptions: one change at a time; the Secrets are changed by their resourceVersion, so that a second one
fails.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.objects import JSONObject, mapping
from pinnace.api.velero.storage_location import BackupStorageLocation, BackupStorageLocationAccessMode
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import SECRETS
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import InvalidLocation
from pinnace.volumes.restic.identifiers import find_region, needs_region, repository_identifier
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import PasswordMissing, UploaderError
from pinnace.volumes.uploader.interface import KOPIA, RESTIC
from pinnace.volumes.uploader.passwords import PUBLIC_PASSWORD, Password, new_password
from pinnace.volumes.uploaders import Uploaders

LEAST_CHARACTERS: Final = 8


class PasswordRefused(UploaderError):
    """The new password cannot be used, or another change has to be completed first."""


Opened = Callable[[bytes], Uploaders]
"""Gives uploaders that use one password and no other."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PasswordOutcome:
    """What became of the repositories.

    Attributes:
        changed: those that open with the new password, by title.
        failed: the reason by title; a change with one is not complete.
        foreign: those that none of the known passwords opens; they are left as they are.
    """

    changed: Collection[str]
    failed: Mapping[str, str]
    foreign: Collection[str]


def _say_nothing(_text: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class KeyedRepositories:
    """KeyedRepositories whose password is changed.

    Attributes:
        opened: gives uploaders for a password.
        known: the repositories by a title for messages.
    """

    opened: Opened
    known: Mapping[str, Repository]

    async def add(self, new: bytes, former: Iterable[bytes], say: Say = _say_nothing) -> PasswordOutcome:
        """Let each repository open with the new password."""
        changed, failed, foreign = [], {}, []
        passwords = list(dict.fromkeys((new, *former, PUBLIC_PASSWORD)))
        for title, repository in self.known.items():
            try:
                opening = await self._opening(repository, passwords)
                if opening is None:
                    foreign.append(title)
                    continue
                # Also where the new one opens it: an earlier change may not be complete.
                await self.opened(opening).add_password(repository, new)
                if not await self.opened(new).opens(repository):
                    failed[title] = "it does not open with the new password"
                    continue
            except UploaderError as error:
                failed[title] = str(error)
                continue
            changed.append(title)
            say(f"{title}: opens with the new password")
        return PasswordOutcome(changed, failed, foreign)

    async def remove(self, new: bytes, former: Iterable[bytes]) -> dict[str, str]:
        """Let no repository open with a former password; return the reasons of those that still do."""
        failed = {}
        for title, repository in self.known.items():
            for password in dict.fromkeys((*former, PUBLIC_PASSWORD)):
                if password == new:
                    continue
                try:
                    await self._remove(repository, new, password)
                except UploaderError as error:
                    failed[title] = str(error)
        return failed

    async def _remove(self, repository: Repository, new: bytes, former: bytes) -> None:
        if not await self.opened(new).opens(repository):
            return  # foreign: named already
        if await self.opened(former).opens(repository):
            key = await self.opened(former).password_id(repository)
            await self.opened(new).remove_password(repository, key)

    async def _opening(self, repository: Repository, passwords: Iterable[bytes]) -> bytes | None:
        for password in passwords:
            if await self.opened(password).opens(repository):
                return password
        return None


class StoredPasswords:
    """The passwords in the Secrets of a server or a location. Each method raises KubeError.

    Args:
        names: of the Secrets; those that are not there are left alone.
    """

    def __init__(self, client: KubeClient, namespace: str, names: tuple[str, ...]) -> None:
        self._client = client
        self._namespace = namespace
        self._names = names

    async def new(self, given: bytes | None, make: Callable[[], bytes]) -> bytes:
        """The password that the change leads to: of a change that is not complete, or given, or a new one.

        Raises:
            PasswordMissing: no Secret has a password.
            PasswordRefused: another change is not complete.
        """
        found = await self._read()
        if not any(_value(secret, Password.CURRENT) for secret in found):
            raise PasswordMissing(f"no Secret {' or '.join(self._names)} has a password")
        pending = {_value(secret, Password.NEXT) for secret in found} - {b""}
        if not pending and any(_value(secret, Password.FORMER) for secret in found):
            pending = {
                _value(secret, Password.CURRENT) for secret in found if _value(secret, Password.FORMER)
            }
        if len(pending) > 1:
            raise PasswordRefused("the Secrets have two different new passwords: remove one of them")
        if pending:
            (wanted,) = pending
            if given is not None and given != wanted:
                raise PasswordRefused(
                    "a change to another password is not complete: complete it without --new-password-file"
                )
            return wanted
        return given if given is not None else make()

    async def known(self) -> list[bytes]:
        """All passwords of the Secrets."""
        return [
            value
            for secret in await self._read()
            for password in (Password.CURRENT, Password.FORMER, Password.NEXT)
            if (value := _value(secret, password))
        ]

    async def stage(self, new: bytes) -> None:
        """Store the new password beside the one that counts."""
        for secret in await self._read():
            if new not in (_value(secret, Password.CURRENT), _value(secret, Password.NEXT)):
                await self._patch(secret, {Password.NEXT: new})

    async def switch(self, new: bytes) -> None:
        """Let the new password count, and keep the one before beside it."""
        for secret in await self._read():
            current = _value(secret, Password.CURRENT)
            if current != new:
                await self._patch(
                    secret, {Password.CURRENT: new, Password.FORMER: current, Password.NEXT: None}
                )
            elif _value(secret, Password.NEXT):
                await self._patch(secret, {Password.NEXT: None})

    async def finish(self) -> None:
        """Remove the password before."""
        for secret in await self._read():
            if _value(secret, Password.FORMER):
                await self._patch(secret, {Password.FORMER: None})

    async def _read(self) -> list[JSONObject]:
        found = []
        for name in self._names:
            try:
                found.append(await self._client.get(SECRETS, name, self._namespace))
            except NotFound:
                continue
        return found

    async def _patch(self, secret: JSONObject, values: Mapping[str, bytes | None]) -> None:
        metadata = secret["metadata"]
        data = {
            name: base64.b64encode(value).decode() if value is not None else None
            for name, value in values.items()
        }
        patch = {"metadata": {"resourceVersion": metadata.get("resourceVersion")}, "data": data}
        await self._client.patch(SECRETS, metadata["name"], patch, self._namespace)


async def repositories_in(
    location: BackupStorageLocation, store: BackupStore, *, more_restic: Collection[str] = ()
) -> dict[str, Repository]:
    """The repositories in a location, by a title for messages.

    Args:
        more_restic: namespaces with restic repositories outside of the location (`resticRepoPrefix`).

    Raises:
        StorageError: the location cannot be read, or can only be read.
        UploaderError: it cannot have the repositories that it has.
    """
    name, tenant = location.metadata.name, tenant_of(location.metadata)
    found = {uploader: set(await store.repository_namespaces(uploader)) for uploader in (RESTIC, KOPIA)}
    found[RESTIC] |= set(more_restic)
    if tenant:
        found = {uploader: names & {tenant} for uploader, names in found.items()}
    if any(found.values()) and location.spec.access_mode == BackupStorageLocationAccessMode.READ_ONLY:
        raise InvalidLocation(f"location {name} has repositories and is ReadOnly: make it ReadWrite first")
    region = ""
    if found[RESTIC] and needs_region(location):
        region = await find_region(location)
    return {
        f"{uploader} repository of namespace {namespace} in location {name}": Repository(
            identifier=repository_identifier(location, namespace, bucket_region=region)
            if uploader == RESTIC
            else "",
            location=name,
            namespace=namespace,
            uploader=uploader,
        )
        for uploader, namespaces in found.items()
        for namespace in sorted(namespaces)
    }


def _value(secret: JSONObject, password: Password) -> bytes:
    try:
        return base64.b64decode(str(mapping(secret, "data").get(password) or ""), validate=True).strip()
    except binascii.Error:
        return b""


async def change_stored(
    stored: StoredPasswords,
    given: bytes | None,
    find: Callable[[], Awaitable[KeyedRepositories]],
    say: Say,
    *,
    make: Callable[[], bytes] = new_password,
) -> PasswordOutcome:
    """Change the password of all repositories and of the Secrets.

    Args:
        given: the new password; None for a random one.
        find: the repositories as they are now.

    Raises:
        PasswordRefused, PasswordMissing: nothing was changed.
        KubeError, StorageError, UploaderError: from `find` and the Secrets; call it again to complete it.
    """
    new = await stored.new(given, make)
    repositories = await find()
    await stored.stage(new)
    known = await stored.known()
    outcome = await repositories.add(new, known, say)
    if outcome.failed:
        return outcome
    await stored.switch(new)
    repositories = await find()
    outcome = await repositories.add(new, known)
    failed = {**outcome.failed, **await repositories.remove(new, known)}
    if not failed:
        await stored.finish()
    return PasswordOutcome(outcome.changed, failed, outcome.foreign)


async def change_given(
    repositories: KeyedRepositories, former: bytes, new: bytes, say: Say
) -> PasswordOutcome:
    """Change the password of repositories whose passwords the caller keeps."""
    outcome = await repositories.add(new, [former], say)
    if outcome.failed:
        return outcome
    return PasswordOutcome(outcome.changed, await repositories.remove(new, [former]), outcome.foreign)


def check_new(password: bytes) -> bytes:
    """A password for use, without white space at its ends. Raises PasswordRefused."""
    password = password.strip()
    if password == PUBLIC_PASSWORD:
        raise PasswordRefused("the new password is Velero's default, which everybody knows")
    try:
        text = password.decode()
    except UnicodeDecodeError as error:
        raise PasswordRefused("the new password is not UTF-8") from error
    if len(text) < LEAST_CHARACTERS or not text.isprintable():
        raise PasswordRefused(
            f"the new password must have {LEAST_CHARACTERS} printable characters or more, in one line"
        )
    return password
