"""Implements `backup verify`."""

from collections.abc import Mapping, Sequence

import click

from pinnace.api.objects import JSONObject, member
from pinnace.browse.checks import Check, CheckResult
from pinnace.browse.errors import NoRoom
from pinnace.browse.verifying import verify
from pinnace.cli.browse.opening import Library, browse
from pinnace.cli.browse.requested import VerifyingServer, verifying_server
from pinnace.cli.browse.rows import check_format, print_data, print_table
from pinnace.cli.browse.trial import trial_findings
from pinnace.cli.browse.verify import BackupVerifyOptions
from pinnace.cli.browse.volumes import check_volume_options, volume_lookup
from pinnace.cli.common.get import nothing_found
from pinnace.cli.errors import OPENED_BY, CommandError, InvalidInput, aggregate
from pinnace.cli.guard import complain
from pinnace.cli.kinds import BACKUP
from pinnace.client.errors import ServerAbsent
from pinnace.client.location import LocationBackend, UnreadableMetadata
from pinnace.operations.verification.sealed import NAME as ENCRYPTION
from pinnace.operations.verification.signatures import signature_checks
from pinnace.storage.key_errors import IdentityMissing, IdentityRefused

SOUND, UNSOUND = 0, 1


def verify_backups(ctx: click.Context, options: BackupVerifyOptions) -> int:
    """Check backups and print what was found. Returns 1 if one of them cannot be relied upon."""
    form = check_format(options.output_format, ("table", "json", "yaml"))
    if bool(options.names) == options.all:
        raise InvalidInput("give the names of backups, or --all")
    if options.include_namespaces and not options.restore:
        raise InvalidInput("--include-namespaces is for --restore")
    check_volume_options(ctx, options)

    found: dict[str, list[Check]] = {}

    async def work(library: Library) -> list[str]:
        names = options.names or await _all_names(library)
        if not names:
            complain(await nothing_found(library.backend, BACKUP, ""))
        if isinstance(library.backend, LocationBackend):
            return await _verify_each(library, names, options, found)
        try:
            async with verifying_server(library.settings, options.read_data) as server:
                if isinstance(server, str) and options.read_data:
                    raise CommandError(f"--read-data needs --location, or a server: {server}")
                return await _verify_each(library, names, options, found, server)
        except ServerAbsent as error:
            raise CommandError(
                f"no server can verify backups: {error}. Start the server, or verify without one:"
                " --location URL"
            ) from error

    try:
        unread = browse(ctx, options, work)
    finally:
        if found:  # before an error too: what is known of some backups is not lost with the others
            _print(found, form)
    if not found:
        _print(found, form)
    if unread:
        raise CommandError(aggregate(unread))
    bad = [name for name, findings in found.items() if any(finding.is_problem for finding in findings)]
    return UNSOUND if bad else SOUND


def _print(found: Mapping[str, Sequence[Check]], form: str) -> None:
    if form in ("json", "yaml"):
        print_data([_as_data(name, findings) for name, findings in found.items()], form)
        return
    rows = (
        (name, finding.name, finding.result, finding.details)
        for name, findings in found.items()
        for finding in findings
    )
    print_table(("BACKUP", "CHECK", "RESULT", "DETAILS"), rows)


def _as_data(name: str, findings: Sequence[Check]) -> JSONObject:
    return {
        "backup": name,
        "sound": not any(finding.is_problem or _is_unread(finding) for finding in findings),
        "checks": [
            {"check": finding.name, "result": str(finding.result), "details": finding.details}
            for finding in findings
        ],
    }


def _is_unread(finding: Check) -> bool:
    """Whether nothing is known of the backup's objects: no room for them here, or no identity."""
    return finding.name in ("tarball", ENCRYPTION) and finding.result == CheckResult.NOT_CHECKED


async def _all_names(library: Library) -> list[str]:
    """All finished backups, oldest first, then those whose metadata cannot be read."""
    names = [backup["metadata"]["name"] for backup in await library.all()]
    if isinstance(library.backend, LocationBackend):
        names += await library.backend.unreadable(BACKUP.plural, besides=names)
    return names


async def _verify_each(
    library: Library,
    names: Sequence[str],
    options: BackupVerifyOptions,
    found: dict[str, list[Check]],
    server: VerifyingServer | str = "",
) -> list[str]:
    """Verify backups into `found`. Returns the errors of those that cannot be read here; others may be."""
    errors = []
    for name in names:
        try:
            found[name] = await _verified(library, name, options, server)
        except NoRoom as error:
            found[name] = [Check(name="tarball", result=CheckResult.NOT_CHECKED, details=str(error))]
            errors.append(str(error))
            continue
        errors += [
            f"backup {name} was not verified: {finding.details}"
            for finding in found[name]
            if _is_unread(finding)
        ]
    return errors


async def _verified(
    library: Library, name: str, options: BackupVerifyOptions, server: VerifyingServer | str = ""
) -> list[Check]:
    """The findings about one backup.

    Args:
        server: the server that verifies it; or why none does, so that the command reads its files.
    """
    signature: list[Check] = []
    if isinstance(library.backend, LocationBackend):
        signature = await signature_checks(library.backend.store, name)
    try:
        backup = await library.open(name)
        metadata = await library.backend.object(BACKUP.plural, name)
        if isinstance(library.backend, LocationBackend):
            # As it is stored: everywhere else a backup has the name of its directory, whatever its file says.
            metadata = await library.backend.store.read_raw_backup(name)
    except UnreadableMetadata as error:
        return [*signature, Check(name="metadata", result=CheckResult.BAD, details=str(error))]
    findings = signature
    if isinstance(server, VerifyingServer):
        findings = await server.findings(name)
        if not any(_is_unread(finding) for finding in findings):
            return await _with_trial(library, name, options, findings)
        # The command may have an identity, which servers have not.
        findings = [finding for finding in findings if not _is_unread(finding)]
        server = "the server has no identity that opens the backup"
    try:
        findings = [*findings, *await verify(backup, metadata)]
        backup.close()  # with --all there may be no room for all tarballs
        findings += await _volumes(library, name, metadata, options, server)
    except (IdentityMissing, IdentityRefused) as error:
        reason = f"{error.reason}{OPENED_BY if isinstance(error, IdentityMissing) else ''}"
        return [*findings, Check(name=ENCRYPTION, result=CheckResult.NOT_CHECKED, details=reason)]
    return await _with_trial(library, name, options, findings)


async def _with_trial(
    library: Library, name: str, options: BackupVerifyOptions, findings: list[Check]
) -> list[Check]:
    """The findings about one backup, and those of the trial restore that was asked for."""
    if not options.restore:
        return findings
    if any(finding.is_problem for finding in findings):
        detail = "not tried, as the backup is not sound"
        return [*findings, Check(name="trial restore", result=CheckResult.NOT_CHECKED, details=detail)]
    return [*findings, *await trial_findings(library, name, options)]


async def _volumes(
    library: Library, name: str, metadata: JSONObject, options: BackupVerifyOptions, no_server: str
) -> list[Check]:
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
    return [Check(name="volumes", result=CheckResult.NOT_CHECKED, details=detail)]


def _count(metadata: JSONObject, field: str) -> int:
    value = member(metadata, "status", field)
    return value if isinstance(value, int) else 0
