"""Finds restored quotas that are exceeded by what is in their namespaces. (docs/spec: RST 8)

Quotas follow pods, so that no pod is refused by one that its original had exceeded too: a quota is only asked
when something is created. What a restored quota counts is known once the cluster has counted it. Until then,
in a dry run and in a cluster that does not count, its status in the backup says what was in use.
"""

from typing import Final

import msgspec

from pinnace.aio.timing import poll
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.restore_outcomes import Outcome
from pinnace.api.values.quantities import parse_quantity
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code
from pinnace.restore.cluster import TargetCluster
from pinnace.restore.item.applying import Applied, Prepared
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef, decode

_COUNTING_SECONDS: Final = 5.0
"""How long all quotas are waited for together; a controller counts within a second."""

_WRITTEN: Final = frozenset({Outcome.CREATED, Outcome.UPDATED, Outcome.RECREATED})
_LONGEST_QUANTITY: Final = 100


class _Quota(msgspec.Struct, frozen=True, kw_only=True):
    ref: ItemRef
    resource: APIResource
    backed_up: JSONObject


class Quotas:
    """The quotas that one restore has written.

    Args:
        is_simulated: whether nothing is written, so that nothing counts.
    """

    def __init__(self, target: TargetCluster, *, is_simulated: bool) -> None:
        self._target = target
        self._is_simulated = is_simulated
        self._written: list[_Quota] = []

    def look_at(self, sent: Prepared, applied: Applied) -> None:
        """Note a quota that the restore wrote."""
        if applied.outcome in _WRITTEN:
            quota = _Quota(ref=sent.ref, resource=sent.resource, backed_up=decode(sent.ref, sent.raw))
            self._written.append(quota)

    async def exceeded(self) -> Results:
        """A warning for each quota that is exceeded. Call it when everything is restored."""
        results, counted = Results(), {quota.ref.key: JSONObject() for quota in self._written}
        if not counted:
            return results

        async def is_counted() -> bool:
            waiting = [quota for quota in self._written if not counted[quota.ref.key]]
            for quota in waiting:
                counted[quota.ref.key] = await self._counted(quota)
            return all(counted.values())

        if not self._is_simulated:
            await poll(is_counted, clock=self._target.clock, timeout_seconds=_COUNTING_SECONDS)
        for quota in self._written:
            now = counted[quota.ref.key]
            if over := _over(now or quota.backed_up):
                when = "what is in its namespace exceeds it" if now else "it was exceeded when it was saved"
                quota.ref.warn(
                    results,
                    Code.QUOTA_FULL,
                    f"{quota.ref.id}: {when} ({over}). Nothing is removed, and nothing that it counts can be"
                    " created there until it is raised or less is in use",
                )
        return results

    async def _counted(self, quota: _Quota) -> JSONObject:
        """The quota with what the cluster has counted; empty until then, or if it cannot be read."""
        ref = quota.ref
        try:
            found = await self._target.client.get(quota.resource, ref.name, ref.target_namespace or None)
        except KubeError as error:
            self._target.log.debug("The quota could not be read", error=error, name=ref.name)
            return {}
        return found if _status(found).get("hard") == _hard(found) else {}


def _hard(quota: JSONObject) -> JSONObject:
    return mapping(quota, "spec", "quota", "hard") or mapping(quota, "spec", "hard")


def _status(quota: JSONObject) -> JSONObject:
    return mapping(quota, "status", "total") or mapping(quota, "status")


def _over(quota: JSONObject) -> str:
    """The usage beyond its limit, such as `pods: 5 of 3`; empty if there is none."""
    hard, used = _hard(quota), mapping(_status(quota), "used")
    return ", ".join(
        f"{name}: {text(used, name)} of {text(hard, name)}"
        for name in hard
        if _is_more(text(used, name), text(hard, name))
    )


def _is_more(used: str, limit: str) -> bool:
    if len(used) > _LONGEST_QUANTITY or len(limit) > _LONGEST_QUANTITY:
        return False
    try:
        return parse_quantity(used) > parse_quantity(limit)
    except ValueError:
        return False
