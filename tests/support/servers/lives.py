"""Lives of a server that is killed again and again."""

from dataclasses import replace
from pathlib import Path

from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket
from pinnace.storage.s3.config import parse_s3_config
from pinnace.storage.s3.store import S3Store
from tests.support.servers.nursery import Nursery, Order, kill
from tests.support.servers.write_gate import WriteGate
from tests.support.waiting import eventually


class Lives:
    """Servers of one namespace, one after the other. The gate that each finds is open."""

    def __init__(self, nursery: Nursery, order: Order, proxies: tuple[FaultProxy, ...]) -> None:
        self._nursery = nursery
        self._order = order
        self._proxies = proxies
        self._pid: int | None = None

    def pass_by(self, gate: WriteGate) -> None:
        """Send the server's requests through this gate from now on."""
        for proxy in self._proxies:
            proxy.rules = gate

    def resume_restores(self) -> None:
        """Let each server resume the Restores of those before it."""
        self._order = replace(self._order, resume_restores=True)

    def add_features(self, *features: str) -> None:
        """Let each server have these features, too."""
        self._order = replace(self._order, features=(*self._order.features, *features))

    def begin(self) -> None:
        """Start a server; it works at once on whatever there is."""
        assert self._pid is None
        self._pid = self._nursery.start(self._order)

    async def end(self) -> None:
        """Kill the server, and wait until its requests have left the proxies."""
        if self._pid is None:
            return
        kill(self._pid)
        self._pid = None

        async def quiet() -> bool:
            return not any(proxy.busy for proxy in self._proxies)

        await eventually(quiet)
        for proxy in self._proxies:
            proxy.exchanges.clear()
        self.pass_by(WriteGate())

    @property
    def log(self) -> str:
        """The logs of all servers."""
        return Path(self._order.log).read_text()


def objects_of(bucket: Bucket) -> S3Store:
    """The bucket's objects, past all gates; the caller closes it."""
    settings = {
        **bucket.location_config,
        "bucket": bucket.name,
        "credentialsFile": str(bucket.server.credentials_file),
    }
    return S3Store(parse_s3_config(settings), environ={})


async def keys_in(bucket: Bucket) -> list[str]:
    """All keys, in order."""
    objects = objects_of(bucket)
    try:
        return sorted(await objects.list_keys(""))
    finally:
        await objects.close()
