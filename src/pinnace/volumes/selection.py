"""Which volumes of a pod are to be saved by the pod volume backupper. Pure. (docs/spec: BKP 9.1, API 11.4)"""

from collections.abc import Iterable, Sequence

import msgspec

from pinnace.api.labels import VOLUMES_TO_BACKUP, VOLUMES_TO_EXCLUDE
from pinnace.api.objects import JSONObject, objects, text
from pinnace.volumes.pods.pod_claims import claim_name

_NEVER_BY_DEFAULT = ("hostPath", "secret", "configMap", "projected", "downwardAPI")
_TOKEN_VOLUME_PREFIX = "default-token"  # noqa: S105 - the name of a volume


def wanted_volumes(pod: JSONObject, *, opt_out: bool) -> list[str]:
    """Names of the volumes that the pod's annotations and the backup's default choose.

    Args:
        pod: the object.
        opt_out: all but the excluded ones, instead of only the named ones; the Backup's setting.
    """
    annotations = pod.get("metadata", {}).get("annotations") or {}
    if not opt_out:
        names = annotations.get(VOLUMES_TO_BACKUP, "")
        return names.split(",") if names else []
    excluded = frozenset(annotations.get(VOLUMES_TO_EXCLUDE, "").split(","))
    return [
        volume["name"]
        for volume in pod_volumes(pod)
        if may_be_saved(volume) and volume["name"] not in excluded
    ]


def may_be_saved(volume: JSONObject) -> bool:
    """Whether a volume of a pod is saved by default or by a policy: not settings, tokens and host paths."""
    if volume["name"].startswith(_TOKEN_VOLUME_PREFIX):
        return False
    return not any(source in volume for source in _NEVER_BY_DEFAULT)


def pod_volumes(pod: JSONObject) -> list[JSONObject]:
    """`spec.volumes`, empty if there is none."""
    return (pod.get("spec") or {}).get("volumes") or []


def unmounted(pod: JSONObject, volumes: Iterable[str]) -> list[str]:
    """The volumes that no container of a pod uses: the kubelet mounts none of them.

    A pod of an API server has containers; of one without, nothing is said.
    """
    kinds = ("containers", "initContainers", "ephemeralContainers")
    containers = [container for kind in kinds for container in objects(pod, "spec", kind)]
    used = {
        text(use, "name")
        for container in containers
        for use in (*objects(container, "volumeMounts"), *objects(container, "volumeDevices"))
    }
    known = {volume["name"] for volume in pod_volumes(pod)}
    return [name for name in volumes if containers and name in known and name not in used]


def is_running(pod: JSONObject) -> bool:
    """Whether a node has the pod's volumes mounted, so that they can be read there."""
    return bool((pod.get("status") or {}).get("phase") == "Running")


class HandledClaims(msgspec.Struct):
    """The claims whose volumes the pod volume backupper saves in this backup: each is saved once.

    Their persistent volumes are not snapshotted too. (docs/spec: BKP 9.1, 10)
    """

    _claims: set[tuple[str, str]] = msgspec.field(default_factory=set)

    def has(self, namespace: str, claim: str) -> bool:
        """Whether the claim is saved by way of a pod."""
        return (namespace, claim) in self._claims

    def choose(self, pod: JSONObject, volumes: Sequence[str]) -> list[str]:
        """Leave out volumes whose claim was saved with another pod, and remember the claims of the rest.

        Two volumes of one pod on one claim both stay.
        """
        claims = claims_of(pod)
        chosen = [name for name in volumes if claims.get(name) not in self._claims]
        self._claims.update(claims[name] for name in chosen if name in claims)
        return chosen

    def release(self, pod: JSONObject, volumes: Sequence[str]) -> None:
        """Forget the claims of a pod that is not saved, so that a snapshot can still save them."""
        claims = claims_of(pod)
        self._claims.difference_update(claims[name] for name in volumes if name in claims)


def claims_of(pod: JSONObject) -> dict[str, tuple[str, str]]:
    """Volume name to namespace and name of the claim behind it, for the volumes that have one.

    The claim of a generic ephemeral volume is one too.
    """
    namespace = pod.get("metadata", {}).get("namespace", "")
    named = {volume["name"]: claim_name(pod, volume) for volume in pod_volumes(pod)}
    return {volume: (namespace, claim) for volume, claim in named.items() if claim}
