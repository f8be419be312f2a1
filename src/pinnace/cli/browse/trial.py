"""`backup verify --restore`: a restore on trial, by the server or, with --location, by the command itself."""

import secrets
from collections.abc import Collection

import orjson

from pinnace.api.objects import JSONObject, text
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.archive.item_index import IndexedItem
from pinnace.browse.checks import Check, CheckResult
from pinnace.cli.browse.opening import Library
from pinnace.cli.browse.requested import STATUS_SECONDS
from pinnace.cli.browse.verify import BackupVerifyOptions
from pinnace.cli.common.cluster import say_cluster
from pinnace.cli.connect import open_cluster
from pinnace.cli.errors import CommandError
from pinnace.cli.guard import complain
from pinnace.client.errors import FileMissing
from pinnace.client.interface import fetch_json
from pinnace.client.location import LocationBackend
from pinnace.client.server_status import ask_server, is_ours
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from pinnace.operations.local import InvalidRun, LocalRun
from pinnace.operations.verification.readiness import WORKLOADS
from pinnace.operations.verification.restorers import LocalRestorer, ServerRestorer
from pinnace.operations.verification.trial import NEVER_TRIED, Restorer, Trial, TrialImpossible
from pinnace.operations.verification.volumes import counted_summary


async def trial_findings(library: Library, name: str, options: BackupVerifyOptions) -> list[Check]:
    """Restore a backup on trial. Returns findings about what became ready. Raises CommandError."""
    namespaces, findings = await _namespaces(library, name, options)
    findings += await _native_snapshots(library, name, namespaces)
    settings = library.settings
    seconds = options.ready_timeout.total_seconds()
    async with open_cluster(settings) as client:
        say_cluster(client, "Restoring on trial into")
        trial = Trial(
            client=client,
            discovery=await Discovery.load(client),
            restorer=await _restorer(library, client, options),
            backup=name,
            run=secrets.token_hex(3),
            namespaces=namespaces,
            ready_seconds=seconds,
            tell=complain,
        )
        try:
            return [*findings, *await trial.findings()]
        except (TrialImpossible, InvalidRun) as error:
            raise CommandError(f"backup {name} cannot be restored on trial: {error}") from error


async def _restorer(library: Library, client: KubeClient, options: BackupVerifyOptions) -> Restorer:
    """Raises CommandError, KubeError."""
    backend, settings = library.backend, library.settings
    if isinstance(backend, LocationBackend):
        return LocalRestorer(
            run=LocalRun(
                client=client,
                location=backend.location,
                store=backend.store,
                namespace=settings.namespace,
                kubeconfig=settings.kubeconfig or "",
                features=settings.features,
            )
        )
    if not is_ours(await ask_server(client, settings.namespace, STATUS_SECONDS)):
        # An old Velero would ignore the rules that keep a trial apart from the originals.
        raise CommandError(
            f"no Pinnace server answers in namespace {settings.namespace}, and a restore on trial needs one;"
            " with --location it needs no server"
        )

    async def results(restore: str) -> JSONObject:
        found = await fetch_json(backend, DownloadTargetKind.RESTORE_RESULTS, restore, library.options)
        return found if isinstance(found, dict) else {}

    return ServerRestorer(
        client=client,
        namespace=settings.namespace,
        limit_seconds=options.ready_timeout.total_seconds(),
        results=results,
    )


async def _namespaces(
    library: Library, name: str, options: BackupVerifyOptions
) -> tuple[list[str], list[Check]]:
    """The namespaces to restore; a finding for each named namespace without workloads in the backup."""
    backup, found = await library.open(name), set[str]()
    wanted = {resource.group_resource for resource in WORKLOADS}
    async for batch in backup.entries():
        found |= {entry.namespace for entry in batch if entry.resource in wanted}
    if not options.include_namespaces:
        return sorted(found - NEVER_TRIED - {library.settings.namespace}), []
    asked = list(dict.fromkeys(options.include_namespaces))
    missing = [
        Check(
            name=f"namespace {each}", result=CheckResult.NOT_CHECKED, details="the backup has no pods in it"
        )
        for each in asked
        if each not in found
    ]
    return [each for each in asked if each in found], missing


async def _native_snapshots(library: Library, name: str, namespaces: Collection[str]) -> list[Check]:
    """A finding for the claims whose volumes have native snapshots, which no trial restores."""
    try:
        stored = await fetch_json(
            library.backend, DownloadTargetKind.BACKUP_VOLUME_SNAPSHOTS, name, library.options
        )
    except FileMissing:
        return []
    volumes = {text(record, "spec", "persistentVolumeName") for record in stored}
    if not volumes:
        return []
    backup, entries = await library.open(name), list[IndexedItem]()
    async for batch in backup.entries():
        entries += [
            entry for entry in batch if entry.resource == CLAIMS.name and entry.namespace in namespaces
        ]
    claims = [
        f"{entry.namespace}/{entry.name}"
        async for entry, content in backup.contents(entries)
        if text(orjson.loads(content), "spec", "volumeName") in volumes
    ]
    if not claims:
        return []
    detail = f"{counted_summary(sorted(claims))}: a trial gives these claims new and empty volumes"
    return [Check(name="trial of native snapshots", result=CheckResult.NOT_CHECKED, details=detail)]
