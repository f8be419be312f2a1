"""The claim that an existing PersistentVolume is tied to, which decides who may use its data.

    claimRef with a uid ──> claim with this uid is there ──> live: left alone, or the claim would lose it
                    └──> no such claim ──> lost: no claim can be bound to it until the uid is removed
    claimRef without uid, or none ──> free: waits for its claim, or for any

A volume with the policy Retain is lost, and its phase Released, when its namespace was deleted, which is what
many restores are made for. (docs/spec: RST 17)
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import orjson

from pinnace.api.objects import JSONObject, mapping, text
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS
from pinnace.restore.cluster import ClusterClient

_OF_OLD_CLAIM: Mapping[str, Any] = {"uid": None, "resourceVersion": None}


class Tie(Enum):
    """Whether the claim of a volume exists."""

    FREE = "free"
    LIVE = "live"
    LOST = "lost"


async def tie_of(client: ClusterClient, volume: JSONObject) -> Tie:
    """Whether the claim of a volume exists; one that cannot be read counts as live."""
    owner = mapping(volume, "spec", "claimRef")
    uid = text(owner, "uid")
    if not uid:
        return Tie.FREE
    try:
        claim = await client.get(PERSISTENT_VOLUME_CLAIMS, text(owner, "name"), text(owner, "namespace"))
    except NotFound:
        return Tie.LOST
    except KubeError:
        return Tie.LIVE
    return Tie.LIVE if claim["metadata"].get("uid") == uid else Tie.LOST


def claim_title(volume: JSONObject) -> str:
    """Namespace and name of the claim of a volume."""
    owner = mapping(volume, "spec", "claimRef")
    return f"{text(owner, 'namespace')}/{text(owner, 'name')}"


def freeing(desired: JSONObject) -> JSONObject:
    """The merge patch that gives a lost volume to the claim of the backup; to any if it had none."""
    wanted = mapping(desired, "spec", "claimRef")
    return {"spec": {"claimRef": {**wanted, **_OF_OLD_CLAIM} if wanted else None}}


def freeing_command(name: str, desired: JSONObject) -> str:
    """The command that does the same."""
    return (
        f"kubectl patch persistentvolume {name} --type=merge -p '{orjson.dumps(freeing(desired)).decode()}'"
    )
