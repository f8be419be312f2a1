"""What `backup verify` does."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

import click

from pinnace.api.objects import JSONObject
from pinnace.archive.errors import ArchiveError
from pinnace.browse.verifying import Finding, Result, verify
from pinnace.cli.backend.location import LocationBackend
from pinnace.cli.browse.opening import Library, browse
from pinnace.cli.browse.options import VerifyOptions
from pinnace.cli.browse.rows import check_format, print_data, print_table
from pinnace.cli.connect import open_cluster
from pinnace.cli.errors import InvalidInput
from pinnace.cli.kinds import BACKUP
from pinnace.csi.stored_data import SavedPodVolume, read_volume_data
from pinnace.kube.errors import ConfigError
from pinnace.operations.deletion import summary
from pinnace.operations.local_deletion import find_password
from pinnace.operations.local_verification import look_up_pod_volumes
from pinnace.storage.errors import StorageError
from pinnace.volumes.uploader.errors import UploaderError
from pinnace.volumes.uploaders import UPLOADERS

SOUND, UNSOUND = 0, 1


def verify_backups(ctx: click.Context, options: VerifyOptions) -> int:
    """Check backups and print what was found. Returns 1 if one of them cannot be relied upon."""
    form = check_format(options.output_format, ("table", "json", "yaml"))
    if bool(options.names) == options.all:
        raise InvalidInput("give the names of backups, or --all")

    async def work(library: Library) -> dict[str, list[Finding]]:
        names = options.names or [backup["metadata"]["name"] for backup in await library.all()]
        return {name: await _verified(library, name, options) for name in names}

    found = browse(ctx, options, work)
    if form in ("json", "yaml"):
        print_data([_as_data(name, findings) for name, findings in found.items()], form)
    else:
        rows = (
            (name, finding.check, finding.result, finding.detail)
            for name, findings in found.items()
            for finding in findings
        )
        print_table(("BACKUP", "CHECK", "RESULT", "DETAILS"), rows)
    bad = [name for name, findings in found.items() if any(finding.is_problem for finding in findings)]
    return UNSOUND if bad else SOUND


def _as_data(name: str, findings: Sequence[Finding]) -> JSONObject:
    return {
        "backup": name,
        "sound": not any(finding.is_problem for finding in findings),
        "checks": [
            {"check": finding.check, "result": str(finding.result), "details": finding.detail}
            for finding in findings
        ],
    }


async def _verified(library: Library, name: str, options: VerifyOptions) -> list[Finding]:
    backup = await library.open(name)
    metadata = await library.backend.object(BACKUP.plural, name)
    findings = await verify(backup, metadata)
    return [*findings, *await _volumes(library, name, options)]


async def _volumes(library: Library, name: str, options: VerifyOptions) -> list[Finding]:
    """Look for the data of volumes. What cannot be looked at from here is named, not passed over."""
    backend = library.backend
    if not isinstance(backend, LocationBackend):
        volumes = await backend.volumes_of(name)
        if not volumes:
            return []
        detail = f"data of {len(volumes)} pod volumes: give the location with --location to look at it"
        return [Finding(check="volumes", result=Result.UNCHECKED, detail=detail)]
    try:
        data = await read_volume_data(backend.store, name, None)
    except (StorageError, ArchiveError) as error:
        return [Finding(check="volumes", result=Result.BAD, detail=f"the records cannot be read: {error}")]
    findings = []
    for uploader in UPLOADERS:
        if saved := [each for each in data.pod_volumes if each.uploader == uploader]:
            findings += await _pod_volumes(library, backend, saved, options)
    others = [
        *(str(each) for each in data.pod_volumes if each.uploader not in UPLOADERS),
        *(str(each) for each in data.csi),
        *(f"volume snapshot {each.status.provider_snapshot_id}" for each in data.native),
        *(f"moved data of {each}" for each in data.moved),
    ]
    if others:
        findings.append(Finding(check="volumes", result=Result.UNCHECKED, detail=summary(others)))
    return findings


async def _pod_volumes(
    library: Library, backend: LocationBackend, saved: list[SavedPodVolume], options: VerifyOptions
) -> list[Finding]:
    """Look for the snapshots of one uploader."""
    uploader = saved[0].uploader
    check = f"{uploader} snapshots"
    async with AsyncExitStack() as stack:
        client = None
        try:
            client = await stack.enter_async_context(open_cluster(library.settings))
        except ConfigError:
            client = None  # the password may come from elsewhere
        password = partial(find_password, options.restic_password_file, client, library.settings.namespace)
        try:
            found = await look_up_pod_volumes(backend.location, saved, password=password)
        except (UploaderError, OSError) as error:
            return [Finding(check=check, result=Result.UNCHECKED, detail=str(error))]
    findings = []
    if found.missing:
        findings.append(Finding(check=check, result=Result.BAD, detail=summary(found.missing)))
    if found.unknown:
        findings.append(Finding(check=check, result=Result.UNCHECKED, detail=summary(found.unknown)))
    return findings or [Finding(check=check, result=Result.OK, detail=f"{len(saved)} snapshots")]
