"""Self-service as a Deployment of its own: a tenant works with only the role `edit` in one namespace."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
import yaml

from hack.cluster.nodes.cluster import NodeCluster
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import SECRETS, SERVICE_ACCOUNTS, velero
from pinnace.nonadmin import manifests
from tests.e2e.deployment.application import Application
from tests.e2e.deployment.deployed import Deployed
from tests.e2e.without_server.command import Outcome, Pinnace
from tests.support.cluster.deployments import is_confined, process_of
from tests.support.servers.self_service import create_object, edit_binding, may_work, user_kubeconfig
from tests.support.waiting import eventually

USER = "somebody"
CONTROLLER = f"control-plane={manifests.DEPLOYMENT}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A user with the command and a kubeconfig with rights in one namespace only."""

    command: Pinnace
    client: KubeClient
    namespace: str
    administrator: Deployed

    async def run(self, *words: str) -> Outcome:
        """A command of self-service that must succeed."""
        outcome = await self.command("nonadmin", *words)
        assert outcome.code == 0, f"{words}: {outcome.out}{outcome.err}"
        return outcome

    async def completed(self, noun: str, name: str) -> None:
        """Wait until a request has ended well."""
        described = ""

        async def ended() -> bool:
            nonlocal described
            described = (await self.run(noun, "describe", name)).out
            status = described.partition("\nStatus:")[2].split(maxsplit=1)[0]
            return status in ("Completed", "PartiallyFailed", "Failed", "FailedValidation")

        await eventually(ended)
        if described.partition("\nStatus:")[2].split(maxsplit=1)[0] != "Completed":
            seen = await self.administrator.command(noun, "describe", "--details")
            raise AssertionError(f"{described}\n{seen.out}\n{await self.administrator.logs()}")


@pytest.fixture
async def tenant(
    node_cluster: NodeCluster,
    node_client: KubeClient,
    application: Application,
    deployed: Deployed,
    tmp_path: Path,
) -> AsyncIterator[Tenant]:
    """The owner of the application's namespace."""
    namespace, folder = application.namespace, tmp_path / "tenant"
    folder.mkdir()
    await create_object(node_client, edit_binding(namespace, USER))
    kubeconfig = user_kubeconfig(node_cluster.control_plane, folder, USER)
    command = Pinnace(folder, kubeconfig=kubeconfig, location=None)
    command.environ["VELERO_NAMESPACE"] = "not-where-a-tenant-works"
    config = yaml.safe_load(kubeconfig.read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    kubeconfig.write_text(yaml.safe_dump(config))
    async with KubeClient(load_config(str(kubeconfig))) as client:
        yield Tenant(command=command, client=client, namespace=namespace, administrator=deployed)


async def test_a_tenant_backs_up_restores_and_deletes(
    deployed: Deployed,
    application: Application,
    tenant: Tenant,
    node_cluster: NodeCluster,
    image: tuple[str, ...],
) -> None:
    before = await application.content()
    done = await deployed.install("--image", image[0], "--use-restic", "--minimal-rbac", "--non-admin")
    assert "Waiting for Pinnace self-service deployment to be ready." in done.lines
    await check_controller(deployed, node_cluster)
    await eventually(lambda: may_work(tenant.client, tenant.namespace))
    for resource in (velero("backups"), SECRETS):
        with pytest.raises(Forbidden):
            await tenant.client.list_all(resource, deployed.namespace)

    await tenant.run("backup", "create", "nightly")
    await tenant.completed("backup", "nightly")
    # The next version takes the lease over.
    await deployed.install("--apply", "--image", image[1], "--use-restic", "--minimal-rbac", "--non-admin")
    await deployed.settled(CONTROLLER, image=image[1])
    await application.lose_all_but_the_namespace(tenant.client)
    await tenant.run("restore", "create", "back", "--from-backup", "nightly")
    await tenant.completed("restore", "back")

    assert await application.content() == before
    stored = deployed.bucket.server.directory / "buckets" / deployed.bucket.name / "backups"
    assert len(list(stored.iterdir())) == 1
    await tenant.run("backup", "delete", "nightly", "--confirm")

    async def deleted() -> bool:
        names = [line for line in (await tenant.run("backup", "get")).lines if line.startswith("nightly")]
        return not names and not list(stored.glob("*"))

    await eventually(deleted)
    assert "forbidden" not in await deployed.logs()
    # Neither is left when it goes: the controller, nor what it could do.
    await deployed.run("uninstall", "--force", "--wait")
    assert await deployed.remains() == []
    assert await application.content() == before


async def check_controller(deployed: Deployed, cluster: NodeCluster) -> None:
    """It runs under its own account, confined, and its probes pass."""
    (pod,) = await deployed.pods(CONTROLLER)
    assert pod["spec"]["serviceAccountName"] == manifests.NAME
    await deployed.client.get(SERVICE_ACCOUNTS, manifests.NAME, deployed.namespace)
    (status,) = pod["status"]["containerStatuses"]
    assert (status["ready"], status["restartCount"]) == (True, 0), await deployed.logs()
    process = process_of(cluster, "nonadmin server --leader-elect")
    assert (process["Uid"], process["CapEff"]) == (["65532"] * 4, ["0000000000000000"])
    assert is_confined(process)
    # Idle, it takes less than it requests.
    assert int(process["VmRSS"][0]) < 128 * 1024
    async with aiohttp.ClientSession() as session:
        for page in ("8081/healthz", "8081/readyz", "8080/metrics"):
            async with session.get(f"http://{pod['status']['podIP']}:{page}") as response:
                assert response.status == 200, page
