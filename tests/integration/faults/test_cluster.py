"""Clusters with faults: missing rights, broken groups, vanishing objects, lost patches."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import CutBeforeRequest, DropResponse, Fault, Stall, server_fault
from hack.cluster.pki import KeyPair
from hack.cluster.proxy import FaultProxy
from pinnace.api.codec import decode, encode
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase, RestorePhase
from pinnace.api.velero.backup import Backup, BackupProgress
from pinnace.controllers.shared.writes import end_patch, patch_progress
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import (
    BACKUPS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICE_ACCOUNTS,
    APIResource,
)
from pinnace.runtime.durable import store_until_stored
from pinnace.runtime.keys import Key
from pinnace.storage.backup_store import BackupStore
from tests.integration.faults.world import (
    APPLICATION,
    SELECTED,
    WIDGET_DEFINITION,
    Lab,
    no_longer_than,
    results_of,
)
from tests.support.cluster.connect import Connect
from tests.support.faulty_parts import Reach
from tests.support.waiting import eventually

StartProxy = Callable[[ControlPlane], Awaitable[FaultProxy]]

HANG_SECONDS = 150.0
API_SERVICES = APIResource(
    group="apiregistration.k8s.io", version="v1", name="apiservices", kind="APIService", namespaced=False
)
RBAC = "rbac.authorization.k8s.io"


@pytest.fixture
async def proxy(control_plane: ControlPlane, fault_proxy: StartProxy) -> FaultProxy:
    return await fault_proxy(control_plane)


# --- Rights ---------------------------------------------------------------------------------------------

Limited = Callable[..., Awaitable[KeyPair]]


@pytest.fixture
async def limited_user(control_plane: ControlPlane, client: KubeClient) -> AsyncIterator[Limited]:
    """A function that makes a user with the rights of the rules given."""
    made: list[str] = []

    async def make(*rules: JSONObject) -> KeyPair:
        name = f"faults-{secrets.token_hex(4)}"
        made.append(name)
        role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
        subject = {"apiGroup": RBAC, "kind": "User", "name": name}
        metadata = {"name": name}
        await client.create(
            CLUSTER_ROLES,
            {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": list(rules)},
        )
        await client.create(
            CLUSTER_ROLE_BINDINGS,
            {
                "apiVersion": f"{RBAC}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": metadata,
                "roleRef": role,
                "subjects": [subject],
            },
        )
        return control_plane.authority.issue_client(name, user=name)

    yield make
    for name in made:
        await client.delete(CLUSTER_ROLE_BINDINGS, name)
        await client.delete(CLUSTER_ROLES, name)


def rule(verbs: str, groups: str, resources: str) -> JSONObject:
    return {"verbs": verbs.split(), "apiGroups": groups.split(","), "resources": resources.split()}


BINDINGS = rule("get list", RBAC, "clusterrolebindings clusterroles")
ALL_BUT_SECRETS = rule(
    "*",
    ",apps,faults.pinnace.io",
    "namespaces configmaps serviceaccounts services persistentvolumeclaims pods deployments widgets",
)


@pytest.mark.spec("CTL-015")
async def test_a_resource_that_may_not_be_read_is_an_error_and_the_rest_is_there(
    lab: Lab, store: BackupStore, reach: Reach, limited_user: Limited
) -> None:
    user = await limited_user(ALL_BUT_SECRETS, BINDINGS)
    done = await lab.back_up(store, client=await reach(user=user))

    assert (done.status.phase, done.status.errors) == (BackupPhase.PARTIALLY_FAILED, 1)
    target = lab.new_target()
    restored = await lab.restore(store, target)
    assert restored.status.phase == RestorePhase.COMPLETED
    await lab.assert_same(target, missing=["secrets/password", "secrets/token"])


@pytest.mark.spec("RST-048")
async def test_a_resource_that_may_not_be_created_is_an_error_an_item(
    lab: Lab, store: BackupStore, reach: Reach, limited_user: Limited
) -> None:
    assert (await lab.back_up(store)).status.phase == BackupPhase.COMPLETED
    user = await limited_user(ALL_BUT_SECRETS)
    target = lab.new_target()
    done = await lab.restore(store, target, client=await reach(user=user))

    assert (done.status.phase, done.status.errors) == (RestorePhase.PARTIALLY_FAILED, 2)
    errors = (await results_of(store))["errors"]["namespaces"]
    assert list(errors) == [target]
    for error, name in zip(errors[target], ("password", "token"), strict=True):
        assert error.startswith(f"error restoring secrets/{target}/{name}: ")
        assert "is forbidden" in error
    await lab.assert_same(target, missing=["secrets/password", "secrets/token"])


@pytest.mark.spec("CTL-015")
async def test_accounts_whose_bindings_may_not_be_read_are_errors_and_are_saved(
    lab: Lab, store: BackupStore, reach: Reach, limited_user: Limited
) -> None:
    """The accounts would be restored without their rights, which must be reported; all else is saved."""
    user = await limited_user(ALL_BUT_SECRETS)
    done = await lab.back_up(store, client=await reach(user=user))

    assert done.status.phase == BackupPhase.PARTIALLY_FAILED
    assert (await store.read_backup("b1")).status.phase == BackupPhase.PARTIALLY_FAILED
    target = lab.new_target()
    assert (await lab.restore(store, target)).status.phase == RestorePhase.COMPLETED
    await lab.assert_same(target, missing=["secrets/password", "secrets/token"])


async def test_without_any_right_nothing_says_completed(
    lab: Lab, store: BackupStore, reach: Reach, limited_user: Limited
) -> None:
    assert (await lab.back_up(store)).status.phase == BackupPhase.COMPLETED
    user = await limited_user()
    nobody = await reach(user=user)
    second = await lab.back_up(store, client=nobody, name="b2")
    assert second.status.phase == BackupPhase.FAILED
    assert second.status.errors > 0
    target = lab.new_target()
    done = await lab.restore(store, target, client=nobody)

    assert done.status.phase == RestorePhase.PARTIALLY_FAILED
    # The namespace may exist, which this user cannot see: each object is refused in it. (RST 9)
    assert set((await results_of(store))["errors"]) == {"namespaces"}
    with pytest.raises(NotFound):
        await lab.client.get(NAMESPACES, target)


# --- API groups -----------------------------------------------------------------------------------------


@pytest.fixture
async def broken_group(client: KubeClient) -> AsyncIterator[str]:
    """An aggregated API group whose server does not exist."""
    group = f"broken-{secrets.token_hex(4)}.pinnace.io"
    name = f"v1.{group}"
    spec = {
        "group": group,
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"name": "nowhere", "namespace": "default"},
    }
    manifest = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name},
        "spec": spec,
    }
    await client.create(API_SERVICES, manifest)

    async def noticed() -> bool:
        found = await client.get(API_SERVICES, name)
        return any(
            condition["status"] == "False" for condition in found.get("status", {}).get("conditions") or ()
        )

    await eventually(noticed)
    yield group
    await client.delete(API_SERVICES, name)


async def test_a_broken_aggregated_group_disturbs_neither_backup_nor_restore(
    lab: Lab, store: BackupStore, broken_group: str
) -> None:
    discovery = await Discovery.load(lab.client)
    done = await lab.back_up(store, discovery=discovery)

    assert not any(resource.group == broken_group for resource in discovery.resources)
    assert (done.status.phase, done.status.errors) == (BackupPhase.COMPLETED, 0)
    # The objects of that group are missing: the backup reports that.
    assert done.status.warnings == len(discovery.warnings) == 1
    assert broken_group in discovery.warnings[0]
    await lab.assert_whole(store)


async def test_a_group_that_breaks_after_discovery_is_an_error(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach
) -> None:
    proxy.rules.add(server_fault(503), path="^/apis/faults.pinnace.io/")
    done = await lab.back_up(store, client=await reach(proxy))

    assert (done.status.phase, done.status.errors) == (BackupPhase.PARTIALLY_FAILED, 1)
    target = lab.new_target()
    assert (await lab.restore(store, target)).status.phase == RestorePhase.COMPLETED
    await lab.assert_same(
        target, missing=["widgets.faults.pinnace.io/first", "widgets.faults.pinnace.io/second"]
    )


@pytest.mark.parametrize("fault", [DropResponse(), server_fault(503)], ids=["answer-dropped", "503"])
async def test_a_definition_whose_creation_is_in_doubt_still_brings_its_resources(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach, namespace: str, fault: Fault
) -> None:
    """The restore must wait for the definition, whose creation was not answered."""
    group = f"g{secrets.token_hex(4)}.pinnace.io"
    gadgets = APIResource(group=group, version="v1", name="gadgets", kind="Gadget", namespaced=True)
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    definition = {
        **WIDGET_DEFINITION,
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {**WIDGET_DEFINITION["spec"], "group": group, "names": names},
    }
    gadget = {"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": {"name": "one"}, "spec": {"size": 7}}
    await lab.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    await eventually(lambda: created(lab.client, gadgets, gadget, namespace))
    done = await lab.back_up(
        store,
        included_namespaces=[namespace],
        included_resources=[f"gadgets.{group}", "customresourcedefinitions"],
        include_cluster_resources=None,
    )
    assert (done.status.phase, done.status.progress) == (
        BackupPhase.COMPLETED,
        BackupProgress(total_items=2, items_backed_up=2),
    )
    await lab.client.delete(CUSTOM_RESOURCE_DEFINITIONS, f"gadgets.{group}")
    await gone(lab.client, CUSTOM_RESOURCE_DEFINITIONS, f"gadgets.{group}")

    proxy.rules.add(fault, method="POST", path="/customresourcedefinitions$", times=1)
    target = lab.new_target()
    restored = await lab.restore(store, target, client=await reach(proxy), source=namespace)

    assert (restored.status.phase, restored.status.warnings) == (RestorePhase.COMPLETED, 0)
    assert (await lab.client.get(gadgets, "one", target))["spec"] == {"size": 7}
    await lab.client.delete(CUSTOM_RESOURCE_DEFINITIONS, f"gadgets.{group}")


async def created(client: KubeClient, resource: APIResource, item: JSONObject, namespace: str) -> bool:
    try:
        await client.create(resource, item, namespace)
    except NotFound:  # its definition is not served yet
        return False
    return True


async def gone(client: KubeClient, resource: APIResource, name: str, namespace: str = "") -> None:
    """Wait until an object that was deleted has ended; no pod ever runs that could hold on to a claim."""

    async def is_gone() -> bool:
        try:
            await client.get(resource, name, namespace)
        except NotFound:
            return True
        return False

    await eventually(is_gone)


# --- Objects --------------------------------------------------------------------------------------------


@pytest.mark.spec("CTL-015")
async def test_an_additional_item_that_vanishes_is_a_warning(
    lab: Lab,
    store: BackupStore,
    control_plane: ControlPlane,
    proxy: FaultProxy,
    connect: Connect,
    namespace: str,
) -> None:
    """A pod is listed, names its claim, and the claim is deleted before it is fetched."""
    for resource in (PERSISTENT_VOLUME_CLAIMS, PODS):
        (item,) = (item for kind, item in APPLICATION if kind is resource)
        await lab.client.create(resource, item, namespace)
    held = proxy.rules.add(Stall(), method="GET", path="/persistentvolumeclaims/data$")
    listed = proxy.rules.add(Stall(), method="GET", path="/persistentvolumeclaims$")
    through = await connect(control_plane, via=proxy)
    running = asyncio.create_task(
        lab.back_up(store, client=through, included_namespaces=[namespace], included_resources=SELECTED)
    )
    await held.struck()
    await lab.client.delete(PERSISTENT_VOLUME_CLAIMS, "data", namespace)
    await gone(lab.client, PERSISTENT_VOLUME_CLAIMS, "data", namespace)
    listed.release()
    held.release()
    done = await running

    assert (done.status.phase, done.status.errors, done.status.warnings) == (BackupPhase.COMPLETED, 0, 1)
    names = await store.read_resource_list("b1")
    assert names["v1/Pod"] == [f"{namespace}/worker"]
    assert "v1/PersistentVolumeClaim" not in names


async def test_an_additional_item_that_cannot_be_fetched_costs_its_parent(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach
) -> None:
    proxy.rules.add(server_fault(500), method="GET", path="/persistentvolumeclaims/data$")
    done = await lab.back_up(store, client=await reach(proxy))

    assert (done.status.phase, done.status.errors) == (BackupPhase.PARTIALLY_FAILED, 1)
    names = await store.read_resource_list("b1")
    assert "v1/Pod" not in names
    # The claim itself is listed later, and whole.
    assert names["v1/PersistentVolumeClaim"] == [f"{lab.namespace}/data"]


@pytest.mark.parametrize("fault", [DropResponse(), server_fault(503)], ids=["answer-dropped", "503"])
async def test_a_merge_into_an_account_whose_answer_is_lost_is_done_once(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach, namespace: str, fault: Fault
) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "puller"}}
    pull = {"imagePullSecrets": [{"name": "registry"}]}
    await lab.client.create(SERVICE_ACCOUNTS, {**account, **pull}, namespace)
    done = await lab.back_up(store, included_namespaces=[namespace], included_resources=["serviceaccounts"])
    assert done.status.phase == BackupPhase.COMPLETED
    target = lab.new_target()
    await lab.client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": target}}
    )
    await lab.client.create(SERVICE_ACCOUNTS, account, target)
    proxy.rules.add(fault, method="PATCH", path="/serviceaccounts/puller$", times=1)
    restored = await lab.restore(store, target, client=await reach(proxy), source=namespace)

    assert (restored.status.phase, restored.status.warnings) == (RestorePhase.COMPLETED, 0)
    found = await lab.client.get(SERVICE_ACCOUNTS, "puller", target)
    assert found["imagePullSecrets"] == [{"name": "registry"}]


# --- Status patches -------------------------------------------------------------------------------------


@pytest.fixture
async def in_progress(lab: Lab, velero_crds: None, namespace: str) -> Backup:
    """A Backup object in the cluster, InProgress."""
    prepared = await lab.prepared("b1")
    prepared.metadata.namespace = namespace
    return decode(Backup, await lab.client.create(BACKUPS, encode(prepared), namespace))


@pytest.mark.parametrize(
    "fault",
    [server_fault(500), CutBeforeRequest(), DropResponse(), Stall()],
    ids=["500", "cut", "dropped", "stall"],
)
async def test_progress_that_cannot_be_patched_is_a_warning(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach, in_progress: Backup, fault: Fault
) -> None:
    struck = proxy.rules.add(fault, method="PATCH")
    through = await reach(proxy)

    async def publish(total: int, done: int) -> None:
        progress = BackupProgress(total_items=total, items_backed_up=done)
        await patch_progress(through, BACKUPS, in_progress, {"progress": encode(progress)})

    async with no_longer_than(HANG_SECONDS):
        done = await lab.back_up(store, client=through, progress=publish)

    assert struck.hits > 0
    assert (done.status.phase, done.status.errors) == (BackupPhase.COMPLETED, 0)
    assert done.status.warnings > 0
    await lab.assert_whole(store)


class Publisher:
    """A restore's progress, patched into some object through a proxy."""

    def __init__(self, client: KubeClient, run: Backup) -> None:
        self._client = client
        self._run = run

    async def publish(self, total_items: int, items_restored: int) -> None:
        progress = {"totalItems": total_items, "itemsBackedUp": items_restored}
        await patch_progress(self._client, BACKUPS, self._run, {"progress": progress})


async def test_progress_of_a_restore_that_cannot_be_patched_changes_nothing(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach, in_progress: Backup
) -> None:
    assert (await lab.back_up(store)).status.phase == BackupPhase.COMPLETED
    struck = proxy.rules.add(server_fault(500), method="PATCH")
    through = await reach(proxy)
    target = lab.new_target()
    done = await lab.restore(store, target, client=through, progress=Publisher(through, in_progress).publish)

    assert struck.hits > 0
    assert (done.status.phase, done.status.errors) == (RestorePhase.COMPLETED, 0)
    await lab.assert_same(target)


@pytest.mark.parametrize(
    "fault",
    [server_fault(500), CutBeforeRequest(), DropResponse(), Stall()],
    ids=["500", "cut", "dropped", "stall"],
)
async def test_the_terminal_state_is_stored_in_spite_of_faults(
    lab: Lab, store: BackupStore, proxy: FaultProxy, reach: Reach, in_progress: Backup, fault: Fault
) -> None:
    struck = proxy.rules.add(fault, method="PATCH", times=2)
    through = await reach(proxy)
    done = await lab.back_up(store)
    done.metadata = in_progress.metadata
    key = Key(done.metadata.namespace, done.metadata.name)
    async with no_longer_than(HANG_SECONDS):
        await store_until_stored(through, BACKUPS, key, end_patch(in_progress, done))

    assert struck.hits == 2
    found = await lab.client.get(BACKUPS, "b1", in_progress.metadata.namespace)
    assert found["status"]["phase"] == "Completed"
    assert found["status"]["progress"] == encode(done)["status"]["progress"]
