"""A backup is compared with the cluster that it is of, before anything is restored."""

from pathlib import Path

from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS
from tests.support.runs.without_server import MakePinnace


async def test_a_backup_is_compared_with_the_cluster(
    tmp_path: Path, pinnace_for: MakePinnace, world: str, client: KubeClient
) -> None:
    pinnace = pinnace_for(str(tmp_path / "location"))
    for name in ("changes", "goes"):
        body = {"metadata": {"name": name}, "data": {"x": "1"}, "apiVersion": "v1", "kind": "ConfigMap"}
        await client.create(CONFIGMAPS, body, world)
    made = await pinnace("backup", "create", "b1", "--include-namespaces", world)
    assert (made.code, made.err) == (0, "")
    only = ("--include-resources", "configmaps", "-n", world)

    same = await pinnace("backup", "diff", "b1", "--cluster", *only)
    assert (same.code, same.out, same.err) == (0, "", "")

    # A backup that is limited to one namespace does not concern others.
    namespaces = await pinnace("backup", "diff", "b1", "--cluster", "--include-resources", "namespaces")
    assert (namespaces.code, namespaces.out, namespaces.err) == (0, "", "")

    await client.patch(CONFIGMAPS, "changes", {"data": {"x": "2"}}, world)
    await client.delete(CONFIGMAPS, "goes", world)
    body = {"metadata": {"name": "comes"}, "apiVersion": "v1", "kind": "ConfigMap"}
    await client.create(CONFIGMAPS, body, world)

    found = await pinnace("backup", "diff", "b1", "--cluster", *only)
    assert (found.code, found.err) == (1, "")
    assert found.lines == [
        f"~ configmaps/changes in {world}",
        '    ~ data.x: "1" -> "2"',
        f"+ configmaps/comes in {world}",
        f"- configmaps/goes in {world}",
        "1 added, 1 removed, 1 changed",
    ]
    verified = await pinnace("backup", "verify", "b1")
    assert (verified.code, verified.err) == (0, "")
    assert "BAD" not in verified.out
    shown = await pinnace("backup", "show", "b1", "cm/goes", "-n", world)
    assert "x: '1'" in shown.out
