"""Two restores of one name at once: one is made, or both under names of their own, and no record is lost."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

import pinnace
from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS
from pinnace.storage.location_url import location_from_url
from pinnace.storage.open import open_backup_store


@pytest.fixture
def cluster(control_plane: ControlPlane) -> pinnace.Cluster:
    return pinnace.Cluster(kubeconfig=control_plane.kubeconfig)


@pytest.fixture
async def location(
    client: KubeClient, cluster: pinnace.Cluster, namespace: str, tmp_path: Path
) -> pinnace.Location:
    """A folder with a backup `b` of the namespace, which has one config map."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    await client.create(CONFIGMAPS, body, namespace)
    made = pinnace.Location(tmp_path / "backups")
    selection = pinnace.Selection(included_namespaces=[namespace], included_resources=["configmaps"])
    await pinnace.backup_async("b", made, cluster=cluster, selection=selection)
    return made


async def recorded(location: pinnace.Location) -> dict[str, dict[str, str]]:
    """The namespace mappings of all restores that are recorded in the location, by name."""
    found = location_from_url(str(location.url), namespace="velero")
    async with open_backup_store(found) as store:
        names = await store.list_restores()
        return {name: dict((await store.read_restore(name)).spec.namespace_mapping) for name in names}


async def restored(
    location: pinnace.Location, cluster: pinnace.Cluster, mapping: dict[str, str], name: str = ""
) -> pinnace.RestoreResult | pinnace.PinnaceError:
    options = pinnace.RestoreOptions(name=name, namespace_mapping=mapping)
    try:
        return await pinnace.restore_async("b", location, cluster=cluster, options=options)
    except pinnace.PinnaceError as error:
        return error


@pytest.mark.found("P3")
async def test_restores_without_a_name_get_names_of_their_own(
    location: pinnace.Location, cluster: pinnace.Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pinnace.python_api._running.stamped_name", lambda base, now: f"{base}-20260102030405"
    )
    mappings = [{namespace: f"{namespace}-{number}"} for number in range(3)]

    ends = await asyncio.gather(*(restored(location, cluster, mapping) for mapping in mappings))
    again = await restored(location, cluster, mappings[0])

    results = [end for end in (*ends, again) if isinstance(end, pinnace.RestoreResult)]
    assert [result.phase for result in results] == [pinnace.Phase.COMPLETED] * 4
    first = "b-20260102030405"
    assert {result.name for result in results} == {first, f"{first}-2", f"{first}-3", f"{first}-4"}
    records = await recorded(location)
    assert [records[result.name] for result in results] == [*mappings, mappings[0]]


@pytest.mark.found("P3")
async def test_of_two_restores_of_one_name_one_is_refused(
    location: pinnace.Location, cluster: pinnace.Cluster, namespace: str
) -> None:
    mappings = [{namespace: f"{namespace}-{number}"} for number in range(2)]

    ends = await asyncio.gather(*(restored(location, cluster, mapping, "same") for mapping in mappings))

    (error,) = [end for end in ends if isinstance(end, pinnace.NameTaken)]
    assert "a restore named same is" in str(error)
    (winner,) = [number for number, end in enumerate(ends) if isinstance(end, pinnace.RestoreResult)]
    assert await recorded(location) == {"same": mappings[winner]}
    async with open_backup_store(location_from_url(str(location.url), namespace="velero")) as store:
        assert not [key for key in await store._store.list_keys("") if "writer" in key]


@pytest.mark.found("P3")
async def test_two_commands_in_one_second_both_succeed(
    control_plane: ControlPlane, location: pinnace.Location, namespace: str, tmp_path: Path
) -> None:
    """Their clock stands still, as at one second of cron."""
    code = (
        "import sys; from pinnace.aio.clock import SystemClock; from datetime import datetime, UTC;"
        "SystemClock.now = lambda _self: datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC);"
        "from pinnace.cli.main import main; sys.argv[0] = 'pinnace'; sys.exit(main())"
    )
    commands = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, "--location", str(location.url), "restore", "create"),
            *(
                "--from-backup",
                "b",
                "--namespace-mappings",
                f"{namespace}:{namespace}-{number}",
                "-o",
                "name",
            ),
            env={**os.environ, "KUBECONFIG": str(control_plane.kubeconfig), "HOME": str(tmp_path)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        for number in range(2)
    ]

    outputs = [await command.communicate() for command in commands]

    assert [command.returncode for command in commands] == [0, 0], outputs
    names = sorted(stdout.decode().strip().removeprefix("restore.velero.io/") for stdout, _ in outputs)
    records = await recorded(location)
    assert sorted(records) == names
    assert names[1] == f"{names[0]}-2"
    assert sorted(mapping[namespace] for mapping in records.values()) == [f"{namespace}-0", f"{namespace}-1"]
