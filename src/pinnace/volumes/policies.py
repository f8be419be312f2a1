"""How the volumes of one backup are saved by its resource policies. (docs/spec: BEY 4.7)"""

from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.resource_policies import ResourcePolicies, VolumeRule, facts_of
from pinnace.api.selection.filter_policies import NO_FILTER_POLICIES, FilterPolicies
from pinnace.api.selection.resource_filters import NO_LISTS, ScopedLists
from pinnace.kube.errors import NotFound
from pinnace.kube.reading import ObjectReader
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, APIResource
from pinnace.volumes.pods.pod_claims import claim_name


class VolumePolicies:
    """Decides for each volume once; without rules it decides nothing and reads nothing.

    Args:
        client: reads claims and persistent volumes.
        policies: None for a backup without.
    """

    def __init__(self, client: ObjectReader, policies: ResourcePolicies | None = None) -> None:
        self._client = client
        self._policies = policies
        self._of_claims: dict[tuple[str, str], VolumeRule | None] = {}

    @property
    def lists(self) -> ScopedLists:
        """The include/exclude policy."""
        return self._policies.lists if self._policies is not None else NO_LISTS

    @property
    def filters(self) -> FilterPolicies:
        """The filters by namespace and kind."""
        return self._policies.filters if self._policies is not None else NO_FILTER_POLICIES

    @property
    def decide(self) -> bool:
        """Whether there are rules for volumes."""
        return self._policies is not None and bool(self._policies.rules)

    async def of_claim(self, claim: JSONObject, persistent: JSONObject | None = None) -> VolumeRule | None:
        """The rule for a claim's volume; None if none matches. Raises KubeError.

        Args:
            persistent: its persistent volume, if the caller has it; else it is read.
        """
        if not self.decide:
            return None
        key = text(claim, "metadata", "namespace"), text(claim, "metadata", "name")
        if key not in self._of_claims:
            bound = text(claim, "spec", "volumeName")
            if persistent is None and bound:
                persistent = await self._get(PERSISTENT_VOLUMES, bound)
            self._of_claims[key] = self._rule(claim=claim, persistent=persistent)
        return self._of_claims[key]

    async def of_persistent(self, persistent: JSONObject) -> VolumeRule | None:
        """The rule for a persistent volume; None if none matches. Raises KubeError."""
        if not self.decide:
            return None
        bound = mapping(persistent, "spec", "claimRef")
        key = text(bound, "namespace"), text(bound, "name")
        if key in self._of_claims:
            return self._of_claims[key]
        claim = await self._get(PERSISTENT_VOLUME_CLAIMS, key[1], key[0]) if key[1] else None
        if claim is None:
            return self._rule(persistent=persistent)
        return await self.of_claim(claim, persistent)

    async def of_pod_volume(self, pod: JSONObject, volume: JSONObject) -> VolumeRule | None:
        """The rule for a volume of a pod; None if none matches. Raises KubeError."""
        if not self.decide:
            return None
        name, namespace = claim_name(pod, volume), text(pod, "metadata", "namespace")
        if not name:
            return self._rule(volume=volume)
        if (namespace, name) in self._of_claims:
            return self._of_claims[namespace, name]
        claim = await self._get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
        return None if claim is None else await self.of_claim(claim)

    def _rule(
        self,
        *,
        claim: JSONObject | None = None,
        persistent: JSONObject | None = None,
        volume: JSONObject | None = None,
    ) -> VolumeRule | None:
        assert self._policies is not None
        return self._policies.rule_for(facts_of(claim=claim, persistent=persistent, volume=volume))

    async def _get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject | None:
        try:
            return await self._client.get(resource, name, namespace)
        except NotFound:
            return None
