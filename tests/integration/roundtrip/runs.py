"""Backups and restores by the code behind `pinnace --location`, and the content of their tarballs."""

import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from examples.compare import FieldRule, ObjectRule, Rules, World
from examples.documented import DOCUMENTED, SERVICE_ACCOUNT_TOKEN
from hack.cluster.control_plane import ControlPlane
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.cli.backup.local import make_backup
from pinnace.cli.errors import ExitCode
from pinnace.cli.restore.local import make_restore
from pinnace.cli.settings import Settings

SERVICE = "kubernetes.io/service-name"


def _is_slice_of_controller(item: Mapping[str, Any], world: World) -> bool:
    """Whether a controller writes the slice, and one of the same Service is there."""
    labels = item["metadata"].get("labels") or {}
    return "endpointslice.kubernetes.io/managed-by" in labels and any(
        key.kind == "EndpointSlice"
        and key.namespace == item["metadata"]["namespace"]
        and (other["metadata"].get("labels") or {}).get(SERVICE) == labels.get(SERVICE)
        for key, other in world.items()
    )


SLICES = ObjectRule(
    name="endpoint slices",
    reason="their controller may make one of its own before the old one is there; one of them stays",
    applies=lambda item, world: item["kind"] == "EndpointSlice" and _is_slice_of_controller(item, world),
)
OTHER_CLUSTER = Rules(
    fields=[
        *DOCUMENTED.fields,
        FieldRule(
            name="cluster authority",
            reason="the control plane writes its own authority into every namespace",
            kinds=frozenset({"ConfigMap"}),
            paths=[("data", "ca.crt")],
            applies=lambda item, _path: item["metadata"]["name"] == "kube-root-ca.crt",
        ),
        FieldRule(
            name="cluster authority",
            reason="and beside every token of an account",
            kinds=frozenset({"Secret"}),
            paths=[("data", "ca.crt")],
            applies=lambda item, _path: item.get("type") == SERVICE_ACCOUNT_TOKEN,
        ),
    ],
    missing=(*DOCUMENTED.missing, SLICES),
    new=(*DOCUMENTED.new, SLICES),
)
"""The differences allowed after a restore into another cluster."""


def _settings(cluster: ControlPlane, location: Path) -> Settings:
    return Settings(
        namespace="velero",
        kubeconfig=str(cluster.kubeconfig),
        kubecontext=None,
        location=str(location),
        features=frozenset(),
        colour=False,
        ca_cert="",
    )


async def back_up(cluster: ControlPlane, location: Path, name: str, **spec: Any) -> JSONObject:
    """Make a backup; returns its metadata as it is stored."""
    backup = Backup(metadata=ObjectMeta(name=name, namespace="velero"), spec=BackupSpec(**spec))
    code = await make_backup(_settings(cluster, location), backup)
    stored: JSONObject = json.loads((location / f"backups/{name}/velero-backup.json").read_bytes())
    codes = {"Completed": ExitCode.OK, "PartiallyFailed": ExitCode.PARTIALLY_FAILED}
    assert codes[stored["status"]["phase"]] == code
    return stored


async def restore(
    cluster: ControlPlane, location: Path, name: str, *, backup: str, **spec: Any
) -> JSONObject:
    """Restore a backup without errors; returns the Restore as it is stored."""
    wanted = Restore(
        metadata=ObjectMeta(name=name, namespace="velero"), spec=RestoreSpec(backup_name=backup, **spec)
    )
    code = await make_restore(_settings(cluster, location), wanted, allow_partially_failed=False)
    assert code == ExitCode.OK
    stored: JSONObject = json.loads((location / f"restores/{name}/velero-restore.json").read_bytes())
    return stored


def members(location: Path, backup: str) -> list[str]:
    """The names in a backup's tarball, in their order."""
    with tarfile.open(location / f"backups/{backup}/{backup}.tar.gz") as archive:
        return archive.getnames()


def items(location: Path, backup: str) -> set[tuple[str, str, str]]:
    """The items of a backup, as (group-resource, namespace, name). Fails if one is there twice."""
    found = []
    for member in members(location, backup):
        match member.removesuffix(".json").split("/"):
            case ["resources", resource, "cluster", name]:
                found.append((resource, "", name))
            case ["resources", resource, "namespaces", namespace, name]:
                found.append((resource, namespace, name))
    assert len(found) == len(set(found))
    return set(found)


def read_items(location: Path, backup: str) -> dict[tuple[str, str, str], JSONObject]:
    """The namespaced items of a backup, as in `items`, with their content."""
    found: dict[tuple[str, str, str], JSONObject] = {}
    with tarfile.open(location / f"backups/{backup}/{backup}.tar.gz") as archive:
        for member in archive:
            match member.name.removesuffix(".json").split("/"):
                case ["resources", resource, "namespaces", namespace, name]:
                    content = archive.extractfile(member)
                    assert content is not None
                    found[resource, namespace, name] = json.loads(content.read())
    return found
