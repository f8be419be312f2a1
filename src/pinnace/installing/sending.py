"""Creates the objects of an installation, or merges them into what exists. (docs/spec: CLI 11.3)"""

import asyncio
from collections.abc import Sequence

from pinnace.api.definitions.crd_merge import fields_beyond, superset
from pinnace.api.objects import JSONObject
from pinnace.api.values.counts import counted
from pinnace.installing.access import ALL_RIGHTS, RBAC
from pinnace.installing.apply import MANAGER, apply
from pinnace.installing.errors import InstallError
from pinnace.installing.finalizers import defined_by
from pinnace.installing.live import LiveWorkloads, read_live
from pinnace.installing.observer import InstallObserver
from pinnace.installing.outcomes import InstallOutcome, title
from pinnace.installing.wait import wait_for_workloads
from pinnace.installing.workloads import UPLOADER_FLAG
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from pinnace.kube.resources import (
    BACKUP_STORAGE_LOCATIONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    VOLUME_SNAPSHOT_LOCATIONS,
    APIResource,
)
from pinnace.volumes.node_agents import FORMER_NODE_AGENT

_LOCATIONS = frozenset({"BackupStorageLocation", "VolumeSnapshotLocation"})

RESOURCES = {
    resource.kind: resource
    for resource in (
        CUSTOM_RESOURCE_DEFINITIONS,
        NAMESPACES,
        CLUSTER_ROLE_BINDINGS,
        CLUSTER_ROLES,
        APIResource(group=RBAC, version="v1", name="roles", kind="Role", namespaced=True),
        APIResource(group=RBAC, version="v1", name="rolebindings", kind="RoleBinding", namespaced=True),
        SERVICE_ACCOUNTS,
        SECRETS,
        DEPLOYMENTS,
        DAEMON_SETS,
        BACKUP_STORAGE_LOCATIONS,
        VOLUME_SNAPSHOT_LOCATIONS,
    )
}

CRD_TIMEOUT_SECONDS = 60
_FIELDS_SHOWN = 5
_LONGEST_VALUES = 200
POLL_SECONDS = 1.0


class Installer:
    """Sends the objects of one installation.

    Args:
        merge: bring what exists in line (server-side apply); without it existing objects stay as they are.
        keep_uploader: keep the uploader of an installed server.
    """

    def __init__(
        self,
        client: KubeClient,
        observer: InstallObserver,
        *,
        merge: bool = False,
        keep_uploader: bool = False,
    ) -> None:
        self._client = client
        self._observer = observer
        self._merge = merge
        self._keep = keep_uploader

    async def install(
        self, crds: Sequence[JSONObject], others: Sequence[JSONObject], *, wait: bool = False
    ) -> LiveWorkloads:
        """Send the objects, and report what was done. Returns the workloads as they are now.

        Args:
            wait: until the workloads run.

        Raises:
            InstallError: an object could not be sent, or a workload is not ready in time.
            KubeError: the cluster refuses or does not answer.
        """
        sent = []
        send = self._apply if self._merge else self._create
        try:
            for crd in crds:
                self._observer.begin(crd)
                self._observer.done(crd, await send(crd))
            await self._wait_for_crds(crds)
            for obj in others:
                self._observer.begin(obj)
                if self._keep and obj["kind"] == DEPLOYMENTS.kind and obj["metadata"]["name"] == "velero":
                    await self._keep_uploader(obj)
                if obj["kind"] == DAEMON_SETS.kind and not await self._replaces(obj):
                    continue
                self._observer.done(obj, await send(obj))
                sent.append(obj)
        finally:
            self._observer.ended()
        self._observer.sent()
        live = await read_live(self._client, sent)
        self._warn_of_stopped(live)
        for obj in sent:
            if obj["kind"] == DAEMON_SETS.kind:
                await self._warn_of_refused_pods(obj)
        if wait:
            await wait_for_workloads(self._client, sent, self._observer)
        return live

    def _warn_of_stopped(self, live: LiveWorkloads) -> None:
        for workload in live.stopped():
            name, namespace = workload["metadata"]["name"], workload["metadata"]["namespace"]
            self._observer.warn(
                f"WARNING: Deployment/{name} has 0 replicas, so it does not run. Start it: "
                f"kubectl -n {namespace} scale deployment/{name} --replicas=1"
            )

    async def _warn_of_refused_pods(self, daemon_set: JSONObject) -> None:
        """Warn if the namespace refuses the pods of the node agent, which only events would show later.

        Without --apply a namespace that was there before keeps its labels, and the level of one without
        labels is a setting of the API server.
        """
        namespace = daemon_set["metadata"]["namespace"]
        template = daemon_set["spec"]["template"]
        metadata = {**template["metadata"], "generateName": f"{daemon_set['metadata']['name']}-"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        try:
            await self._client.create(PODS, pod, namespace, dry_run=True)
        except Forbidden as error:
            if "violates PodSecurity" in str(error):
                self._observer.warn(
                    f"WARNING: namespace {namespace} refuses the pods of the node agent: {error}. --apply "
                    f"labels the namespace, and so does `kubectl label --overwrite namespace {namespace} "
                    "pod-security.kubernetes.io/enforce=privileged`"
                )
        except KubeError:
            return  # the DaemonSet is there; whether its pods run is what --wait waits for

    async def _keep_uploader(self, deployment: JSONObject) -> None:
        """Keep the uploader of the installed server; one without the flag uses restic, and gets none."""
        metadata = deployment["metadata"]
        try:
            live = await self._client.get(DEPLOYMENTS, metadata["name"], metadata["namespace"])
        except NotFound:
            return
        except KubeError as error:
            raise InstallError(f"Error reading Deployment {metadata['name']}: {error}") from error
        arguments: list[str] = []
        for container in ((live["spec"].get("template") or {}).get("spec") or {}).get("containers") or []:
            arguments += [each for each in container.get("args") or [] if each.startswith(UPLOADER_FLAG)]
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            others = [each for each in container["args"] if not each.startswith(UPLOADER_FLAG)]
            container["args"] = [*others, *arguments[-1:]]

    async def _replaces(self, obj: JSONObject) -> bool:
        """Delete a node agent under its former name with --apply. Returns whether a new one may be created.

        (docs/adr/041)
        """
        namespace = obj["metadata"]["namespace"]
        try:
            found = await self._client.get(DAEMON_SETS, FORMER_NODE_AGENT, namespace)
        except NotFound:
            return True
        if not self._merge or (found["metadata"].get("labels") or {}).get("component") != "velero":
            self._observer.warn(
                f"WARNING: DaemonSet/{obj['metadata']['name']} is not created: the node agent runs as "
                f"DaemonSet/{FORMER_NODE_AGENT}, its name before Velero 1.10, and two would take each "
                "other's work. --apply replaces it."
            )
            return False
        await self._client.delete(DAEMON_SETS, FORMER_NODE_AGENT, namespace)
        self._observer.say(
            f"DaemonSet/{FORMER_NODE_AGENT}: deleted, as DaemonSet/{obj['metadata']['name']} replaces it"
        )
        return True

    async def _create(self, obj: JSONObject) -> InstallOutcome:
        """Create the object if there is none. Returns what was done."""
        name = title(obj)
        try:
            await self._client.create(
                RESOURCES[obj["kind"]], obj, obj["metadata"].get("namespace"), field_manager=MANAGER
            )
        except AlreadyExists:
            if obj["kind"] == CUSTOM_RESOURCE_DEFINITIONS.kind:
                return await self._widen(obj)
            # A user who asks for fewer rights must not believe that the server has only those.
            if await self._other_role(obj) == ALL_RIGHTS:
                self._warn_of_other_role(obj, ALL_RIGHTS)
            if obj["kind"] in _LOCATIONS:
                await self._warn_of_other_location(obj)
            return InstallOutcome.LEFT
        except KubeError as error:
            raise InstallError(f"Error creating resource {name}: {error}") from error
        return InstallOutcome.CREATED

    async def _warn_of_other_location(self, obj: JSONObject) -> None:
        """Name the settings of an existing location that are not those of the flags."""
        metadata = obj["metadata"]
        try:
            found = await self._client.get(RESOURCES[obj["kind"]], metadata["name"], metadata["namespace"])
        except KubeError:
            return  # it exists, and that is said
        other = differing(obj["spec"], found.get("spec"), "spec")
        if other:
            self._observer.warn(
                f"WARNING: {title(obj)} exists with other settings and stays as it is: {', '.join(other)};"
                " --apply changes it"
            )

    async def _apply(self, obj: JSONObject) -> InstallOutcome:
        """Change the object to the wanted one. Returns what was done."""
        name = title(obj)
        try:
            # The role of a binding cannot be changed: the API server would refuse the whole object.
            if other := await self._other_role(obj):
                self._warn_of_other_role(obj, other)
                return InstallOutcome.NOT_CHANGED
            if obj["kind"] == CUSTOM_RESOURCE_DEFINITIONS.kind:
                # Fields of other managers are kept, so none is overruled.
                await apply(self._client, CUSTOM_RESOURCE_DEFINITIONS, await self._without_loss(obj))
                overruled = []
            else:
                overruled = await apply(self._client, RESOURCES[obj["kind"]], obj)
        except KubeError as error:
            raise InstallError(f"Error applying resource {name}: {error}") from error
        for field in overruled:
            self._observer.warn(f"{name}: set again {field}")
        return InstallOutcome.APPLIED

    async def _widen(self, obj: JSONObject) -> InstallOutcome:
        """Add the fields of this version to an existing definition, so that objects do not lose them."""
        name = title(obj)
        try:
            served = await self._client.get(CUSTOM_RESOURCE_DEFINITIONS, obj["metadata"]["name"])
            wide = superset(obj, served)
            if wide["spec"]["versions"] == served["spec"]["versions"]:
                return InstallOutcome.LEFT
            self._print_kept(obj, served)
            await apply(self._client, CUSTOM_RESOURCE_DEFINITIONS, wide)
        except KubeError as error:
            raise InstallError(f"Error widening resource {name}: {error}") from error
        return InstallOutcome.WIDENED

    async def _without_loss(self, obj: JSONObject) -> JSONObject:
        """The definition to apply: that of this version, with the fields that only the installed one has."""
        name = obj["metadata"]["name"]
        try:
            served = await self._client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
        except NotFound:
            return obj
        self._print_kept(obj, served)
        return superset(obj, served)

    def _print_kept(self, obj: JSONObject, served: JSONObject) -> None:
        """Print which fields only the installed definition has."""
        if beyond := fields_beyond(obj, served):
            self._observer.say(
                f"{title(obj)}: kept {counted(len(beyond), 'field')} of the installed definition that"
                f" this version does not have, as objects may use them: {', '.join(beyond[:_FIELDS_SHOWN])}"
                f"{', ...' if len(beyond) > _FIELDS_SHOWN else ''}"
            )

    async def _other_role(self, obj: JSONObject) -> str:
        """The role of the existing ClusterRoleBinding if it differs from the wanted one; otherwise empty."""
        if obj["kind"] != CLUSTER_ROLE_BINDINGS.kind:
            return ""
        try:
            existing = await self._client.get(CLUSTER_ROLE_BINDINGS, obj["metadata"]["name"])
        except NotFound:
            return ""
        role: str = existing["roleRef"]["name"]
        return role if role != obj["roleRef"]["name"] else ""

    def _warn_of_other_role(self, binding: JSONObject, role: str) -> None:
        name = binding["metadata"]["name"]
        self._observer.warn(
            f"WARNING: ClusterRoleBinding/{name} still gives the server {role}. "
            f"To change that, run `kubectl delete clusterrolebinding {name}` and this command again."
        )

    async def _wait_for_crds(self, crds: Sequence[JSONObject]) -> None:
        """Wait until objects of all kinds can be created. Raises InstallError."""
        try:
            async with asyncio.timeout(CRD_TIMEOUT_SECONDS):
                for crd in crds:
                    while not await self._served(crd):  # noqa: ASYNC110 - nothing to be woken by
                        await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise InstallError("Error polling for CRDs: timed out waiting for the condition") from None
        except KubeError as error:
            raise InstallError(f"Error polling for CRDs: {error}") from error

    async def _served(self, crd: JSONObject) -> bool:
        if not _usable(await self._client.get(CUSTOM_RESOURCE_DEFINITIONS, crd["metadata"]["name"])):
            return False
        defined = defined_by(crd)
        assert defined is not None
        try:
            # For a moment the API server answers 404 although the definition is Established.
            await self._client.list_all(defined, "default")
        except NotFound:
            return False
        return True


def _usable(crd: JSONObject) -> bool:
    conditions = {c["type"]: c["status"] for c in (crd.get("status") or {}).get("conditions") or []}
    return conditions.get("Established") == "True" and conditions.get("NamesAccepted") == "True"


def differing(wanted: JSONObject, found: object, path: str) -> list[str]:
    """The fields of an object that are wanted otherwise than they are, as `spec.provider (aws, not gcp)`."""
    now = found if isinstance(found, dict) else {}
    fields: list[str] = []
    for name, value in wanted.items():
        if isinstance(value, dict):
            fields += differing(value, now.get(name), f"{path}.{name}")
        elif now.get(name) != value:
            is_long = len(f"{now.get(name)}{value}") > _LONGEST_VALUES  # as certificates are
            values = "" if is_long else f" ({now.get(name, 'unset')}, not {value})"
            fields.append(f"{path}.{name}{values}")
    return fields
