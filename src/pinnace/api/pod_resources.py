"""The resources of a container, as installers and ConfigMaps name them."""

from dataclasses import dataclass

from pinnace.api.values.quantities import parse_quantity, resource_requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class PodResources:
    """The requests and limits of a pod's container; `0` or nothing leaves one out."""

    cpu_request: str = "0"
    cpu_limit: str = "0"
    memory_request: str = "0"
    memory_limit: str = "0"
    ephemeral_storage_request: str = "0"
    ephemeral_storage_limit: str = "0"

    def requirements(self) -> dict[str, dict[str, str]]:
        """Requests and limits as a container has them. Raises ValueError."""
        made = resource_requirements(self.cpu_request, self.memory_request, self.cpu_limit, self.memory_limit)
        request, limit = self.ephemeral_storage_request, self.ephemeral_storage_limit
        asked, most = parse_quantity(request), parse_quantity(limit)
        if most and asked > most:
            raise ValueError(
                f'ephemeral storage request "{request}" must be less than or equal to ephemeral storage limit'
                f' "{limit}"'
            )
        for kind, amount, text in (("requests", asked, request), ("limits", most, limit)):
            if amount:
                made[kind]["ephemeral-storage"] = text
        return {kind: values for kind, values in made.items() if values}
