"""The work of `install`: checks the flags, prints or creates the objects. (docs/spec: CLI 11.1, 11.3)"""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from pinnace.aio.small_files import read_small_file
from pinnace.api.objects import JSONObject
from pinnace.api.pod_resources import PodResources
from pinnace.api.values.durations import Duration
from pinnace.cli.common.cluster import say_cluster
from pinnace.cli.connect import command_line, need_no_location, open_cluster, run_async, settings_of
from pinnace.cli.declaring.parsing import as_typed
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.install.install import InstallFlags
from pinnace.cli.install.report import Report, print_plan
from pinnace.cli.output.printing import encode
from pinnace.cli.settings import Settings
from pinnace.installing import resources as make
from pinnace.installing.access import ALL_RIGHTS
from pinnace.installing.checks import check, snapshots_warning
from pinnace.installing.config_maps import config_map_problem
from pinnace.installing.live import LiveWorkloads
from pinnace.installing.options import InstallOptions
from pinnace.installing.sending import Installer
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Forbidden
from pinnace.storage.providers import FILESYSTEM
from pinnace.volumes.uploader.passwords import (
    REPOSITORY_SECRET_NAME,
    SECRET_KEY,
    read_secrets,
    with_public_password,
)


def install(ctx: click.Context, flags: InstallFlags) -> None:
    """Print the resources, create them, or both."""
    output, options = flags.printed(), _options(flags)
    if output.format not in (None, "json", "yaml"):
        raise InvalidInput(
            f"'{output.format}' format is not supported with 'install' command: its objects are printed by "
            "-o json and -o yaml"
        )
    settings = settings_of(ctx)
    need_no_location(settings, "install")
    _check_crds_version(flags.crds_version)
    crds, others = make.crds(non_admin=options.with_non_admin), []
    if not flags.crds_only:
        if problem := check(options):
            raise InvalidInput(as_typed(ctx, problem))
        others = make.resources(options, settings.namespace)
        _check_config_maps(settings, flags, options.config_maps)
        if warning := snapshots_warning(options):
            complain(f"WARNING: {warning}.")
    if output.format:
        listing = {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [*crds, *others]}
        click.echo(encode(listing, output.format))
    if flags.dry_run:
        if not output.format:
            print_plan([*crds, *others], settings.namespace)
        return
    try:
        live, passwords = run_async(_send(settings, options, crds, others))
    except CommandError as error:
        raise CommandError(f"Error installing Pinnace: {error}") from error
    _closing_words(settings, flags, options, live)
    if not flags.crds_only:
        _words_about_password(settings, options, passwords)


def _check_config_maps(settings: Settings, flags: InstallFlags, named: Mapping[str, str]) -> None:
    """Check the ConfigMaps that the flags name. A dry run without a cluster warns that they were not checked.

    Raises:
        CommandError: one does not exist or is not valid, or the cluster does not answer.
    """
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


def _closing_words(
    settings: Settings, flags: InstallFlags, options: InstallOptions, live: LiveWorkloads
) -> None:
    """Print what is there now, what is not, and what is not known."""
    # Applied workloads have the wanted images, apart from containers that others have added.
    foreign = [] if flags.apply else live.foreign()
    if flags.crds_only:
        click.echo("The custom resource definitions are installed.")
        return
    if flags.service_account:
        click.echo(
            f"No ServiceAccount and no rights were made: {flags.service_account} in namespace "
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
        if options.non_admin and not options.server_is_non_admin:
            click.echo(f"For self-service, start `pinnace nonadmin server -n {settings.namespace}` too.")


class _Passwords(msgspec.Struct, frozen=True):
    """The password of the repositories.

    Attributes:
        is_new: whether no Secret had one before.
        public: the Secrets that have Velero's public one now.
    """

    is_new: bool
    public: list[str]


def _words_about_password(settings: Settings, options: InstallOptions, passwords: _Passwords) -> None:
    """Say which password volumes are saved under, and that it must be kept."""
    if passwords.public:
        complain(
            "WARNING: volumes are saved under Velero's public default password (Secret "
            f"{', '.join(passwords.public)}): whoever can read the bucket can read them. "
            f"`{command_line(settings, 'repo', 'change-password')}` gives them another one."
        )
    elif options.repository_password is None and passwords.is_new:
        click.echo(
            "The server makes a random password for the repositories of volumes when it starts; those that a "
            "location has already keep theirs. Without it their data is lost with this cluster: keep a copy "
            "elsewhere, by\n"
            f"  kubectl -n {settings.namespace} get secret {REPOSITORY_SECRET_NAME} "
            f"-o jsonpath='{{.data.{SECRET_KEY}}}' | base64 -d > repository-password"
        )


_SAME: Final = frozenset(field.name for field in fields(InstallOptions)) & set(InstallFlags.__struct_fields__)
"""The flags that are options as they are."""


def _options(flags: InstallFlags) -> InstallOptions:
    """The options that the flags express, with the content of the files that they name. Raises OSError."""

    def content(path: str) -> bytes | None:
        return read_small_file(Path(path)) if path else None

    return InstallOptions(
        **{name: _plain(getattr(flags, name)) for name in _SAME},
        backup_location=not flags.no_default_backup_location,
        secret=content(flags.secret_file),
        ca_cert=content(flags.cacert) or b"",
        server_resources=PodResources(
            cpu_request=flags.velero_pod_cpu_request,
            memory_request=flags.velero_pod_mem_request,
            cpu_limit=flags.velero_pod_cpu_limit,
            memory_limit=flags.velero_pod_mem_limit,
        ),
        node_agent_resources=PodResources(
            cpu_request=flags.restic_pod_cpu_request,
            memory_request=flags.restic_pod_mem_request,
            cpu_limit=flags.restic_pod_cpu_limit,
            memory_limit=flags.restic_pod_mem_limit,
        ),
        repository_password=content(flags.restic_password_file),
    )


def _plain(value: Any) -> Any:
    """A value of a flag as options have it: a duration is a text, and nothing an empty one."""
    if value is None:
        return ""
    return (str(value) if value else "") if isinstance(value, Duration) else value


def _check_crds_version(version: str) -> None:
    """Refuse an unknown version; v1 is always used: every supported cluster has it. (docs/spec: CLI 11.1)"""
    if version not in ("v1", "v1beta1"):
        raise InvalidInput("CRD version must be v1beta1 or v1")
    if version == "v1beta1":
        complain("The custom resource definitions are made in version v1, not v1beta1.")


async def _send(
    settings: Settings, options: InstallOptions, crds: list[JSONObject], others: list[JSONObject]
) -> tuple[LiveWorkloads, _Passwords]:
    """Send the objects and print what was done. Returns workloads and passwords as they are now."""
    async with open_cluster(settings) as client:
        say_cluster(client, "Installing into")
        report = Report(len(crds) + len(others))
        installer = Installer(client, report, merge=options.apply, keep_uploader=options.keeps_uploader)
        before = await _secrets(client, settings.namespace)
        live = await installer.install(crds, others, wait=options.wait)
        after = await _secrets(client, settings.namespace)
        return live, _Passwords(is_new=not before, public=with_public_password(after))


async def _secrets(client: KubeClient, namespace: str) -> dict[str, JSONObject]:
    """The Secrets with the password of the repositories; none for a user who may not read them."""
    try:
        return await read_secrets(client, namespace)
    except Forbidden:
        return {}
