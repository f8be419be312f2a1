"""Checks repositories of volume data, and locks that dead programs left in them."""

from pinnace.api import phases
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.doctor.findings import Finding, listed, ok, problem, skipped, warning
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import (
    BACKUP_REPOSITORIES,
    BACKUP_STORAGE_LOCATIONS,
    POD_VOLUME_BACKUPS,
    POD_VOLUME_RESTORES,
    RESTIC_REPOSITORIES,
    APIResource,
)
from pinnace.notices.codes import Code
from pinnace.storage.own_settings import REPOSITORY_SECRET
from pinnace.volumes.uploader.passwords import LEGACY_FIRST, read_secrets, with_public_password

CHECK = "repositories"
PASSWORD = "repository password"  # noqa: S105 - a check


async def read_repositories(client: KubeClient, namespace: str) -> list[JSONObject]:
    """The repositories of both kinds. Raises KubeError."""
    return [
        obj
        for resource in (BACKUP_REPOSITORIES, RESTIC_REPOSITORIES)
        for obj in await _list(client, resource, namespace)
    ]


async def is_in_use(client: KubeClient, namespace: str) -> bool:
    """Whether volumes are being saved or restored now. Raises KubeError."""
    for resource in (POD_VOLUME_BACKUPS, POD_VOLUME_RESTORES):
        for obj in await _list(client, resource, namespace):
            if mapping(obj, "status").get("phase") not in phases.TRANSFER_ENDED:
                return True
    return False


async def _list(client: KubeClient, resource: APIResource, namespace: str) -> list[JSONObject]:
    try:
        return await client.list_all(resource, namespace)
    except NotFound:
        return []  # the kind is not served; the check of the definitions reports that


def judge(repositories: list[JSONObject]) -> list[Finding]:
    """A finding for each repository that is not ready."""
    if not repositories:
        return [skipped(CHECK, "there are none: no volume has been saved by the node agent")]
    findings = []
    for repository in repositories:
        status = mapping(repository, "status")
        if status.get("phase") == "NotReady":
            name = repository["metadata"]["name"]
            findings.append(
                problem(
                    CHECK,
                    f"{name} is not ready: {status.get('message') or 'its message is empty'}",
                    "most often the password (Secret velero-repo-credentials) differs, or its files are gone",
                    code=Code.REPOSITORY_NOT_READY,
                )
            )
    return findings or [ok(CHECK, f"none of {len(repositories)} is broken")]


async def read_public_passwords(client: KubeClient, namespace: str) -> list[str]:
    """The Secrets of the server and of its locations that have Velero's public password. Raises KubeError."""
    locations = await _list(client, BACKUP_STORAGE_LOCATIONS, namespace)
    own = {text(each, "spec", "config", REPOSITORY_SECRET) for each in locations} - {""}
    return with_public_password(await read_secrets(client, namespace, (*LEGACY_FIRST, *sorted(own))))


def judge_passwords(public: list[str], namespace: str) -> list[Finding]:
    """A finding if volumes are saved under the public password."""
    if not public:
        return []
    return [
        warning(
            PASSWORD,
            f"volumes are saved under Velero's public default password (Secret {listed(public)} in namespace"
            f" {namespace}): whoever can read the bucket can read them",
            "`repo change-password` gives them another one; keep a copy of it outside the cluster",
            code=Code.REPOSITORY_PASSWORD_PUBLIC,
        )
    ]


def judge_locks(location: str, locks: dict[str, int] | None, *, in_use: bool) -> list[Finding]:
    """A finding about restic's locks that exist while no volume is being saved or restored."""
    locked = [f"{name} ({count})" for name, count in sorted((locks or {}).items()) if count]
    if not locked or in_use:
        return []
    return [
        warning(
            CHECK,
            f"restic repositories in {location} are locked, although no server of this cluster uses them: "
            f"{listed(locked)}",
            "if no other cluster uses them either, `restic unlock` removes locks of programs that have ended",
            code=Code.REPOSITORY_LOCKED,
        )
    ]
