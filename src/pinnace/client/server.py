"""Backups and restores as custom resources, files through DownloadRequests. (docs/spec: CLI 10)"""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.values.near import did_you_mean, near_names
from pinnace.api.velero.download_request import (
    OF_RESTORES,
    OF_VELERO_1_6,
    DownloadRequestPhase,
    DownloadTargetKind,
    decode_key_files,
)
from pinnace.client.caller import Caller
from pinnace.client.errors import ClientError, FileNotOffered, NoSuchObject, PartsUnsupported, ServerAbsent
from pinnace.client.interface import DownloadOptions, instead_of
from pinnace.client.lease import absence, unless_absent
from pinnace.kube import errors as kube_errors
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import (
    DOWNLOAD_REQUESTS,
    NAMESPACES,
    SECRETS,
    VOLUME_SNAPSHOT_CONTENTS,
    APIResource,
    velero,
)

if TYPE_CHECKING:  # few files are encrypted
    from pinnace.client.sealed_downloads import ReaderEncryption

POLL_SECONDS = 0.025
LATE_POLL_SECONDS = 0.5
LATE_POLLS = 40
"""After this many polls the answer is late, and the backend looks for the reason."""
URL_KEPT_SECONDS = 300.0
"""How long parts of a file are read by one signed URL, which is valid for twice as long."""


async def created_under(
    client: KubeClient, resource: APIResource, obj: JSONObject, names: Sequence[str]
) -> JSONObject:
    """Create the object in its namespace under the first of the names that is free. Raises KubeError."""
    for name in names:
        metadata = {**obj["metadata"], "name": name}
        try:
            return await client.create(resource, {**obj, "metadata": metadata}, metadata["namespace"])
        except kube_errors.AlreadyExists:
            if name == names[-1]:
                raise
    raise ValueError("no names")


class OfferedFile(msgspec.Struct, frozen=True):
    """A file as a server offers it.

    Attributes:
        url: signed.
        key_files: the contents of those of its backup, the newest first; none if it is plain.
        backup: the name of a backup in its location; empty if it is that of the object.
    """

    url: str
    key_files: tuple[str, ...] = ()
    backup: str = ""


class ServerBackend:
    """Reads the objects of one server's namespace.

    Args:
        encryption: opens encrypted files; without it, none is opened.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        caller: Caller | None = None,
        *,
        encryption: "ReaderEncryption | None" = None,
    ) -> None:
        self.client = client
        self.namespace = namespace
        self._caller = caller or Caller()
        self._encryption = encryption
        self._offers: dict[tuple[str, str], tuple[float, OfferedFile]] = {}
        self._bundles: dict[str, str] = {}
        self._unanswered: dict[str, str] = {}

    async def object(self, plural: str, name: str) -> JSONObject:
        return await self.named(velero(plural), name)

    async def named(self, resource: APIResource, name: str) -> JSONObject:
        """The object of that name, of any kind. Raises KubeError, and NoSuchObject with similar names."""
        try:
            return await self.client.get(resource, name, self.namespace)
        except kube_errors.NotFound as error:
            if not error.reason:
                raise  # the cluster does not serve the kind
            raise NoSuchObject(f"{error}{await self.instead_of(resource, name)}") from error

    @property
    def title(self) -> str:
        """The place of the objects, as messages name it."""
        return f"namespace {self.namespace}"

    async def instead_of(self, resource: APIResource, name: str) -> str:
        """The end of a message that an object was not found: similar names; empty if they cannot be read."""
        try:
            found = await self.client.list_all(resource, self.namespace)
        except kube_errors.KubeError:
            return ""
        names = [obj["metadata"]["name"] for obj in found]
        reason = "" if names else await self.why_empty(resource.name) or self._caller.namespaces
        return instead_of(name, names, resource.name, self.title) + (f": {reason}" if reason else "")

    async def remark(self) -> str:
        return ""  # the server itself looks at its locations

    async def why_empty(self, plural: str) -> str:
        try:
            await self.client.get(NAMESPACES, self.namespace)
        except kube_errors.NotFound:
            try:
                found = await self.client.list_all(NAMESPACES)
            except kube_errors.KubeError:
                return f"namespace {self.namespace} does not exist"
            near = near_names(self.namespace, [obj["metadata"]["name"] for obj in found])
            return f"namespace {self.namespace} does not exist{did_you_mean(near)}"
        except kube_errors.KubeError:
            return ""
        return ""

    async def absence(self) -> str:
        return await absence(self.client, self.namespace)

    async def objects(self, plural: str, selector: str = "") -> list[JSONObject]:
        return await self.client.list_all(velero(plural), self.namespace, label_selector=selector)

    async def volumes_of(self, backup: str) -> list[JSONObject]:
        return await self.objects("podvolumebackups", f"{labels.BACKUP_NAME}={labels.label_value(backup)}")

    async def tarball_bytes(self, backup: str) -> int | None:
        return None

    async def csi_contents_of(self, backup: str) -> list[JSONObject]:
        selector = f"{labels.BACKUP_NAME}={labels.label_value(backup)}"
        try:
            return await self.client.list_all(VOLUME_SNAPSHOT_CONTENTS, label_selector=selector)
        except kube_errors.NotFound:
            # Clusters older than 1.20 know only the version before.
            old = replace(VOLUME_SNAPSHOT_CONTENTS, version="v1beta1")
            return await self.client.list_all(old, label_selector=selector)

    def stored_file(
        self, kind: DownloadTargetKind, name: str, options: DownloadOptions
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._download(kind, name, options)

    @asynccontextmanager
    async def stored_part(
        self, kind: DownloadTargetKind, name: str, span: tuple[int, int], options: DownloadOptions
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        now = asyncio.get_running_loop().time()
        asked, offer = self._offers.get((kind, name), (0.0, OfferedFile("")))
        if not offer.url or now - asked > URL_KEPT_SECONDS:
            offer = await self._offer(kind, name, options)
            self._offers[kind, name] = now, offer
        if offer.key_files:
            raise PartsUnsupported(f"the {kind.words} of {name} is encrypted")
        async with await self._opened(offer, kind, name, options, span) as chunks:
            yield chunks

    @asynccontextmanager
    async def _download(
        self, kind: DownloadTargetKind, name: str, options: DownloadOptions
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        offer = await self._offer(kind, name, options)
        # A slow download is not ended: from here on the timeout is for silence.
        stored = await self._opened(offer, kind, name, options)
        from pinnace.client.sealed_downloads import KeyFilesOf, decrypted
        from pinnace.storage.encryption import Encryption

        encryption = self._encryption or Encryption
        owner = None if kind in OF_RESTORES else offer.backup or name
        keys = KeyFilesOf(name, owner, offer.key_files)
        async with decrypted(stored, kind, keys, encryption) as chunks:
            yield chunks

    async def _opened(
        self,
        offer: OfferedFile,
        kind: DownloadTargetKind,
        name: str,
        options: DownloadOptions,
        span: tuple[int, int] | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        # Loaded here: most commands read no file, and the HTTP library takes longer to load than they do.
        from pinnace.client.signed_files import Trusted, signed_file

        url = offer.url
        # Trusted is --cacert, else also the CA bundle of the location. (docs/spec: BEY 7.3)
        given = options.ca_cert or options.insecure or urlsplit(url).scheme != "https"
        trusted = Trusted(options, "" if given else await self._bundle(kind, name))
        if "#" not in url or span is not None:
            return signed_file(url.partition("#")[0], trusted, span)
        from pinnace.client.signed_files import present
        from pinnace.storage.checked_files import as_signed
        from pinnace.storage.manifest import NOT_SIGNED, ManifestFile

        bare, expected = ManifestFile.of_url(url)
        opening, shown = signed_file(bare, trusted), f"{kind.words} of {name}"
        if expected is None:
            return opening
        if expected != NOT_SIGNED:
            opening = present(opening, shown)
        at_once = kind == DownloadTargetKind.BACKUP_CONTENTS
        return as_signed(shown, opening, expected, at_once=at_once)

    async def _bundle(self, kind: DownloadTargetKind, name: str) -> str:
        """The CA bundle of a file's location as PEM; empty if it has none, or if that may not be read."""
        try:
            location = await self._location_of(kind, name)
            storage = mapping(location, "spec", "objectStorage")
            key = text(location, "metadata", "name")
            if key not in self._bundles:
                self._bundles[key] = await self._read_bundle(storage)
        except (NoSuchObject, kube_errors.KubeError, ValueError):
            return ""  # then the system's certificates have to do, as for any other address
        return self._bundles[key]

    async def _read_bundle(self, storage: JSONObject) -> str:
        encoded, selector = text(storage, "caCert"), mapping(storage, "caCertRef")
        if not encoded and selector:
            secret = await self.client.get(SECRETS, text(selector, "name"), self.namespace)
            encoded = text(secret, "data", text(selector, "key"))
        return base64.b64decode(encoded, validate=True).decode("ascii")

    async def _offer(self, kind: DownloadTargetKind, name: str, options: DownloadOptions) -> OfferedFile:
        if name in self._unanswered:
            # A description needs several files of an object; none of the others would be answered either.
            raise ClientError(self._unanswered[name])
        try:
            async with asyncio.timeout(options.timeout_seconds):
                return await self._answer(kind, name)
        except ServerAbsent as error:
            self._unanswered[name] = (
                f"no server can give out the {kind.words} of {name}: {error}. Start the server, or read"
                f" without one: {await self._without_server(kind, name)}"
            )
            raise ClientError(self._unanswered[name]) from error
        except kube_errors.Invalid as error:
            if kind in OF_VELERO_1_6:
                raise
            raise FileNotOffered(f"the server does not offer the {kind.words} for download") from error
        except TimeoutError as error:
            self._unanswered[name] = (
                f"timed out after {options.timeout_seconds:g}s waiting for the {kind.words} of {name}; "
                f"{self._causes_of_silence}{self._caller.longer}"
            )
            raise ClientError(self._unanswered[name]) from error

    async def _answer(self, kind: DownloadTargetKind, name: str) -> OfferedFile:
        """The server's offer. Raises ServerAbsent soon if there is no server that could make one."""
        return await unless_absent(self.client, self.namespace, self._requested(kind, name))

    async def _without_server(self, kind: DownloadTargetKind, name: str) -> str:
        """The flag that reads the file without a server; its value too, if the location can be read."""
        import shlex

        from pinnace.storage.location_url import url_of

        try:
            url = url_of(await self._location_of(kind, name))
        except (ClientError, kube_errors.KubeError):
            url = ""
        return f"--location {shlex.quote(url)}" if url else "--location URL"

    @property
    def _causes_of_silence(self) -> str:
        """The likely reasons why a download is not answered."""
        return (
            f"is the server in namespace {self.namespace} running? Can it open the storage location "
            f"({self._caller.pasteable('`backup-location get`')})?"
        )

    async def _requested(self, kind: DownloadTargetKind, name: str) -> OfferedFile:
        """Ask the server for a URL and wait for it; the caller holds the deadline."""
        import secrets  # loads hash functions, and most commands read no file

        stamp = SYSTEM_CLOCK.now().strftime("%Y%m%d%H%M%S")
        # The random suffix keeps two requests of one second apart; the head is cut to stay a valid name.
        request_name = f"{name[:220].rstrip('-.')}-{stamp}-{secrets.token_hex(4)}"
        resource = DOWNLOAD_REQUESTS
        request = {
            "apiVersion": "velero.io/v1",
            "kind": "DownloadRequest",
            "metadata": {"name": request_name, "namespace": self.namespace},
            "spec": {"target": {"kind": str(kind), "name": name}},
        }
        created = await self.client.create(resource, request, self.namespace)
        polls = 0
        while not (url := text(created, "status", "downloadURL")):
            if text(created, "status", "phase") == DownloadRequestPhase.FAILED:
                reason = text(created, "status", "message") or "it says why in its log"
                raise ClientError(f"the server cannot give out the {kind.words} of {name}: {reason}")
            polls += 1
            if polls > LATE_POLLS:
                await self._fail_on_obstacle(kind, name)
            await asyncio.sleep(POLL_SECONDS if polls <= LATE_POLLS else LATE_POLL_SECONDS)
            created = await self.client.get(resource, request_name, self.namespace)
        key_files = decode_key_files(text(created, "metadata", "annotations", labels.KEY_FILES))
        return OfferedFile(url, key_files)

    async def _fail_on_obstacle(self, kind: DownloadTargetKind, name: str) -> None:
        """Raise ClientError for a problem that the server retries without reporting it anywhere."""
        from pinnace.api.velero.storage_location import BackupStorageLocationPhase  # few are late

        try:
            location = await self._location_of(kind, name)
        except NoSuchObject as error:
            raise ClientError(f"the server cannot find the {kind.words} of {name}: {error}") from error
        except kube_errors.Forbidden:
            return  # without the right to look, only the server can answer
        status = location.get("status") or {}
        if status.get("phase") == BackupStorageLocationPhase.UNAVAILABLE:
            reason = status.get("message") or "its reason is in the server's log"
            where = text(location, "metadata", "name")
            raise ClientError(
                f'the {kind.words} of {name} lies in backup storage location "{where}", '
                f"which is Unavailable: {reason}"
            )

    async def _location_of(self, kind: DownloadTargetKind, name: str) -> JSONObject:
        """The location that holds a file. Raises NoSuchObject and KubeErrors."""
        backup_name = name
        if kind in OF_RESTORES:
            backup_name = text(await self.object("restores", name), "spec", "backupName")
        backup = await self.object("backups", backup_name)
        return await self.object("backupstoragelocations", text(backup, "spec", "storageLocation"))
