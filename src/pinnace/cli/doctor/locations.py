"""Checks locations: a small file is written, read back and deleted in each."""

import asyncio
import secrets
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject, mapping
from pinnace.api.values.shell_words import argument
from pinnace.api.velero.storage_location import BackupStorageLocation, SecretKeySelector
from pinnace.cli.doctor.clocks import read_store_time
from pinnace.cli.doctor.cloud_credentials import trouble_of
from pinnace.cli.doctor.findings import Finding, ok, problem, skipped, warning
from pinnace.cli.install.checks import FILESYSTEM
from pinnace.controllers.shared.locations import LocationStores
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import SECRETS
from pinnace.operations.workdir import work_directory
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError, StoreUnavailable

CHECK = "locations"
PROBE_SECONDS = 30.0
_SERVERS_SECRET, _SERVERS_KEY = "cloud-credentials", "cloud"
"""Where `install` puts the credentials of locations that name none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The result of writing and reading.

    Attributes:
        problem: the error; empty if all went well.
        unreachable: whether the store cannot be reached from here, which says nothing about the server.
        untried: why the location was not tried at all.
        store_time: the time by the clock of the store.
        locks: the number of restic's locks in each repository.
    """

    problem: str = ""
    unreachable: bool = False
    untried: str = ""
    read_only: bool = False
    store_time: datetime | None = None
    locks: dict[str, int] | None = None


async def probe_store(store: BackupStore) -> Probe:
    """List the location; write, read and delete a file unless it is read-only; count the locks."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await store.validate()
            locks = await store.count_restic_locks()
            if store.read_only:
                return Probe(read_only=True, locks=locks)
            async with store.probe(secrets.token_hex(8)) as url:
                return Probe(store_time=await read_store_time(url), locks=locks)
    except TimeoutError:
        return Probe(problem=f"no answer within {PROBE_SECONDS:g} seconds", unreachable=True)
    except StoreUnavailable as error:
        return Probe(problem=str(error), unreachable=True)
    except StorageError as error:
        return Probe(problem=str(error) or type(error).__name__)


async def probe_location(client: KubeClient, namespace: str, location: JSONObject) -> Probe:
    """Probe a location of a server from here, with the credentials that the server has."""
    if mapping(location, "spec").get("provider") in FILESYSTEM:
        return Probe(untried="it is a folder of the server's machine")
    try:
        decoded = await _with_servers_credentials(client, namespace, decode(BackupStorageLocation, location))
        async with (
            work_directory(None) as folder,
            LocationStores(client, namespace, folder).open_location(decoded) as store,
        ):
            return await probe_store(store)
    except DecodeError as error:
        return Probe(problem=str(error))
    except (KubeError, StorageError) as error:
        return Probe(untried=str(error))


async def _with_servers_credentials(
    client: KubeClient, namespace: str, location: BackupStorageLocation
) -> BackupStorageLocation:
    if location.spec.credential is not None:
        return location
    try:
        await client.get(SECRETS, _SERVERS_SECRET, namespace)
    except NotFound:
        return location
    selector = SecretKeySelector(name=_SERVERS_SECRET, key=_SERVERS_KEY)
    return replace(location, spec=replace(location.spec, credential=selector))


def judge_servers(locations: list[JSONObject], probes: dict[str, Probe]) -> list[Finding]:
    """A finding for each location of a server, and one if none is the default."""
    if not locations:
        return [
            problem(
                CHECK,
                "there is no backup storage location",
                "make one, backups need it: `backup-location create --help`",
            )
        ]
    findings = [_of_server(location, probes[location["metadata"]["name"]]) for location in locations]
    defaults = [one for one in locations if mapping(one, "spec").get("default")]
    if len(defaults) != 1:
        text = "no location is the default" if not defaults else f"{len(defaults)} locations are the default"
        remedy = (
            "`backup-location set NAME --default` chooses one; without it each backup must name its location"
        )
        findings.append(warning(CHECK, text, remedy))
    return findings


def _of_server(location: JSONObject, probe: Probe) -> Finding:
    name = location["metadata"]["name"]
    status = mapping(location, "status")
    phase = status.get("phase")
    remedy = f"mend bucket, credentials or settings (`backup-location describe {argument(name)}` shows them)"
    if phase == "Unavailable":
        why = status.get("message") or "its log says why"
        if (trouble := trouble_of(why)) is not None:
            return problem(CHECK, f"the server cannot use {name}: {trouble.text} ({why})", trouble.remedy)
        return problem(CHECK, f"the server cannot use {name}: {why}", remedy)
    if not phase:
        return problem(CHECK, f"no server has looked at {name} yet", "is one running in this namespace?")
    if trouble_of(probe.untried or probe.problem) is not None:
        return judge_probe(name, probe)
    if probe.untried:
        return ok(CHECK, f"the server can use {name}; not written to from here: {probe.untried}")
    if probe.unreachable:
        text = f"the server can use {name}, but it cannot be reached from here: {probe.problem}"
        return skipped(CHECK, text, "downloads (logs, details of descriptions) need it reachable from here")
    return judge_probe(name, probe)


def judge_probe(name: str, probe: Probe) -> Finding:
    """The finding for one location that was probed."""
    why = probe.problem or probe.untried
    if (trouble := trouble_of(why)) is not None:
        return problem(CHECK, f"{name} cannot be used: {trouble.text} ({why})", trouble.remedy)
    if probe.problem:
        return problem(
            CHECK,
            f"{name} cannot be used: {probe.problem}",
            "mend the address, the credentials or their rights: list, read, write and delete are needed",
        )
    if probe.read_only:
        return ok(CHECK, f"{name} can be listed; it is read-only, so nothing was written")
    return ok(CHECK, f"files in {name} can be listed, written, read and deleted")
