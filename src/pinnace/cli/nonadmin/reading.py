"""The work of `nonadmin ... get|describe|logs`."""

import asyncio
import sys
from collections.abc import Sequence

import click

from pinnace.api import phases
from pinnace.api.labels import KEY_FILES
from pinnace.api.objects import JSONObject, listed, mapping, member, text
from pinnace.api.velero.download_request import OF_RESTORES, DownloadTargetKind, decode_key_files
from pinnace.cli.backends import encryption_of
from pinnace.cli.common.get import check_one_way
from pinnace.cli.common.options import GetOptions, LogsOptions
from pinnace.cli.connect import caller, command_line, pasteable, run_async, settings_of
from pinnace.cli.errors import PlainError
from pinnace.cli.guard import PrintableBytes, complain, printable
from pinnace.cli.nonadmin.commands import TenantDescribeOptions
from pinnace.cli.nonadmin.kinds import KINDS, Home, TenantKind, open_home
from pinnace.cli.output import cells
from pinnace.cli.output.layout import Sheet
from pinnace.cli.output.printing import OutputFlags, encode, in_order, object_list, print_objects
from pinnace.cli.structs import replace
from pinnace.client.errors import ClientError
from pinnace.client.interface import DownloadOptions, fetch
from pinnace.client.server import POLL_SECONDS, OfferedFile, ServerBackend
from pinnace.kube.errors import NotFound
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
    NOT_USED,
)

LOGS = {"backup": DownloadTargetKind.BACKUP_LOG, "restore": DownloadTargetKind.RESTORE_LOG}


async def _found(home: Home, kind: TenantKind, names: Sequence[str], selector: str = "") -> list[JSONObject]:
    """The named requests, or without names all that match. Raises the error of the first that fails."""
    if names:
        backend = TenantBackend(home.client, home.namespace, caller())
        return [await backend.named(kind.resource, name) for name in names]
    return await home.client.list_all(kind.resource, home.namespace, label_selector=selector)


def _say_none(noun: str, namespace: str) -> None:
    complain(f"No {noun}s in namespace {namespace}; --namespace looks into another.")


def get(ctx: click.Context, noun: str, options: GetOptions) -> None:
    """Print the named requests or all of them."""
    output, kind = options.printed(default="table"), KINDS[noun]
    check_one_way(options.names, options.selector)

    output = replace(output, single=len(options.names) == 1)
    if options.watch:
        run_async(_watch(ctx, kind, noun, options, output))
        return

    async def work() -> tuple[list[JSONObject], str]:
        async with open_home(ctx) as home:
            return await _found(home, kind, options.names, options.selector), home.namespace

    objects, namespace = run_async(work())
    if not objects and output.format in ("table", "wide", "name"):
        _say_none(noun, namespace)
    described = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
    shown = in_order([{**described, **obj} for obj in objects], output)
    if output.format == "name":
        for obj in shown:
            click.echo(f"{kind.resource.singular_name}.{kind.resource.group}/{obj['metadata']['name']}")
    elif output.format in ("json", "yaml") and len(shown) != 1:
        wrapped = object_list(shown, f"{kind.resource.kind}List")
        click.echo(encode({**wrapped, "apiVersion": kind.resource.api_version}, output.format))
    else:
        print_objects(shown, kind.table(), output)


async def _watch(
    ctx: click.Context, kind: TenantKind, noun: str, options: GetOptions, output: OutputFlags
) -> None:
    """Print the requests, then each one that changes, until the command is interrupted."""
    from pinnace.cli.common.following import Followed, follow

    async with open_home(ctx) as home:
        if not await _found(home, kind, options.names, options.selector):
            _say_none(noun, home.namespace)
        followed = Followed(
            resource=kind.resource,
            namespace=home.namespace,
            noun=noun,
            names=options.names,
            selector=options.selector,
        )
        await follow(home.client, followed, kind.table, output)


def describe(ctx: click.Context, noun: str, options: TenantDescribeOptions) -> None:
    """Print the descriptions of the named requests or of all."""
    kind = KINDS[noun]

    async def work() -> list[JSONObject]:
        async with open_home(ctx) as home:
            found = await _found(home, kind, options.names)
            if not found:
                _say_none(noun, home.namespace)
            return found

    texts = [describe_request(obj, kind) for obj in run_async(work())]
    if texts:
        click.echo(printable("\n\n\n".join(texts)))


def describe_request(obj: JSONObject, kind: TenantKind) -> str:
    """The description of a request: what was decided and why, and the state of the server's work."""
    sheet, status = Sheet(), mapping(obj, "status")
    served = mapping(status, kind.mirror, "status")
    sheet.field("Name", text(obj, "metadata", "name"))
    sheet.field("Namespace", text(obj, "metadata", "namespace"))
    sheet.mapping("Labels", mapping(obj, "metadata", "labels"))
    sheet.line()
    sheet.field("Request", text(status, "phase") or "New")
    sheet.field("Status", text(served, "phase") or "<none>")
    if (position := member(status, "queueInfo", "estimatedQueuePosition")) is not None:
        sheet.field("Queue position", position)
    for name, title in (
        ("startTimestamp", "Started"),
        ("completionTimestamp", "Completed"),
        ("expiration", "Expires"),
    ):
        if text(served, name):
            sheet.field(title, cells.local_time(text(served, name), "<n/a>"))
    for name in ("errors", "warnings"):
        if member(served, name):
            sheet.field(name.capitalize(), member(served, name))
    for problem in (
        *filter(None, (text(served, "failureReason"),)),
        *listed(served, "validationErrors"),
        *listed(status, "veleroDeleteBackupRequest", "status", "errors"),
    ):
        sheet.field("Problem", problem)
    sheet.line()
    sheet.line("Conditions:")
    for each in listed(status, "conditions"):
        what = f"{text(each, 'type')}={text(each, 'status')}"
        sheet.line(f"\t{what}\t{text(each, 'reason')}\t{text(each, 'message')}")
    sheet.line()
    sheet.line("Spec:")
    sheet.line(encode(mapping(obj, "spec", kind.spec), "yaml").rstrip())
    return sheet.render()


def logs(ctx: click.Context, noun: str, options: LogsOptions) -> None:
    """Stream the log of a finished backup or restore to stdout."""
    kind, (name,) = KINDS[noun], options.names
    download = DownloadOptions(
        timeout_seconds=options.timeout.total_seconds(),
        ca_cert=options.cacert or settings_of(ctx).ca_cert,
        insecure=options.insecure_skip_tls_verify,
    )

    async def work() -> None:
        async with open_home(ctx) as home:
            (obj,) = await _found(home, kind, (name,))
            phase = text(obj, "status", kind.mirror, "status", "phase")
            if phase == "FailedValidation":
                describe_it = command_line(settings_of(ctx), "nonadmin", noun, "describe", name)
                raise PlainError(f'The {noun} "{name}" was refused and has no log: `{describe_it}` says why.')
            if phase not in phases.ENDED:
                raise PlainError(f'The log of {noun} "{name}" is not available until it has finished.')
            encryption = encryption_of(settings_of(ctx))
            backend = TenantBackend(home.client, home.namespace, caller(), encryption=encryption)
            sink = PrintableBytes(sys.stdout.buffer)
            await fetch(backend, LOGS[noun], name, download, sink)
            sink.end()

    run_async(work())


def _refusal(request: JSONObject) -> str:
    """Why a download was refused."""
    conditions = listed(request, "status", "conditions")
    if any(text(each, "type") == NOT_USED for each in conditions):
        return (
            "it is in the administrator's storage location, and tenants download nothing from there: ask the "
            "administrator for it. Logs can be read of backups into a storage location of your own "
            f"({pasteable('`nonadmin storage-location create --help`')})"
        )
    return "; ".join(text(each, "message") for each in conditions)


class TenantBackend(ServerBackend):
    """Fetches files by NonAdminDownloadRequests in the tenant's own namespace. (docs/spec: NAC 13)"""

    async def absence(self) -> str:
        """Return an empty text: the server is in a namespace that tenants cannot read."""
        return ""

    async def _answer(self, kind: DownloadTargetKind, name: str) -> OfferedFile:
        """The server's offer; it is not looked for, as it is not in the tenant's namespace."""
        return await self._requested(kind, name)

    @property
    def _causes_of_silence(self) -> str:
        return (
            "can the server open the storage location "
            f"({pasteable('`nonadmin storage-location describe`')})? Ask the "
            "administrator whether it is running."
        )

    async def _location_of(self, kind: DownloadTargetKind, name: str) -> JSONObject:
        """The tenant's own location; the administrator's is in a namespace that tenants cannot read."""
        backup_name = name
        if kind in OF_RESTORES:
            restore = await self.client.get(NON_ADMIN_RESTORES, name, self.namespace)
            backup_name = text(restore, "spec", "restoreSpec", "backupName")
        backup = await self.client.get(NON_ADMIN_BACKUPS, backup_name, self.namespace)
        where = text(backup, "spec", "backupSpec", "storageLocation")
        found = await self.client.get(NON_ADMIN_LOCATIONS, where, self.namespace)
        return {"metadata": {"name": where}, "spec": mapping(found, "spec", "backupStorageLocationSpec")}

    async def _requested(self, kind: DownloadTargetKind, name: str) -> OfferedFile:
        """Ask for a URL and wait for it. The request is deleted at the end; the caller sets the deadline."""
        import secrets  # loads hash functions, and most commands read no file

        request = {
            "apiVersion": NON_ADMIN_DOWNLOADS.api_version,
            "kind": NON_ADMIN_DOWNLOADS.kind,
            "metadata": {
                "name": f"{name[:220].rstrip('-.')}-{secrets.token_hex(4)}",
                "namespace": self.namespace,
            },
            "spec": {"target": {"kind": str(kind), "name": name}},
        }
        seen = await self.client.create(NON_ADMIN_DOWNLOADS, request, self.namespace)
        own = text(seen, "metadata", "name")
        try:
            while not (url := text(seen, "status", "velero", "status", "downloadURL")):
                if text(seen, "status", "phase") == "BackingOff":
                    raise ClientError(f"the log of {name} cannot be downloaded: {_refusal(seen)}")
                await asyncio.sleep(POLL_SECONDS)
                seen = await self.client.get(NON_ADMIN_DOWNLOADS, own, self.namespace)
            key_files = decode_key_files(text(seen, "metadata", "annotations", KEY_FILES))
            backup = ""
            if key_files and kind not in OF_RESTORES:
                # The name in the location, which the key files know.
                own_backup = await self.client.get(NON_ADMIN_BACKUPS, name, self.namespace)
                backup = text(own_backup, "status", "veleroBackup", "name")
            return OfferedFile(url, key_files, backup)
        finally:
            await self._delete_request(own)

    async def _delete_request(self, name: str) -> None:
        try:
            await self.client.delete(NON_ADMIN_DOWNLOADS, name, self.namespace)
        except NotFound:
            return
