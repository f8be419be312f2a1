"""Images of pods: replaces parts of their names, such as the registry. (docs/spec: BEY 5.10)"""

from collections.abc import Iterator, Mapping
from typing import Final

from pinnace.api import kinds
from pinnace.api.objects import JSONObject, mapping, objects
from pinnace.kube.reading import ObjectSource
from pinnace.plugins.builtin.restore.config import ActionError, PluginConfig
from pinnace.plugins.protocols import ResourceSelector, RestoreItemInput, RestoreItemOutput

_KINDS: Final = kinds.group_resources(
    kinds.PODS,
    kinds.REPLICATION_CONTROLLERS,
    kinds.DEPLOYMENTS,
    kinds.STATEFUL_SETS,
    kinds.DAEMON_SETS,
    kinds.REPLICA_SETS,
    kinds.JOBS,
    kinds.CRON_JOBS,
)
_POD_SPECS: Final = (
    ("spec",),
    ("spec", "template", "spec"),
    ("spec", "jobTemplate", "spec", "template", "spec"),
)
_CONTAINERS: Final = ("initContainers", "containers")


class ChangeImageName:
    """Replaces parts of the names of images by the pairs of a ConfigMap: each value is `OLD,NEW`."""

    name = "velero.io/change-image-name"

    def __init__(self, client: ObjectSource, namespace: str) -> None:
        self._config = PluginConfig(client, namespace, self.name)

    async def applies_to(self) -> ResourceSelector:
        """Pods, and all that has a template of pods."""
        return ResourceSelector(included_resources=_KINDS)

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Change each image by the first pair, in the order of their keys, whose old part it has.

        Raises:
            ActionError: the ConfigMap is ambiguous, or a value is not of that form.
        """
        data = await self._config.data(given.restore)
        if data:
            pairs = list(_pairs(data))
            for container in _containers(given.item):
                image = container.get("image")
                if isinstance(image, str):
                    container["image"] = _changed(image, pairs)
        return RestoreItemOutput(item=given.item)


def _pairs(data: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in sorted(data.items()):
        old, comma, new = value.partition(",")
        old, new = old.strip(), new.strip()
        if not comma or not old or not new or "," in new:
            raise ActionError(
                f'{key} in the ConfigMap of velero.io/change-image-name is "{value}": write OLD,NEW with the'
                " part of the image's name that is replaced, and what replaces it"
            )
        yield old, new


def _changed(image: str, pairs: list[tuple[str, str]]) -> str:
    return next((image.replace(old, new) for old, new in pairs if old in image), image)


def _containers(item: JSONObject) -> Iterator[JSONObject]:
    for path in _POD_SPECS:
        spec = mapping(item, *path)
        for field in _CONTAINERS:
            yield from objects(spec, field)
