"""Warns of restored claims that stay Pending because their StorageClass does not exist. (docs/spec: RST 8)

Classes and volumes are restored before claims, so that each claim is judged when it is created.
"""

from pinnace.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from pinnace.api.objects import JSONObject, text
from pinnace.api.restore_outcomes import Outcome
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import STORAGE_CLASSES
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.item.applying import Applied, Prepared
from pinnace.restore.ports import TargetCluster
from pinnace.restore.results import Results

_NEW = frozenset({Outcome.CREATED, Outcome.RECREATED})


class StorageClasses:
    """The StorageClasses of the claims that one restore creates."""

    def __init__(self, target: TargetCluster) -> None:
        self._target = target
        self._missing: dict[str, bool] = {}
        self._free: set[tuple[str, str]] = set()

    async def look_at(self, sent: Prepared, applied: Applied, results: Results) -> None:
        """Warn of a new claim without a class; note a volume, to which a claim is bound without one."""
        kind, name = sent.ref.group_resource, text(sent.item, "spec", "storageClassName")
        if kind == PERSISTENT_VOLUMES.group_resource:
            self._free.add((name, _claim_of(sent.item)))
            return
        if kind != PERSISTENT_VOLUME_CLAIMS.group_resource or applied.outcome not in _NEW:
            return
        if not name or text(sent.item, "spec", "volumeName"):
            return
        claim = f"{sent.ref.target_namespace}/{sent.ref.name}"
        if self._free & {(name, ""), (name, claim)} or not await self._is_missing(name):
            return
        message = (
            f"{sent.ref.id}: its StorageClass {name} does not exist: the claim stays Pending until the class"
            " is created"
        )
        results.warnings.add(
            sent.ref.target_namespace, Notice(Code.STORAGE_CLASS_MISSING, message, object=sent.ref.id)
        )

    async def _is_missing(self, name: str) -> bool:
        if name not in self._missing:
            try:
                await self._target.client.get(STORAGE_CLASSES, name)
            except NotFound:
                self._missing[name] = True
            except KubeError as error:
                # Rights on classes may be missing: then nothing is known and nothing said.
                self._target.log.debug("The StorageClass could not be read", error=error, name=name)
                self._missing[name] = False
            else:
                self._missing[name] = False
        return self._missing[name]


def _claim_of(volume: JSONObject) -> str:
    """The claim that a volume is for, as `shop/data`; empty for a volume that any claim may get."""
    name = text(volume, "spec", "claimRef", "name")
    return f"{text(volume, 'spec', 'claimRef', 'namespace')}/{name}" if name else ""
