"""The name and the location of a backup are looked at before the cluster is read."""

from pathlib import Path

import pytest

from hack.cluster.faults import Stall
from hack.cluster.proxy import FaultProxy
from tests.e2e.without_server.command import Pinnace
from tests.support.runs.without_server import MakePinnace, files_in

FLAGS = ("--include-resources", "configmaps")


@pytest.mark.found("op-87", "op-88")
async def test_a_backup_that_is_being_made_keeps_its_name_from_others_and_from_deletion(
    pinnace_for: MakePinnace,
    location: Path,
    world: str,
    api_proxy: FaultProxy,
    slow_cluster: Path,
    tmp_path: Path,
) -> None:
    rule = api_proxy.rules.add(Stall(), method="GET", path="/configmaps$", times=1)
    pinnace = pinnace_for(str(location), kubeconfig=slow_cluster)
    create = ("backup", "create", "b1", "--include-namespaces", world, *FLAGS)
    running = await pinnace.start(*create)
    await rule.struck()

    (tmp_path / "elsewhere").mkdir()
    other = Pinnace(tmp_path / "elsewhere", kubeconfig=slow_cluster, location=str(location))
    second = await other(*create)
    deletion = await other("backup", "delete", "b1", "--confirm")
    rule.release()

    assert second.code == 2
    assert "backup 'b1' is being written into this location by " in second.err
    assert deletion.code == 1
    assert "backup b1 is being made by " in deletion.err
    assert "delete it when that has ended" in deletion.err
    assert (await running.finish()).code == 0
    assert "pinnace-writer" not in " ".join(files_in(location))
    assert (await pinnace("backup", "delete", "b1", "--confirm")).code == 0
    assert files_in(location) == {}


@pytest.mark.found("op-12", "op-84")
@pytest.mark.parametrize(
    ("place", "name", "said"),
    [("/proc/pinnace", "b1", "/proc/pinnace"), ("", "n" * 240, "too long")],
    ids=["cannot-be-written", "long-name"],
)
async def test_what_the_location_refuses_is_said_before_the_cluster_is_read(
    pinnace_for: MakePinnace,
    location: Path,
    world: str,
    api_proxy: FaultProxy,
    slow_cluster: Path,
    place: str,
    name: str,
    said: str,
) -> None:
    lists = api_proxy.rules.add(Stall(), method="GET", path="/configmaps$", times=1)
    pinnace = pinnace_for(place or str(location), kubeconfig=slow_cluster)

    outcome = await pinnace("backup", "create", name, "--include-namespaces", world, *FLAGS)

    assert outcome.code in (1, 2), outcome
    assert said in outcome.err
    assert not lists.hits
    assert files_in(location) == {}
