"""Checks locations: the server looks at each now, and a small file is written, read and deleted from here.

What a server has found out before says nothing about now, so it is never the only reason for an OK.
(docs/adr/103)
"""

import asyncio
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as replace_dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.values.counts import first_names
from pinnace.api.values.relative_times import relative_time
from pinnace.api.values.shell_words import argument
from pinnace.api.velero.storage_location import BackupStorageLocation, SecretKeySelector
from pinnace.controllers.shared.locations import LocationStores
from pinnace.doctor.clocks import read_store_time
from pinnace.doctor.cloud_credentials import trouble_of
from pinnace.doctor.encryption import EncryptionLook, look_at_encryption
from pinnace.doctor.findings import Finding, ok, problem, skipped, warning
from pinnace.doctor.looking import SeenLocation, last_look
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import SECRETS
from pinnace.notices.codes import Code
from pinnace.operations.workdir import work_directory
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError, StoreUnavailable
from pinnace.storage.providers import FILESYSTEM, PROVIDERS, qualified_provider

CHECK = "locations"
PROBE_SECONDS = 30.0
_RECREATE_IT = "make the Secret again, or name another one: `backup-location set --help`"
_REMEDIES = (
    (
        r"no space left|disk quota is used up",
        "make room on that disk: delete what is not needed, or enlarge it",
    ),
    (r"file system is read-only", "mount it writable"),
    (r"invalid top-level directories", "name an empty folder, or a prefix for backups alone"),
    (r"Secret \"[^\"]*\" not found", _RECREATE_IT),
    (
        r"has no object lock|hold no objects",
        "name a bucket that was made with object lock, or remove objectLock.mode from the settings",
    ),
    (
        r"for its object lock",
        "give the credentials the rights that the page about object lock names, such as"
        " s3:GetBucketObjectLockConfiguration",
    ),
    (r"cannot reach|no answer|did not answer", "see that the store runs, and that its address is right"),
)
"""A pattern of the message of a location that cannot be used, and what helps."""
_SHOWN: Final = 5
"""Names of backups in a finding."""

_SERVERS_SECRET, _SERVERS_KEY = "cloud-credentials", "cloud"
"""Where `install` puts the credentials of locations that name none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The result of writing and reading.

    Attributes:
        problem: the error; empty if all went well.
        unreachable: whether the store cannot be reached from here, which says nothing about the server.
        untried: why the location was not tried at all, with the credentials of the server.
        secret_missing: whether the problem is a Secret, or a key of one, that does not exist.
        store_time: the time by the clock of the store.
        locks: the number of restic's locks in each repository.
        vanished: signed backups that nobody with the signing key has removed, and that are gone.
        unsigned: backups that are refused, as nobody has signed them.
        encryption: None if the location makes plain backups, or cannot be used.
    """

    problem: str = ""
    unreachable: bool = False
    untried: str = ""
    secret_missing: bool = False
    read_only: bool = False
    store_time: datetime | None = None
    locks: dict[str, int] | None = None
    vanished: tuple[str, ...] = ()
    unsigned: tuple[str, ...] = ()
    encryption: EncryptionLook | None = None


async def probe_store(store: BackupStore) -> Probe:
    """List the location; write, read and delete a file unless it is read-only; count the locks.

    A location that can be used is looked at for its encryption, too.
    """
    probe = await _probe_files(store)
    return probe if probe.problem else replace_dataclass(probe, encryption=await look_at_encryption(store))


async def _probe_files(store: BackupStore) -> Probe:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await store.validate()
            locks = await store.count_restic_locks()
            vanished = tuple(link.backup for link in await store.vanished())
            unsigned = tuple(await store.refused_for_no_manifest())
            found = Probe(locks=locks, vanished=vanished, unsigned=unsigned)
            if store.read_only:
                return replace_dataclass(found, read_only=True)
            async with store.probe(secrets.token_hex(8)) as url:
                return replace_dataclass(found, store_time=await read_store_time(url))
    except TimeoutError:
        return Probe(problem=f"no answer within {PROBE_SECONDS:g} seconds", unreachable=True)
    except StoreUnavailable as error:
        return Probe(problem=str(error), unreachable=True)
    except StorageError as error:
        return Probe(problem=str(error) or type(error).__name__)


async def probe_location(client: KubeClient, namespace: str, location: JSONObject) -> Probe:
    """Probe a location of a server from here, with the credentials that the server has."""
    provider = text(location, "spec", "provider")
    if provider in FILESYSTEM:
        return Probe(untried="it is a folder of the server's machine")
    try:
        decoded = decode(BackupStorageLocation, location)
        if missing := await _missing_secret(client, namespace, decoded):
            return Probe(problem=missing, secret_missing=True)
        decoded, is_servers = await _with_servers_credentials(client, namespace, decoded)
        async with (
            work_directory(None) as folder,
            LocationStores(client, namespace, folder).open_location(decoded) as store,
        ):
            probe = await probe_store(store)
    except DecodeError as error:
        return Probe(problem=str(error))
    except KubeError as error:
        return Probe(untried=str(error))
    except StorageError as error:
        has_plugin = qualified_provider(provider) not in PROVIDERS
        return Probe(untried=str(error)) if has_plugin else Probe(problem=str(error))
    if probe.problem and not is_servers:  # those of this machine are refused, or there are none
        return Probe(untried=f"the server's credentials are not in a Secret: {probe.problem}")
    return probe


async def _missing_secret(client: KubeClient, namespace: str, location: BackupStorageLocation) -> str:
    """The Secret, or its key, that the location names and the cluster lacks; empty if it lacks none.

    Raises:
        KubeError: it may not be read.
    """
    for selector in (location.spec.credential, location.spec.object_storage.ca_cert_ref):
        if selector is None or not selector.name:
            continue
        try:
            secret = await client.get(SECRETS, selector.name, namespace)
        except NotFound:
            return f"Secret {selector.name}, which it names, does not exist in namespace {namespace}"
        if selector.key not in mapping(secret, "data"):
            return f"Secret {selector.name}, which it names, has no key {selector.key}"
    return ""


async def _with_servers_credentials(
    client: KubeClient, namespace: str, location: BackupStorageLocation
) -> tuple[BackupStorageLocation, bool]:
    """The location with the Secret that the server uses, and whether there is one."""
    if location.spec.credential is not None and location.spec.credential.name:
        return location, True
    try:
        await client.get(SECRETS, _SERVERS_SECRET, namespace)
    except NotFound:
        return location, False
    selector = SecretKeySelector(name=_SERVERS_SECRET, key=_SERVERS_KEY)
    return replace(location, spec=replace(location.spec, credential=selector)), True


def judge_servers(
    looks: Mapping[str, SeenLocation], probes: Mapping[str, Probe], now: datetime
) -> list[Finding]:
    """A finding for each location of a server, and one if none is the default.

    Args:
        looks: by name of the location, as are the probes.
    """
    if not looks:
        return [
            problem(
                CHECK,
                "there is no backup storage location",
                "make one, backups need it: `backup-location create --help`",
                code=Code.LOCATION_MISSING,
            )
        ]
    findings = [_of_server(look, probes[name], now) for name, look in looks.items()]
    defaults = [one for one in looks.values() if mapping(one.location, "spec").get("default")]
    if len(defaults) != 1:
        said = "no location is the default" if not defaults else f"{len(defaults)} locations are the default"
        remedy = (
            "`backup-location set NAME --default` chooses one; without it each backup must name its location"
        )
        findings.append(warning(CHECK, said, remedy, code=Code.LOCATION_DEFAULT))
    return findings


def _of_server(look: SeenLocation, probe: Probe, now: datetime) -> Finding:
    name = look.location["metadata"]["name"]
    status = mapping(look.location, "status")
    phase, last = status.get("phase"), last_look(look.location)
    when = "just now" if not look.stale else f"{relative_time(last, now)}" if last else "at no known time"
    if phase == "Unavailable":
        why = status.get("message") or "its log says why"
        trouble = trouble_of(why)
        said = f"{trouble.text} ({why})" if trouble is not None else why
        remedy = trouble.remedy if trouble is not None else _remedy(why) or _fix(name)
        said = f"the server cannot use {name}, it looked {when}: {said}"
        return problem(CHECK, said, remedy, code=Code.LOCATION_UNAVAILABLE)
    if trouble_of(probe.untried or probe.problem) is not None or (probe.problem and not probe.unreachable):
        return judge_probe(name, probe)
    if not phase:
        remedy = "is one running in this namespace?"
        return problem(CHECK, f"no server has looked at {name} yet", remedy, code=Code.LOCATION_NOT_CONFIRMED)
    if not (probe.untried or probe.unreachable):
        return judge_probe(name, probe)
    if look.stale:
        said = (
            f"nothing shows that {name} can be used now: {look.stale}; it was {phase} {when}, and could"
            f" not be tried from here: {probe.untried or probe.problem}"
        )
        remedy = "see that a server runs, and that the store answers; then ask again"
        return problem(CHECK, said, remedy, code=Code.LOCATION_NOT_CONFIRMED)
    if probe.untried:
        return ok(
            CHECK, f"the server can use {name}, it looked just now; not written to from here: {probe.untried}"
        )
    said = f"the server can use {name}, it looked just now; it cannot be reached from here: {probe.problem}"
    remedy = "downloads (logs, details of descriptions) need it reachable from here"
    return skipped(CHECK, said, remedy, code=Code.LOCATION_UNREACHABLE_FROM_HERE)


def _remedy(message: str) -> str:
    """What helps against a cause that is neither address nor credentials; empty for others."""
    return next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, message)), "")


def _fix(name: str) -> str:
    return f"fix bucket, credentials or settings (`backup-location describe {argument(name)}` shows them)"


def judge_probe(name: str, probe: Probe) -> Finding:
    """The finding for one location that was probed."""
    why = probe.problem or probe.untried
    if (trouble := trouble_of(why)) is not None:
        said = f"{name} cannot be used: {trouble.text} ({why})"
        return problem(CHECK, said, trouble.remedy, code=Code.LOCATION_UNUSABLE)
    if probe.secret_missing:
        said = f"{name} cannot be used: {probe.problem}"
        return problem(CHECK, said, _RECREATE_IT, code=Code.LOCATION_SECRET_MISSING)
    if probe.problem:
        return problem(
            CHECK,
            f"{name} cannot be used: {probe.problem}",
            _remedy(probe.problem)
            or "fix the address, the credentials or their rights: list, read, write and delete are needed",
            code=Code.LOCATION_UNUSABLE,
        )
    if probe.vanished:
        return problem(
            CHECK,
            f"signed backups have vanished from {name}: {', '.join(probe.vanished)}",
            "get them back from a copy or an older version of the bucket, and see who can delete there",
            code=Code.SIGNED_BACKUP_VANISHED,
        )
    if probe.unsigned:
        return warning(
            CHECK,
            f"backups in {name} are not signed, and refused: {first_names(probe.unsigned, _SHOWN)}",
            "find out who has made them, or has removed their manifests; then delete them",
            code=Code.BACKUPS_NOT_SIGNED,
        )
    if probe.read_only:
        return ok(CHECK, f"{name} can be listed; it is read-only, so nothing was written")
    return ok(CHECK, f"files in {name} can be listed, written, read and deleted")
