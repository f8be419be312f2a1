"""The work of `install`: checks the flags, prints or creates the objects. (docs/spec: CLI 11.1, 11.3)"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import click

from pinnace.aio.small_files import read_small_file
from pinnace.api.definitions.crd_merge import fields_beyond, superset
from pinnace.api.objects import JSONObject
from pinnace.api.values.quantities import resource_requirements
from pinnace.api.velero.pod_volume import KOPIA
from pinnace.cli.common.cluster import say_cluster
from pinnace.cli.connect import command_line, need_no_location, open_cluster, run_async, settings_of
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.flags import as_typed
from pinnace.cli.guard import complain
from pinnace.cli.install import resources as make
from pinnace.cli.install.access import ALL_RIGHTS, RBAC
from pinnace.cli.install.apply import MANAGER, apply, print_overruled
from pinnace.cli.install.checks import check, snapshots_warning
from pinnace.cli.install.config_maps import config_map_problem, named_config_maps
from pinnace.cli.install.finalizers import defined_by
from pinnace.cli.install.flags import GivenFiles, InstallFlags
from pinnace.cli.install.live import LiveWorkloads, read_live
from pinnace.cli.install.options import InstallOptions
from pinnace.cli.install.report import (
    APPLIED,
    CREATED,
    LEFT,
    NOT_CHANGED,
    WIDENED,
    Report,
    print_plan,
    title,
)
from pinnace.cli.install.wait import wait_for_workloads
from pinnace.cli.install.workloads import UPLOADER_FLAG
from pinnace.cli.output.printing import encode
from pinnace.cli.settings import Settings
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
from pinnace.server.checks import FORMER_NODE_AGENT
from pinnace.storage.providers import FILESYSTEM, location_of

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
POLL_SECONDS = 1.0


def install(ctx: click.Context, flags: InstallFlags) -> None:
    """Print the resources, create them, or both."""
    output, files = flags.printed(), _read_files(flags)
    if output.format not in (None, "json", "yaml"):
        raise InvalidInput(
            f"'{output.format}' format is not supported with 'install' command: its objects are printed by "
            "-o json and -o yaml"
        )
    settings = settings_of(ctx)
    need_no_location(settings, "install")
    _check_crds_version(flags.crds_version)
    crds, others = make.crds(non_admin=flags.with_non_admin), []
    if not flags.crds_only:
        if problem := check(flags, files):
            raise InvalidInput(as_typed(ctx, problem))
        options = _options(settings, flags, files)
        others = make.resources(options)
        _check_config_maps(settings, flags)
    if warning := snapshots_warning(flags):
        complain(f"WARNING: {warning}.")
    if output.format:
        listing = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [*crds, *others]}
        click.echo(encode(listing, output.format))
    if flags.dry_run:
        if not output.format:
            print_plan([*crds, *others], settings.namespace)
        return
    try:
        keeps_uploader = flags.apply and flags.uploader_type is None
        live = run_async(
            _send(settings, crds, others, merge=flags.apply, wait=flags.wait, keep=keeps_uploader)
        )
    except CommandError as error:
        raise CommandError(f"Error installing Pinnace: {error}") from error
    _closing_words(settings, flags, live)


def _check_config_maps(settings: Settings, flags: InstallFlags) -> None:
    """Check the ConfigMaps that the flags name. A dry run without a cluster warns that they were not checked.

    Raises:
        CommandError: one does not exist or is not valid, or the cluster does not answer.
    """
    named = named_config_maps(flags)
    if not named:
        return
    problem = ""
    try:
        problem = run_async(_config_map_problem(settings, named))
    except CommandError as error:
        if not flags.dry_run:
            raise
        complain(f"WARNING: {', '.join(named)}: not checked, as the cluster cannot be asked: {error}")
    if problem:
        raise CommandError(problem)


async def _config_map_problem(settings: Settings, named: Mapping[str, str]) -> str:
    async with open_cluster(settings) as client:
        try:
            return await config_map_problem(client, settings.namespace, named)
        except Forbidden as error:
            complain(f"WARNING: {', '.join(named)}: not checked: {error}")
            return ""


def _read_files(flags: InstallFlags) -> GivenFiles:
    """The files that the flags name. Raises OSError."""

    def content(path: str) -> bytes:
        return read_small_file(Path(path)) if path else b""

    return GivenFiles(
        secret=content(flags.secret_file),
        ca_cert=content(flags.cacert),
        restic_password=content(flags.restic_password_file),
    )


def _closing_words(settings: Settings, flags: InstallFlags, live: LiveWorkloads) -> None:
    """Print what is there now, what is not, and what is not known."""
    # Applied workloads have the wanted images, apart from containers that others have added.
    foreign = [] if flags.apply else live.foreign()
    if flags.crds_only:
        click.echo("The custom resource definitions are installed.")
        return
    if flags.service_account_name:
        click.echo(
            f"No ServiceAccount and no rights were made: {flags.service_account_name} in namespace "
            f"{settings.namespace} must exist, bound to {ALL_RIGHTS} or to the rights of "
            "--minimal-rbac."
        )
    if not flags.secret_file and flags.provider not in FILESYSTEM:
        click.echo("\nNo secret file was specified, no Secret created.\n")
    if flags.no_default_backup_location:
        click.echo("\nNo bucket and provider were specified, no default backup storage location created.\n")
    if flags.image and foreign:
        unknown = f" Could not read {'; '.join(live.unread)}." if live.unread else ""
        click.echo(
            f"Still running: {'; '.join(foreign)}. Give --apply, too, to run {flags.image} in their place."
            f"{unknown}"
        )
    elif flags.image and live.unread:
        doctor = command_line(settings, "doctor")
        complain(
            "WARNING: everything was sent, but it is not known what runs now: could not read "
            f"{'; '.join(live.unread)}. `{doctor}` looks again; it needs an account that may read them."
        )
    elif flags.image:
        click.echo(
            f"Pinnace is installed. Use 'kubectl logs deployment/velero -n {settings.namespace}' "
            "to view the status."
        )
    else:
        click.echo(
            f"The resources are installed. No --image was given, so no server was deployed: start one with "
            f"`pinnace server -n {settings.namespace}`."
        )
        if flags.non_admin and not flags.server_is_non_admin:
            click.echo(f"For self-service, start `pinnace nonadmin server -n {settings.namespace}` too.")


def _options(settings: Settings, flags: InstallFlags, files: GivenFiles) -> InstallOptions:
    provider, bucket, config = location_of(flags.provider, flags.bucket, flags.backup_location_config)
    return InstallOptions(
        namespace=settings.namespace,
        provider=provider,
        bucket=bucket,
        prefix=flags.prefix,
        ca_cert=files.ca_cert,
        backup_location_config=config,
        backup_location=not flags.no_default_backup_location,
        snapshot_location_config=flags.snapshot_location_config,
        snapshot_location=flags.use_volume_snapshots,
        secret=files.secret,
        image=flags.image,
        pod_annotations=flags.pod_annotations,
        service_account_annotations=flags.sa_annotations,
        resources=_requirements(
            flags.velero_pod_cpu_request,
            flags.velero_pod_mem_request,
            flags.velero_pod_cpu_limit,
            flags.velero_pod_mem_limit,
        ),
        features=flags.features,
        used_rights_only=flags.minimal_rbac,
        plugins=flags.plugins,
        restore_only=flags.restore_only,
        server_arguments=_server_arguments(flags),
        service_account=flags.service_account_name,
        pod_labels=flags.pod_labels,
        server_priority_class=flags.server_priority_class_name,
        node_agent_priority_class=flags.node_agent_priority_class_name,
        node_agent_config_map=flags.node_agent_configmap,
        privileged_node_agent=flags.privileged_node_agent,
        kubelet_root=flags.kubelet_root_dir,
        default_volumes_to_restic=flags.default_volumes_to_restic,
        uploader=flags.uploader_type or KOPIA,
        restic_prune_frequency=flags.default_restic_prune_frequency,
        node_agent=flags.use_restic,
        restic_resources=_requirements(
            flags.restic_pod_cpu_request,
            flags.restic_pod_mem_request,
            flags.restic_pod_cpu_limit,
            flags.restic_pod_mem_limit,
        ),
        restic_password=files.restic_password,
        non_admin=flags.with_non_admin,
    )


def _server_arguments(flags: InstallFlags) -> list[str]:
    """The flags to pass on to the server; those that were not given are left out."""
    given = {
        "--garbage-collection-frequency": flags.garbage_collection_frequency,
        "--fs-backup-timeout": flags.pod_volume_operation_timeout,
        "--concurrent-backups": flags.concurrent_backups,
        "--backup-repository-configmap": flags.backup_repository_configmap,
        "--repo-maintenance-job-configmap": flags.repo_maintenance_job_configmap,
    }
    switches = {
        "--schedule-skip-immediately": flags.schedule_skip_immediately,
        "--default-snapshot-move-data": flags.default_snapshot_move_data,
    }
    arguments = [f"{name}={value}" for name, value in given.items() if value]
    return [*arguments, *(name for name, is_given in switches.items() if is_given)]


def _requirements(
    cpu_request: str, mem_request: str, cpu_limit: str, mem_limit: str
) -> dict[str, dict[str, str]]:
    try:
        return resource_requirements(cpu_request, mem_request, cpu_limit, mem_limit)
    except ValueError as error:
        raise InvalidInput(str(error)) from error


def _check_crds_version(version: str) -> None:
    """Refuse an unknown version; v1 is always used: every supported cluster has it. (docs/spec: CLI 11.1)"""
    if version not in ("v1", "v1beta1"):
        raise InvalidInput("CRD version must be v1beta1 or v1")
    if version == "v1beta1":
        complain("The custom resource definitions are made in version v1, not v1beta1.")


async def _send(
    settings: Settings,
    crds: list[JSONObject],
    others: list[JSONObject],
    *,
    merge: bool,
    wait: bool,
    keep: bool,
) -> LiveWorkloads:
    """Send the objects and say what was done. Returns the workloads as they are now."""
    send = _apply if merge else _create
    sent = []
    report = Report(len(crds) + len(others))
    async with open_cluster(settings) as client:
        say_cluster(client, "Installing into")
        try:
            for crd in crds:
                report.begin(crd)
                report.done(crd, await send(client, crd))
            await _wait_for_crds(client, crds)
            for obj in others:
                report.begin(obj)
                if keep and obj["kind"] == DEPLOYMENTS.kind and obj["metadata"]["name"] == "velero":
                    await _keep_uploader(client, obj)
                if obj["kind"] == DAEMON_SETS.kind and not await _replaces(client, obj, merge=merge):
                    continue
                report.done(obj, await send(client, obj))
                sent.append(obj)
        finally:
            report.close()
        for line in report.summary():
            click.echo(line)
        live = await read_live(client, sent)
        _warn_of_stopped(live)
        for obj in sent:
            if obj["kind"] == DAEMON_SETS.kind:
                await _warn_of_refused_pods(client, obj)
        if wait:
            await wait_for_workloads(client, sent)
    return live


def _warn_of_stopped(live: LiveWorkloads) -> None:
    for workload in live.stopped():
        name, namespace = workload["metadata"]["name"], workload["metadata"]["namespace"]
        complain(
            f"WARNING: Deployment/{name} has 0 replicas, so it does not run. Start it: "
            f"kubectl -n {namespace} scale deployment/{name} --replicas=1"
        )


async def _warn_of_refused_pods(client: KubeClient, daemon_set: JSONObject) -> None:
    """Warn if the namespace refuses the pods of the node agent, which only events would show later.

    Without --apply a namespace that was there before keeps its labels, and the level of one without labels is
    a setting of the API server.
    """
    namespace = daemon_set["metadata"]["namespace"]
    template = daemon_set["spec"]["template"]
    metadata = {**template["metadata"], "generateName": f"{daemon_set['metadata']['name']}-"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    try:
        await client.create(PODS, pod, namespace, dry_run=True)
    except Forbidden as error:
        if "violates PodSecurity" in str(error):
            complain(
                f"WARNING: namespace {namespace} refuses the pods of the node agent: {error}. --apply "
                f"labels the namespace, and so does `kubectl label --overwrite namespace {namespace} "
                "pod-security.kubernetes.io/enforce=privileged`"
            )
    except KubeError:
        return  # the DaemonSet is there; whether its pods run is what --wait waits for


async def _keep_uploader(client: KubeClient, deployment: JSONObject) -> None:
    """Keep the uploader of the installed server. If it has no such flag, it uses restic, and gets none."""
    metadata = deployment["metadata"]
    try:
        live = await client.get(DEPLOYMENTS, metadata["name"], metadata["namespace"])
    except NotFound:
        return
    except KubeError as error:
        raise CommandError(f"Error reading Deployment {metadata['name']}: {error}") from error
    arguments: list[str] = []
    for container in ((live["spec"].get("template") or {}).get("spec") or {}).get("containers") or []:
        arguments += [each for each in container.get("args") or [] if each.startswith(UPLOADER_FLAG)]
    for container in deployment["spec"]["template"]["spec"]["containers"]:
        others = [each for each in container["args"] if not each.startswith(UPLOADER_FLAG)]
        container["args"] = [*others, *arguments[-1:]]


async def _replaces(client: KubeClient, obj: JSONObject, *, merge: bool) -> bool:
    """Delete a node agent under its former name with --apply. Returns whether a new one may be created.

    (docs/adr/041)
    """
    namespace = obj["metadata"]["namespace"]
    try:
        found = await client.get(DAEMON_SETS, FORMER_NODE_AGENT, namespace)
    except NotFound:
        return True
    if not merge or (found["metadata"].get("labels") or {}).get("component") != "velero":
        complain(
            f"WARNING: DaemonSet/{obj['metadata']['name']} is not created: the node agent runs as "
            f"DaemonSet/{FORMER_NODE_AGENT}, its name before Velero 1.10, and two would take each other's "
            "work. --apply replaces it."
        )
        return False
    await client.delete(DAEMON_SETS, FORMER_NODE_AGENT, namespace)
    click.echo(f"DaemonSet/{FORMER_NODE_AGENT}: deleted, as DaemonSet/{obj['metadata']['name']} replaces it")
    return True


async def _create(client: KubeClient, obj: JSONObject) -> str:
    """Create the object if there is none. Returns what was done."""
    name = title(obj)
    try:
        await client.create(
            RESOURCES[obj["kind"]], obj, obj["metadata"].get("namespace"), field_manager=MANAGER
        )
    except AlreadyExists:
        if obj["kind"] == CUSTOM_RESOURCE_DEFINITIONS.kind:
            return await _widen(client, obj)
        # A user who asks for fewer rights must not believe that the server has only those.
        if await _other_role(client, obj) == ALL_RIGHTS:
            _warn_of_other_role(obj, ALL_RIGHTS)
        return LEFT
    except KubeError as error:
        raise CommandError(f"Error creating resource {name}: {error}") from error
    return CREATED


async def _apply(client: KubeClient, obj: JSONObject) -> str:
    """Change the object to the wanted one. Returns what was done."""
    name = title(obj)
    try:
        # The role of a binding cannot be changed: the API server would refuse the whole object.
        if other := await _other_role(client, obj):
            _warn_of_other_role(obj, other)
            return NOT_CHANGED
        if obj["kind"] == CUSTOM_RESOURCE_DEFINITIONS.kind:
            # Fields of other managers are kept, so none is overruled.
            await apply(client, CUSTOM_RESOURCE_DEFINITIONS, await _without_loss(client, obj))
            overruled = []
        else:
            overruled = await apply(client, RESOURCES[obj["kind"]], obj)
    except KubeError as error:
        raise CommandError(f"Error applying resource {name}: {error}") from error
    print_overruled(name, overruled)
    return APPLIED


async def _widen(client: KubeClient, obj: JSONObject) -> str:
    """Add the fields of this version to an existing definition, so that objects do not lose them."""
    name = title(obj)
    try:
        served = await client.get(CUSTOM_RESOURCE_DEFINITIONS, obj["metadata"]["name"])
        wide = superset(obj, served)
        if wide["spec"]["versions"] == served["spec"]["versions"]:
            return LEFT
        _print_kept(obj, served)
        await apply(client, CUSTOM_RESOURCE_DEFINITIONS, wide)
    except KubeError as error:
        raise CommandError(f"Error widening resource {name}: {error}") from error
    return WIDENED


async def _without_loss(client: KubeClient, obj: JSONObject) -> JSONObject:
    """The definition to apply: that of this version, with the fields that only the installed one has."""
    name = obj["metadata"]["name"]
    try:
        served = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except NotFound:
        return obj
    _print_kept(obj, served)
    return superset(obj, served)


def _print_kept(obj: JSONObject, served: JSONObject) -> None:
    """Print which fields only the installed definition has."""
    if beyond := fields_beyond(obj, served):
        click.echo(
            f"{obj['kind']}/{obj['metadata']['name']}: kept {len(beyond)} fields of the installed definition "
            f"that this version does not have, as objects may use them: {', '.join(beyond[:_FIELDS_SHOWN])}"
            f"{', ...' if len(beyond) > _FIELDS_SHOWN else ''}"
        )


async def _other_role(client: KubeClient, obj: JSONObject) -> str:
    """The role of the existing ClusterRoleBinding if it differs from the wanted one; otherwise empty."""
    if obj["kind"] != CLUSTER_ROLE_BINDINGS.kind:
        return ""
    try:
        existing = await client.get(CLUSTER_ROLE_BINDINGS, obj["metadata"]["name"])
    except NotFound:
        return ""
    role: str = existing["roleRef"]["name"]
    return role if role != obj["roleRef"]["name"] else ""


def _warn_of_other_role(binding: JSONObject, role: str) -> None:
    name = binding["metadata"]["name"]
    complain(
        f"WARNING: ClusterRoleBinding/{name} still gives the server {role}. "
        f"To change that, run `kubectl delete clusterrolebinding {name}` and this command again."
    )


async def _wait_for_crds(client: KubeClient, crds: list[JSONObject]) -> None:
    """Wait until objects of all kinds can be created. Raises CommandError."""
    try:
        async with asyncio.timeout(CRD_TIMEOUT_SECONDS):
            for crd in crds:
                while not await _served(client, crd):  # noqa: ASYNC110 - nothing to be woken by
                    await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise CommandError("Error polling for CRDs: timed out waiting for the condition") from None
    except KubeError as error:
        raise CommandError(f"Error polling for CRDs: {error}") from error


async def _served(client: KubeClient, crd: JSONObject) -> bool:
    if not _usable(await client.get(CUSTOM_RESOURCE_DEFINITIONS, crd["metadata"]["name"])):
        return False
    defined = defined_by(crd)
    assert defined is not None
    try:
        # For a moment the API server answers 404 although the definition is Established.
        await client.list_all(defined, "default")
    except NotFound:
        return False
    return True


def _usable(crd: JSONObject) -> bool:
    conditions = {c["type"]: c["status"] for c in (crd.get("status") or {}).get("conditions") or []}
    return conditions.get("Established") == "True" and conditions.get("NamesAccepted") == "True"
