"""Implements `backup verify`."""

from collections.abc import Sequence

import click

from pinnace.api.objects import JSONObject, member
from pinnace.browse.verifying import Finding, Result, verify
from pinnace.cli.backend.location import LocationBackend, UnreadableMetadata
from pinnace.cli.browse.opening import Library, browse
from pinnace.cli.browse.options import VerifyOptions
from pinnace.cli.browse.requested import VerifyingServer, verifying_server
from pinnace.cli.browse.rows import check_format, print_data, print_table
from pinnace.cli.browse.trial import trial_findings
from pinnace.cli.browse.volumes import check_volume_options, volume_lookup
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.kinds import BACKUP

SOUND, UNSOUND = 0, 1


def verify_backups(ctx: click.Context, options: VerifyOptions) -> int:
    """Check backups and print what was found. Returns 1 if one of them cannot be relied upon."""
    form = check_format(options.output_format, ("table", "json", "yaml"))
    if bool(options.names) == options.all:
        raise InvalidInput("give the names of backups, or --all")
    if options.include_namespaces and not options.restore:
        raise InvalidInput("--include-namespaces is for --restore")
    check_volume_options(ctx, options)

    async def work(library: Library) -> dict[str, list[Finding]]:
        names = options.names or await _all_names(library)
        if isinstance(library.backend, LocationBackend):
            return {name: await _verified(library, name, options) for name in names}
        async with verifying_server(library.settings, options.read_data) as server:
            if isinstance(server, str) and options.read_data:
                raise CommandError(f"--read-data needs --location, or a server: {server}")
            return {name: await _verified(library, name, options, server) for name in names}

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


async def _all_names(library: Library) -> list[str]:
    """All finished backups, oldest first, then those whose metadata cannot be read."""
    names = [backup["metadata"]["name"] for backup in await library.all()]
    if isinstance(library.backend, LocationBackend):
        names += await library.backend.unreadable(BACKUP.plural, besides=names)
    return names


async def _verified(
    library: Library, name: str, options: VerifyOptions, server: VerifyingServer | str = ""
) -> list[Finding]:
    """The findings about one backup.

    Args:
        server: the server that verifies it; or why none does, so that the command reads its files.
    """
    try:
        backup = await library.open(name)
        metadata = await library.backend.object(BACKUP.plural, name)
    except UnreadableMetadata as error:
        return [Finding(check="metadata", result=Result.BAD, detail=str(error))]
    if isinstance(server, VerifyingServer):
        findings = await server.findings(name)
    else:
        findings = await verify(backup, metadata)
        backup.close()  # with --all there may be no room for all tarballs
        findings += await _volumes(library, name, metadata, options, server)
    if not options.restore:
        return findings
    if any(finding.is_problem for finding in findings):
        detail = "not tried, as the backup is not sound"
        return [*findings, Finding(check="trial restore", result=Result.UNCHECKED, detail=detail)]
    return [*findings, *await trial_findings(library, name, options)]


async def _volumes(
    library: Library, name: str, metadata: JSONObject, options: VerifyOptions, no_server: str
) -> list[Finding]:
    """Look for the data of volumes. Data that cannot be read from here is counted as not checked.

    Args:
        no_server: why no server looks for it.
    """
    backend = library.backend
    if isinstance(backend, LocationBackend):
        async with volume_lookup(library.settings, backend, options) as lookup:
            return await lookup.findings(name)
    counts = {
        "pod volumes": len(await backend.volumes_of(name)),
        "native snapshots": _count(metadata, "volumeSnapshotsCompleted"),
        "CSI snapshots": _count(metadata, "csiVolumeSnapshotsCompleted"),
        "moved volumes": _count(metadata, "backupItemOperationsCompleted"),
    }
    found = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    if not found:
        return []
    detail = f"{found}: {no_server}; look at them with --location"
    return [Finding(check="volumes", result=Result.UNCHECKED, detail=detail)]


def _count(metadata: JSONObject, field: str) -> int:
    value = member(metadata, "status", field)
    return value if isinstance(value, int) else 0
