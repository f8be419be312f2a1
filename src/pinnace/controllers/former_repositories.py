"""Moves the ResticRepositories of a Velero before 1.10 to BackupRepositories. (docs/spec: BEY 6.1, 6.3)

A repository keeps its name, labels, spec and status. A ResticRepository is deleted after its successor is
stored, so a server that dies in between moves it again. Where it fails, volumes are not affected: the
object of a repository is made again when a backup or restore needs it.
"""

from contextlib import suppress
from typing import Final

from pinnace.api import API_VERSION, labels
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup_repository import RESTIC_REPOSITORY
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.writes import delete_if_there
from pinnace.kube.errors import AlreadyExists, KubeError, NotFound
from pinnace.kube.resources import BACKUP_REPOSITORIES, RESTIC_REPOSITORIES
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger

log = get_logger(__name__)

_KEPT: Final = ("name", "namespace", "labels", "annotations")


async def move_former_repositories(scope: Scope) -> None:
    """Move all ResticRepositories. One that cannot be moved is logged, and tried again at the next start."""
    client, namespace = scope.client, scope.namespace
    try:
        former = await client.list_all(RESTIC_REPOSITORIES, namespace)
    except NotFound:
        return  # the definitions of Velero 1.10 and later lack the kind
    if not former:
        return
    known = {_place(obj) for obj in await client.list_all(BACKUP_REPOSITORIES, namespace)}
    for obj in former:
        key = Key.of(obj)
        with bound_fields(resticRepository=str(key)):
            try:
                if _place(obj) not in known:
                    with suppress(AlreadyExists):
                        await client.create(BACKUP_REPOSITORIES, successor(obj), namespace)
                await delete_if_there(client, RESTIC_REPOSITORIES, key, uid=obj["metadata"]["uid"])
            except KubeError as error:
                log.warning("ResticRepository cannot be moved to a BackupRepository", error=error)
            else:
                log.info("Moved the ResticRepository to a BackupRepository")


def successor(obj: JSONObject) -> JSONObject:
    """The BackupRepository for a ResticRepository. Pure."""
    metadata = {name: obj["metadata"][name] for name in _KEPT if obj["metadata"].get(name)}
    metadata["labels"] = {**metadata.get("labels", {}), labels.REPOSITORY_TYPE: RESTIC_REPOSITORY}
    return {
        **obj,
        "apiVersion": API_VERSION,
        "kind": BACKUP_REPOSITORIES.kind,
        "metadata": metadata,
        "spec": {**(obj.get("spec") or {}), "repositoryType": RESTIC_REPOSITORY},
    }


def _place(obj: JSONObject) -> tuple[str, str, str]:
    """The identity of a repository: namespace of the volumes, location, type."""
    spec = obj.get("spec") or {}
    return (
        spec.get("volumeNamespace") or "",
        spec.get("backupStorageLocation") or "",
        spec.get("repositoryType") or RESTIC_REPOSITORY,
    )
