"""Ctrl-C at different moments: nothing that looks finished, nothing left behind, exit code 130."""

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hack.cluster.faults import Stall
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES
from tests.e2e.without_server.command import Outcome, Pinnace, Running
from tests.support.runs.without_server import MakePinnace, exists, files_in, s3_environ, s3_url, stored
from tests.support.waiting import PATIENCE_SECONDS

StartProxy = Callable[..., Awaitable[FaultProxy]]

FLAGS = ("--include-resources", "configmaps")


def assert_interrupted(outcome: Outcome) -> None:
    assert outcome.code == 130, outcome
    assert "Completed" not in outcome.out
    lines = outcome.told.strip().splitlines()
    assert all(re.match(r"Removing what is unfinished, please wait\.|Interrupted: ", line) for line in lines)


@pytest.mark.parametrize(
    ("path", "signum"),
    [
        pytest.param("^/apis$", signal.SIGINT, id="discovery"),
        pytest.param("/configmaps$", signal.SIGINT, id="listing"),
        pytest.param("/configmaps$", signal.SIGTERM, id="listing-terminated"),
        pytest.param("/configmaps$", signal.SIGHUP, id="listing-without-terminal"),
    ],
)
async def test_an_interrupt_while_reading_the_cluster_leaves_no_backup(
    pinnace_for: MakePinnace, location: Path, world: str, api_proxy: FaultProxy, slow_cluster: Path,
    path: str, signum: int,
) -> None:  # fmt: skip
    rule = api_proxy.rules.add(Stall(), method="GET", path=path)
    pinnace = pinnace_for(str(location), kubeconfig=slow_cluster)
    running = await pinnace.start("backup", "create", "b1", "--include-namespaces", world, *FLAGS)
    await rule.struck()

    running.interrupt(signum)

    assert_interrupted(await running.finish())
    assert files_in(location) == {}
    assert (await pinnace("backup", "get")).out == ""


@pytest.mark.parametrize("moment", [r"\.tar\.gz$", r"resource-list\.json\.gz$", r"velero-backup\.json$"])
async def test_an_interrupt_during_the_upload_takes_the_backup_back(
    bucket: Bucket, pinnace_for: MakePinnace, world: str, fault_proxy: StartProxy, moment: str
) -> None:
    proxy = await fault_proxy(bucket.server)
    rule = proxy.rules.add(Stall(), method="PUT|POST", path=moment)
    pinnace = pinnace_for(s3_url(bucket, server_url=proxy.url), environ=s3_environ(bucket.server))
    secret = bucket.server.credentials.secret_access_key
    running = await pinnace.start("backup", "create", "b1", "--include-namespaces", world, *FLAGS)
    await rule.struck()
    assert "velero-backup" not in " ".join(stored(bucket))
    assert secret not in running.arguments
    assert "backup create b1" in running.arguments.replace("\0", " ")

    running.interrupt()
    assert running.process.stderr is not None
    notice = b"Removing what is unfinished, please wait.\n"
    async with asyncio.timeout(PATIENCE_SECONDS):
        before = (await running.process.stderr.readuntil(notice)).removesuffix(notice).decode()
    assert before.startswith("Backing up cluster ")
    assert Outcome(code=0, out="", err=before).told == ""
    running.interrupt()  # impatience must not cut the clean-up short
    rule.release()  # the request that was under way is carried out only now

    assert_interrupted(await running.finish())
    assert stored(bucket) <= {"backups/b1/b1-logs.gz"}
    assert (await pinnace("backup", "get")).out == ""


async def make_backup(pinnace: Pinnace, world: str) -> None:
    assert (await pinnace("backup", "create", "b1", "--include-namespaces", world, *FLAGS)).code == 0


async def test_an_interrupt_while_creating_objects_allows_the_restore_again(
    pinnace_for: MakePinnace, location: Path, world: str, api_proxy: FaultProxy, slow_cluster: Path,
    client: KubeClient,
) -> None:  # fmt: skip
    target = f"{world}-interrupted"
    pinnace = pinnace_for(str(location), kubeconfig=slow_cluster)
    await make_backup(pinnace, world)
    restore = ("restore", "create", "--from-backup", "b1", "--namespace-mappings", f"{world}:{target}")
    rule = api_proxy.rules.add(Stall(), method="POST", path=f"/{target}/configmaps$", skip=1)
    running = await pinnace.start(*restore)
    await rule.struck()

    running.interrupt()

    assert_interrupted(await running.finish())
    assert (await pinnace("restore", "get")).out == ""
    api_proxy.rules.clear()
    again = await pinnace(*restore)  # what the first try made is no obstacle
    assert (again.code, again.lines[1].split("s, ", 1)[1]) == (0, "0 errors, 0 warnings.")
    for name in ("settings", "other", "plain"):
        assert (await client.get(CONFIGMAPS, name, target))["data"] == {"key": f"value of {name}"}
    await client.delete(NAMESPACES, target)


async def test_an_interrupt_while_downloading_restores_nothing(
    bucket: Bucket, pinnace_for: MakePinnace, world: str, fault_proxy: StartProxy, client: KubeClient
) -> None:
    proxy = await fault_proxy(bucket.server)
    pinnace = pinnace_for(s3_url(bucket, server_url=proxy.url), environ=s3_environ(bucket.server))
    await make_backup(pinnace, world)
    rule = proxy.rules.add(Stall(after_bytes=100), method="GET", path=r"\.tar\.gz$")
    target = f"{world}-never"
    running = await pinnace.start(
        *("restore", "create", "--from-backup", "b1", "--namespace-mappings", f"{world}:{target}")
    )
    await rule.struck()

    running.interrupt()

    assert_interrupted(await running.finish())
    with pytest.raises(NotFound):
        await client.get(NAMESPACES, target)


async def test_an_interrupt_of_a_download_leaves_no_file(
    bucket: Bucket, pinnace_for: MakePinnace, world: str, fault_proxy: StartProxy
) -> None:
    proxy = await fault_proxy(bucket.server)
    pinnace = pinnace_for(s3_url(bucket, server_url=proxy.url), environ=s3_environ(bucket.server))
    await make_backup(pinnace, world)
    rule = proxy.rules.add(Stall(after_bytes=100), method="GET", path=r"\.tar\.gz$")
    before = set(pinnace.folder.iterdir())
    running = await pinnace.start("backup", "download", "b1")
    await rule.struck()

    running.interrupt()

    assert_interrupted(await running.finish())
    assert set(pinnace.folder.iterdir()) == before


async def test_an_interrupt_at_a_question_deletes_nothing(
    pinnace: Pinnace, location: Path, world: str
) -> None:
    await make_backup(pinnace, world)
    running: Running = await pinnace.start("backup", "delete", "b1", stdin=True)
    assert running.process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        asked = await running.process.stdout.readuntil(b"? ")
    assert asked.endswith(b"Are you sure you want to continue (Y/N)? ")

    running.interrupt()

    assert (await running.finish()).code == 130
    assert exists(location / "backups/b1/velero-backup.json")
