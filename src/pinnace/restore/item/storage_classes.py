"""Warns of restored claims that stay Pending because their StorageClass does not exist. (docs/spec: RST 8)

Classes and volumes are restored before claims, so that each claim is judged when it is created.
"""

from pinnace.api.objects import JSONObject, text
from pinnace.api.restore_outcomes import Outcome
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import STORAGE_CLASSES
from pinnace.notices.codes import Code
from pinnace.restore.cluster import TargetCluster
from pinnace.restore.item.applying import Applied, Prepared
from pinnace.restore.results import Results

_NEW = frozenset({Outcome.CREATED, Outcome.RECREATED})


class StorageClasses:
    """The StorageClasses of the claims that one restore creates."""

    def __init__(self, target: TargetCluster) -> None:
        self._target = target
        self._missing: dict[str, bool] = {}
        self._free: set[tuple[str, str]] = set()

    def note_volume(self, volume: JSONObject) -> None:
        """Note a restored volume: a claim is bound to it without a class."""
        self._free.add((text(volume, "spec", "storageClassName"), _claim_of(volume)))

    async def check_claim(self, sent: Prepared, applied: Applied, results: Results) -> None:
        """Warn of a new claim without a class."""
        name = text(sent.item, "spec", "storageClassName")
        if applied.outcome not in _NEW or not name or text(sent.item, "spec", "volumeName"):
            return
        claim = f"{sent.ref.target_namespace}/{sent.ref.name}"
        if self._free & {(name, ""), (name, claim)} or not await self._is_missing(name):
            return
        message = (
            f"{sent.ref.id}: its StorageClass {name} does not exist: the claim stays Pending until the class"
            " is created"
        )
        notice = sent.ref.notice(Code.STORAGE_CLASS_MISSING, message)
        results.warnings.add(sent.ref.target_namespace, notice)

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
