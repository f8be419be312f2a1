"""A leader that is paused until another leads, and goes on, writes nothing more: no request of it begins.

Real processes, real SIGSTOP and SIGCONT, in the middle of every kind of work; proxies before API server and
object store count what it sends. (docs/adr/078)
"""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import RequestHead, Rule, RuleList
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.api.codec import decode
from pinnace.api.objects import mapping
from pinnace.api.velero.backup import Backup
from pinnace.controllers.registry import NAMES
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import BACKUPS, LEASES
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS
from pinnace.runtime.lease import SERVER_LEASE
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from tests.support.cluster.crds import ensure_nonadmin_crds
from tests.support.servers.nursery import Nursery, Order, has_ended, kill
from tests.support.servers.sites import Site
from tests.support.servers.write_gate import READS
from tests.support.stores.indexed_backups import config_map, store
from tests.support.waiting import eventually

LEASE_SECONDS = int(os.environ.get("PAUSED_LEASE_SECONDS", "15"))
EXPIRED = "2021-01-01T00:00:00Z"
StartProxy = Callable[[ControlPlane | S3Server], Awaitable[FaultProxy]]

pytestmark = pytest.mark.found("L3", "K-F4")


class PauseAt(RuleList):
    """The rules of the leader's proxies: they pause it when a certain write comes in, and note all writes."""

    def __init__(self, process: int, counted: str, number: int) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.counted = 0
        self.paused = asyncio.Event()
        self._process = process
        self._counted = re.compile(counted)
        self._number = number

    def choose(self, head: RequestHead) -> Rule | None:
        """Let a request through; the counted one pauses the server first."""
        if head.method in READS or "/leases" in head.path:
            return None
        line = f"{head.method} {head.path}"
        self.writes.append(line)
        if self._counted.search(line):
            self.counted += 1
            if self.counted == self._number:
                signal.pidfd_send_signal(self._process, signal.SIGSTOP)
                self.paused.set()
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two servers of one site: the first goes through proxies, the second has no work but to lead."""

    site: Site
    nursery: Nursery
    first: Order
    proxies: tuple[FaultProxy, ...]
    second: Order

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[int]:
        """The first server, once it leads: a pidfd of its process."""
        pid = self.nursery.start(self.first)
        process = os.pidfd_open(pid)
        try:
            await eventually(self._someone_leads)
            yield process
        finally:
            if not has_ended(process):
                kill(pid)
            os.close(process)

    async def paused_at(self, process: int, counted: str, number: int) -> PauseAt:
        """Pause the first server at that write, wait until the second leads, and let the first go on."""
        rules = PauseAt(process, counted, number)
        for proxy in self.proxies:
            proxy.rules = rules
        async with asyncio.timeout(120):
            await rules.paused.wait()
        former = await self.holder()
        other = self.nursery.start(self.second)
        try:

            async def taken() -> bool:
                return await self.holder() not in ("", former)

            await eventually(taken)
            await eventually(self._quiet)
            before = list(rules.writes)
            signal.pidfd_send_signal(process, signal.SIGCONT)
            await eventually(lambda: self._ended(process))
            await eventually(self._quiet)
            rules.writes = rules.writes[len(before) :]
        finally:
            kill(other)
        return rules

    async def holder(self) -> str:
        """The holder of the lease; empty if there is none."""
        try:
            lease = await self.site.client.get(LEASES, SERVER_LEASE, self.site.namespace)
        except NotFound:
            return ""
        return str(mapping(lease, "spec").get("holderIdentity") or "")

    async def _someone_leads(self) -> bool:
        return bool(await self.holder())

    async def _quiet(self) -> bool:
        return not any(proxy.busy for proxy in self.proxies)

    async def _ended(self, process: int) -> bool:
        return has_ended(process)

    @property
    def log(self) -> str:
        """What the first server said."""
        return Path(self.first.log).read_text()


@pytest.fixture
async def pair(
    site: Site,
    control_plane: ControlPlane,
    bucket: Bucket,
    fault_proxy: StartProxy,
    nursery: Nursery,
    tmp_path: Path,
) -> Pair:
    """The servers of the site, whose location `default` is the bucket; none runs yet."""
    cluster, objects = await fault_proxy(control_plane), await fault_proxy(bucket.server)
    config = {**bucket.location_config, "s3Url": objects.url}
    await site.add_bucket(bucket, config=config, backupSyncPeriod="1s")
    (tmp_path / "scratch").mkdir()
    first = Order(
        kubeconfig=str(control_plane.write_kubeconfig(tmp_path / "through-proxy", server=cluster.url)),
        namespace=site.namespace,
        scratch=str(tmp_path / "scratch"),
        log=str(tmp_path / "first.log"),
        lease_seconds=LEASE_SECONDS,
    )
    direct = str(control_plane.write_kubeconfig(tmp_path / "direct", server=control_plane.url))
    second = replace(
        first,
        kubeconfig=direct,
        log=str(tmp_path / "second.log"),
        disabled=tuple(NAMES),
    )
    return Pair(site=site, nursery=nursery, first=first, proxies=(cluster, objects), second=second)


async def stored_backups(site: Site, stored: BackupStore, count: int, *, in_cluster: bool) -> None:
    """Backups with a little content in the location, and their objects."""
    contents = site.folder / "contents.tar.gz"
    contents.write_bytes(b"tarball")
    status = {"phase": "Completed", "startTimestamp": EXPIRED, "completionTimestamp": EXPIRED}
    for number in range(count):
        name = f"b{number}"
        body = {"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": name}, "status": status}
        if in_cluster:
            body = await site.create("backups", name, spec={"storageLocation": "default"}, status=status)
        metadata = encode_metadata(decode(Backup, body))
        await stored.put_backup(BackupFiles(name=name, metadata=metadata, contents=contents))


async def is_known(site: Site, backup: str) -> bool:
    """Whether the location's backup was found."""
    listed = await site.client.list_all(BACKUPS, site.namespace)
    return backup in {obj["metadata"]["name"] for obj in listed}


def assert_nothing_more(pair: Pair, rules: PauseAt, *, total: int) -> None:
    assert rules.counted < total, "it was paused in the middle"
    assert rules.writes == [], f"{len(rules.writes)} writes after another led"
    assert f"lease {pair.site.namespace}/pinnace-server" in pair.log, pair.log
    assert "Traceback" not in pair.log
    assert "content is not that of" not in pair.log


async def test_a_restore(pair: Pair, site: Site, target: str) -> None:
    folder = await site.add_folder("local")
    maps = [config_map(f"map-{number}") for number in range(3000)]
    await asyncio.to_thread(store, folder, "many", maps)
    async with pair.leading() as process:
        await eventually(partial(is_known, site, "many"))
        spec = {"backupName": "many", "namespaceMapping": {"shop": target}}
        await site.create("restores", "r", spec=spec)
        rules = await pair.paused_at(process, rf"POST .*/{target}/configmaps$", 300)

    assert_nothing_more(pair, rules, total=3000)
    assert (await site.get("restores", "r"))["status"]["phase"] == "Failed"


async def test_backups(pair: Pair, site: Site) -> None:
    async with pair.leading() as process:
        for number in range(20):
            await site.create("backups", f"b{number}", spec=site.maps_of())
        rules = await pair.paused_at(process, r"PUT .*\.(json|gz)$", 30)

    assert_nothing_more(pair, rules, total=20 * 8)


async def test_a_deletion(pair: Pair, site: Site, stored: BackupStore) -> None:
    await stored_backups(site, stored, 20, in_cluster=True)
    async with pair.leading() as process:
        for number in range(20):
            uid = (await site.get("backups", f"b{number}"))["metadata"]["uid"]
            marks = {"velero.io/backup-name": f"b{number}", "velero.io/backup-uid": uid}
            await site.create(
                "deletebackuprequests", f"d{number}", labels=marks, spec={"backupName": f"b{number}"}
            )
        rules = await pair.paused_at(process, r"(DELETE|POST) /[^/]+/site/|\?delete", 10)

    assert_nothing_more(pair, rules, total=20 * 3)


async def test_an_expiry(pair: Pair, site: Site) -> None:
    status = {"phase": "Completed", "startTimestamp": EXPIRED, "completionTimestamp": EXPIRED}
    for number in range(100):
        await site.create(
            "backups",
            f"b{number}",
            spec={"storageLocation": "default"},
            status={**status, "expiration": EXPIRED},
        )
    async with pair.leading() as process:
        rules = await pair.paused_at(process, "POST .*/deletebackuprequests$", 20)

    assert_nothing_more(pair, rules, total=100)


async def test_a_sync(pair: Pair, site: Site, stored: BackupStore) -> None:
    await stored_backups(site, stored, 60, in_cluster=False)
    async with pair.leading() as process:
        rules = await pair.paused_at(process, "POST .*/backups$", 20)

    assert_nothing_more(pair, rules, total=60)


async def test_schedules(pair: Pair, site: Site) -> None:
    template = site.maps_of(includedResources=["secrets"])
    for number in range(40):
        spec = {"schedule": "@every 24h", "template": template}
        await site.create("schedules", f"s{number}", spec=spec, status={"lastBackup": EXPIRED})
    async with pair.leading() as process:
        rules = await pair.paused_at(process, "POST .*/backups$", 10)

    assert_nothing_more(pair, rules, total=40)


async def test_self_service(pair: Pair, site: Site, target: str) -> None:
    await ensure_nonadmin_crds(site.client)
    pair = replace(pair, first=replace(pair.first, features=("NonAdmin",)))
    async with pair.leading() as process:
        for number in range(20):
            body = {
                "apiVersion": NON_ADMIN_BACKUPS.api_version,
                "kind": NON_ADMIN_BACKUPS.kind,
                "metadata": {"name": f"n{number}", "namespace": target},
                "spec": {"backupSpec": {}},
            }
            await site.client.create(NON_ADMIN_BACKUPS, body, target)
        rules = await pair.paused_at(process, "/nonadminbackups/", 25)

    assert_nothing_more(pair, rules, total=20 * 5)
