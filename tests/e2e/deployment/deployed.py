"""An installation on a cluster that runs pods, driven through the command line."""

from hack.cluster.stores.s3 import Bucket
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PODS,
)
from tests.e2e.without_server.command import Outcome, Pinnace
from tests.support.waiting import eventually

OURS = "component=velero"


class Deployed:
    """The command, the cluster it installs on, and the bucket.

    Args:
        url: of the store, where pods reach it by another one than this machine.
    """

    def __init__(
        self, command: Pinnace, client: KubeClient, namespace: str, bucket: Bucket, *, url: str = ""
    ) -> None:
        self.command = command
        self.client = client
        self.namespace = namespace
        self.bucket = bucket
        self._url = url or bucket.location_config["s3Url"]

    @property
    def location_flags(self) -> list[str]:
        """The flags of `install` that name provider, bucket and credentials."""
        given = {**self.bucket.location_config, "s3Url": self._url}
        config = ",".join(f"{key}={value}" for key, value in given.items())
        return [
            *("--provider", "aws", "--bucket", self.bucket.name, "--use-volume-snapshots=false"),
            *("--secret-file", str(self.bucket.server.credentials_file), "--backup-location-config", config),
        ]

    async def install(self, *flags: str) -> Outcome:
        """Install and wait; the outcome of a success."""
        return await self.run("install", *self.location_flags, *flags, "--wait")

    async def run(self, *words: str) -> Outcome:
        """A command that must succeed."""
        try:
            outcome = await self.command(*words)
        except AssertionError as error:
            raise AssertionError(f"{words[:3]}: {error}\n{await self.logs()}") from None
        assert outcome.code == 0, f"{words[:3]}: {outcome.out}{outcome.err}\n{await self.logs()}"
        return outcome

    async def phase(self, noun: str, name: str) -> str:
        """The output of `describe` for a backup or restore; the assertion's text has a failure's log."""
        described = (await self.run(noun, "describe", name)).out
        phase = described.partition("\nPhase:")[2].split(maxsplit=1)[0]
        if phase != "Completed":
            log = await self.run(noun, "logs", name)
            raise AssertionError(f"{described}\n{log.out}\n{await self.logs()}")
        return phase

    async def pods(self, selector: str = OURS) -> list[JSONObject]:
        """Our pods that are not being deleted."""
        found = await self.client.list_all(PODS, self.namespace, label_selector=selector)
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    async def settled(self, selector: str, *, image: str) -> JSONObject:
        """The only pod, once all of another image are gone."""
        found: list[JSONObject] = []

        async def alone() -> bool:
            found[:] = await self.client.list_all(PODS, self.namespace, label_selector=selector)
            return [pod["spec"]["containers"][0]["image"] for pod in found] == [image]

        await eventually(alone)
        return found[0]

    async def logs(self) -> str:
        """The last log lines of our pods and of their former containers, for the text of a failure."""
        texts = []
        for pod in await self.pods():
            name, path = pod["metadata"]["name"], PODS.path(self.namespace, pod["metadata"]["name"], "log")
            for status in pod["status"].get("containerStatuses") or []:
                for previous in range(min(status["restartCount"], 1), -1, -1):
                    params = {"tailLines": "30", "previous": "true" if previous else "false"}
                    text = await self.client.request("GET", path, params=params, accept="*/*")
                    texts.append(f"--- {name}: {status['state']}\n{text.decode()}")
        return "\n".join(texts)

    async def remains(self) -> list[str]:
        """The objects of an installation that are in the cluster."""
        names = []
        for resource in (NAMESPACES, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CUSTOM_RESOURCE_DEFINITIONS):
            found = await self.client.list_all(resource, label_selector=OURS)
            names += [f"{resource.name}/{obj['metadata']['name']}" for obj in found]
        return names
