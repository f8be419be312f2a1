"""Where connections to tenants' stores may go: by every spelling, at the moment of the connection."""

import http.server
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.nonadmin.names import ALLOWED_ENDPOINTS_ANNOTATION, Origin
from pinnace.api.velero.storage_location import (
    BackupStorageLocation,
    BackupStorageLocationSpec,
    ObjectStorageLocation,
)
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError, StoreConfigError
from pinnace.storage.open import open_backup_store
from pinnace.store_access.addresses import (
    Addresses,
    AddressRefused,
    addresses_of,
    literal_address,
    parse_allowed,
)
from pinnace.store_access.requests import RequestPolicy, new_session, send

PUBLIC = "93.184.216.34"
QUICK = RequestPolicy(attempts=1, base_seconds=0.0, request_seconds=20.0)
KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
NOTHING_ALLOWED = Addresses()


@dataclass
class Listener:
    """An HTTP server on the loopback interface, and what was asked of it."""

    port: int
    paths: list[str] = field(default_factory=list)
    redirect_to: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def listening() -> Iterator[Listener]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.paths.append(self.path)
            body = b"" if made.redirect_to else b"internal"
            self.send_response(302 if made.redirect_to else 200)
            if made.redirect_to:
                self.send_header("Location", made.redirect_to)
            self.send_header("ETag", '"x"')
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - the names that the library looks for

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        made = Listener(port=server.server_port)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def listener() -> Iterator[Listener]:
    with listening() as made:
        yield made


@pytest.fixture
def other() -> Iterator[Listener]:
    with listening() as made:
        yield made


def location(url: str, *, allowed: str = "", **config: str) -> BackupStorageLocation:
    """A tenant's."""
    annotations = {Origin.LOCATION.namespace_annotation: "shop", ALLOWED_ENDPOINTS_ANNOTATION: allowed}
    return BackupStorageLocation(
        metadata=ObjectMeta(name="of-shop", namespace="velero", annotations=annotations),
        spec=BackupStorageLocationSpec(
            provider="aws",
            config={"s3Url": url, "region": "r", "s3ForcePathStyle": "true", **config},
            object_storage=ObjectStorageLocation(bucket="bucket", prefix="shop"),
        ),
    )


def opened(given: BackupStorageLocation) -> BackupStore:
    return open_backup_store(given, environ=KEYS)


class TestAddresses:
    @pytest.mark.parametrize(
        "address",
        [
            "127.0.0.1",
            "127.255.0.1",
            "::1",
            "0.0.0.0",
            "::",
            "10.96.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "169.254.169.254",
            "169.254.170.2",
            "fe80::1",
            "fe80::1%eth0",
            "fec0::1",
            "fd00:ec2::254",
            "fc00::1",
            "224.0.0.1",
            "239.1.1.1",
            "ff02::1",
            "255.255.255.255",
            "240.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "192.88.99.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::5db8:d822",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "2001:db8::1",
            "no address",
        ],
    )
    def test_an_internal_address_is_refused(self, address: str) -> None:
        with pytest.raises(AddressRefused, match="internal network") as caught:
            NOTHING_ALLOWED.check("store.example", [PUBLIC, address])
        assert address not in str(caught.value)  # what a name resolves to is not told

    @pytest.mark.parametrize(
        "address", [PUBLIC, "8.8.8.8", "2606:4700::6810:84e5", "64:ff9b::5db8:d822", "::ffff:8.8.8.8"]
    )
    def test_a_public_address_is_allowed(self, address: str) -> None:
        NOTHING_ALLOWED.check("store.example", [address])

    def test_the_clusters_own_networks_are_refused_though_public(self) -> None:
        own = [ipaddress.ip_network("93.184.216.0/24"), ipaddress.ip_network("2606:4700::/32")]
        for address in (PUBLIC, f"::ffff:{PUBLIC}", "2606:4700::1", "64:ff9b::5db8:d822"):
            with pytest.raises(AddressRefused):
                Addresses(own=own).check("node", [address])

    def test_the_administrators_networks_and_hosts_are_allowed(self) -> None:
        allowed = parse_allowed(["10.1.0.0/16", "fd12::/16", "192.168.7.7", "minio.storage.svc"])

        allowed.check("a", ["10.1.2.3", "::ffff:10.1.2.3", "fd12::1", "192.168.7.7"])
        allowed.check("minio.storage.svc", ["10.96.1.1"])
        allowed.check("Bucket.MINIO.storage.svc.", ["127.0.0.1"])
        for host, address in (
            ("a", "10.2.0.1"),
            ("evil-minio.storage.svc", "10.96.1.1"),
            ("svc", "10.9.9.9"),
        ):
            with pytest.raises(AddressRefused):
                allowed.check(host, [address])

    @pytest.mark.parametrize(
        "entry", ["10.0.0.0/33", "10.1.2.3/8", "a b", "*", "*.svc", "0x7f.1", "", "http://a"]
    )
    def test_an_entry_that_is_neither_network_nor_host_is_refused(self, entry: str) -> None:
        with pytest.raises(ValueError, match="the name of a host"):
            parse_allowed([entry])

    @pytest.mark.parametrize(
        ("host", "address"),
        [
            ("127.0.0.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7f000001", "127.0.0.1"),
            ("0x7f.0.0.0x1", "127.0.0.1"),
            ("0177.0.0.1", "127.0.0.1"),
            ("017700000001", "127.0.0.1"),
            ("0", "0.0.0.0"),
            ("[::1]", "::1"),
            ("fe80::1%25eth0", "fe80::1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("example.com", None),
            ("face.feed", None),
        ],
    )
    def test_an_address_is_known_in_every_spelling(self, host: str, address: str | None) -> None:
        assert literal_address(host) == (ipaddress.ip_address(address) if address else None)

    def test_only_a_tenants_location_is_confined(self) -> None:
        given = location("http://a", allowed="10.0.0.0/8,store.svc")
        assert addresses_of(given) == parse_allowed(["10.0.0.0/8", "store.svc"])
        given.metadata.annotations[ALLOWED_ENDPOINTS_ANNOTATION] = "10.0.0.0/8,?"
        with pytest.raises(StoreConfigError, match="not an address, a network"):
            addresses_of(given)
        del given.metadata.annotations[Origin.LOCATION.namespace_annotation]
        assert addresses_of(given) is None


async def no_wait(policy: RequestPolicy, tries: int) -> None:
    """Instead of the pause between two attempts."""


class TestConnections:
    @pytest.fixture(autouse=True)
    def _no_pauses(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(RequestPolicy, "wait", no_wait)

    @pytest.mark.parametrize(
        "host",
        ["127.0.0.1", "localhost", "LOCALHOST.", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]"],
    )
    async def test_no_spelling_of_loopback_is_connected_to(self, listener: Listener, host: str) -> None:
        store = opened(location(f"http://{host}:{listener.port}"))
        async with store:
            with pytest.raises(StorageError):
                await store.list_backups()
            with pytest.raises(StorageError):
                await store.get_metadata("b1")
        assert listener.paths == []

    async def test_a_name_is_resolved_before_it_is_judged(
        self, listener: Listener, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was public when it was looked at, and is not when it is connected to: DNS rebinding."""
        answers = iter([PUBLIC, "127.0.0.1", "127.0.0.1"])
        resolved: list[str] = []

        def getaddrinfo(host: str, port: int, *_: object, **__: object) -> list[Any]:
            if host != "rebinding.example":
                return original(host, port, *_, **__)  # type: ignore[arg-type]
            address = next(answers)
            resolved.append(address)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

        original = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        url = f"http://rebinding.example:{listener.port}"
        assert socket.getaddrinfo("rebinding.example", 80)[0][4][0] == PUBLIC
        async with opened(location(url)) as store:
            with pytest.raises(AddressRefused, match="rebinding"):
                await store.list_backups()
            with pytest.raises(AddressRefused):
                await store.get_metadata("b1")
        assert resolved == [PUBLIC, "127.0.0.1", "127.0.0.1"]
        assert listener.paths == []

    @pytest.mark.parametrize("allowed", ["127.0.0.0/8", "localhost"])
    async def test_what_is_allowed_is_connected_to(self, listener: Listener, allowed: str) -> None:
        async with opened(location(f"http://localhost:{listener.port}", allowed=allowed)) as store:
            assert await store.get_metadata("b1") == b"internal"
        assert listener.paths == ["/bucket/shop/backups/b1/velero-backup.json"]

    async def test_a_redirect_is_not_followed(self, listener: Listener, other: Listener) -> None:
        listener.redirect_to = f"{other.url}/latest/meta-data"
        async with opened(location(listener.url, allowed="127.0.0.0/8")) as store:
            for call in (store.get_metadata("b1"), store.list_backups(), store.exists("b1")):
                with pytest.raises(StorageError):
                    await call
        assert set(listener.paths) == {
            "/bucket/shop/backups/b1/velero-backup.json",
            "/bucket/?delimiter=%2F&encoding-type=url&list-type=2&prefix=shop%2Fbackups%2F",
        }
        assert other.paths == []

    @pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy"])
    async def test_a_proxy_of_the_environment_is_not_a_way_round(
        self, listener: Listener, monkeypatch: pytest.MonkeyPatch, variable: str
    ) -> None:
        monkeypatch.setenv(variable, listener.url)
        async with opened(location("http://internal.invalid")) as store:
            with pytest.raises(StorageError):
                await store.get_metadata("b1")
        assert listener.paths == []

    @pytest.mark.parametrize(
        "region", ["r@127.0.0.1:{port}/", "r.example@127.0.0.1:{port}/?", "127.0.0.1:{port}/#"]
    )
    async def test_a_region_that_hides_a_host_is_no_way_round(self, listener: Listener, region: str) -> None:
        with pytest.raises(StoreConfigError, match="region"):
            opened(location("", region=region.format(port=listener.port)))

    async def test_a_session_without_a_tenant_goes_anywhere(self, listener: Listener) -> None:
        async with new_session(ssl.create_default_context()) as session:
            assert (await send(session, "GET", listener.url, policy=QUICK)).body == b"internal"

    async def test_a_refusal_is_not_tried_again(self, listener: Listener) -> None:
        policy = RequestPolicy(attempts=5, base_seconds=1e6, cap_seconds=1e6)
        async with new_session(ssl.create_default_context(), addresses=NOTHING_ALLOWED) as session:
            with pytest.raises(AddressRefused):
                await send(session, "GET", listener.url, policy=policy)
            assert isinstance(session.connector, aiohttp.TCPConnector)
