"""A backup is compared with the cluster that it is of, before anything is restored."""

from pathlib import Path

from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS
from tests.support.runs.without_server import MakePinnace
from tests.support.servers.self_service import create_object, edit_binding, user_kubeconfig


async def test_a_backup_is_compared_with_the_cluster(
    tmp_path: Path, pinnace_for: MakePinnace, world: str, client: KubeClient
) -> None:
    pinnace = pinnace_for(str(tmp_path / "location"))
    for name in ("changes", "goes"):
        body = {"metadata": {"name": name}, "data": {"x": "1"}, "apiVersion": "v1", "kind": "ConfigMap"}
        await client.create(CONFIGMAPS, body, world)
    made = await pinnace("backup", "create", "b1", "--include-namespaces", world)
    assert (made.code, made.told) == (0, "")
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


async def test_a_user_with_rights_in_one_namespace_compares_a_backup_of_it(
    tmp_path: Path,
    pinnace_for: MakePinnace,
    world: str,
    client: KubeClient,
    control_plane: ControlPlane,
) -> None:
    await client.create(
        CONFIGMAPS, {"metadata": {"name": "mine"}, "apiVersion": "v1", "kind": "ConfigMap"}, world
    )
    pinnace = pinnace_for(str(tmp_path / "location"))
    assert (await pinnace("backup", "create", "b1", "--include-namespaces", world)).code == 0
    await create_object(client, edit_binding(world, "eve"))
    pinnace.kubeconfig = user_kubeconfig(control_plane, tmp_path, "eve")

    found = await pinnace("backup", "diff", "b1", "--cluster", "--include-resources", "configmaps")
    assert (found.code, found.out, found.err) == (0, "", "")

    # Cluster-scoped types can only be listed as a whole.
    refused = await pinnace("backup", "diff", "b1", "--cluster", "--include-resources", "namespaces")
    assert refused.code == 2
    assert refused.err.endswith("; --exclude-resources namespaces leaves them out\n")
