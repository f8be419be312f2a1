"""The flags of `install` and `uninstall`. (docs/spec: CLI 11)"""

from collections.abc import Callable
from functools import partial
from typing import Any

import click

from pinnace.cli.common.refused import OF_INSTALL, refusing
from pinnace.cli.flags import (
    Boolean,
    Command,
    DurationFlag,
    Enum,
    Number,
    boolean,
    comma_list,
    key_values,
    takes,
)
from pinnace.cli.install.flags import InstallFlags
from pinnace.cli.output.printing import output_flags
from pinnace.installing.options import KUBELET_ROOT


def _pod_resources(pod: str, *defaults: str, also: str = "") -> Callable[[Any], Any]:
    """The four flags for the requests and limits of a pod; `also` is another name of the pod."""

    def declare(function: Any) -> Any:
        names = ("cpu-request", "mem-request", "cpu-limit", "mem-limit")
        for name, default in reversed(list(zip(names, defaults, strict=True))):
            flags = [f"--{each}-pod-{name}" for each in (pod, also) if each]
            function = click.option(*flags, default=default, show_default=True, help="'0' for none.")(
                function
            )
        return function

    return declare


@click.command("install", cls=Command, short_help="Install the server and its resources in a cluster.")
@click.option(
    "--provider", default="", help="Provider of the default locations: aws, or filesystem for a folder."
)
@click.option("--bucket", default="", help="Bucket of the default backup location.")
@click.option("--prefix", default="", help="Path inside the bucket.")
@click.option("--secret-file", default="", help="File with the credentials of the default backup location.")
@boolean("--no-secret", help="Confirm that there is no secret file.")
@boolean("--no-default-backup-location", help="Make no backup location.")
@click.option("--image", default="", help="Image of the server; without it no server is deployed.")
@key_values("--pod-annotations", help="Annotations for the server's pod.")
@key_values("--pod-labels", help="Labels for the pods of the server and the node agent.")
@key_values("--sa-annotations", help="Annotations for the ServiceAccount.")
@click.option("--service-account-name", default="",
              help="Existing ServiceAccount of the pods, with its rights; none is created.")  # fmt: skip
@click.option("--server-priority-class-name", default="", help="PriorityClass of the server's pod.")
@click.option("--node-agent-priority-class-name", default="", help="PriorityClass of the node agent's pods.")
@click.option("--node-agent-configmap", default="", help="ConfigMap with settings of the node agents.")
@click.option(
    "--backup-repository-configmap", default="", help="ConfigMap with settings of new repositories of kopia."
)
@click.option("--repo-maintenance-job-configmap", default="",
              help="ConfigMap with settings of the Jobs that then maintain repositories.")  # fmt: skip
@_pod_resources("velero", "500m", "128Mi", "1000m", "512Mi")
@_pod_resources("restic", "500m", "512Mi", "1000m", "1Gi", also="node-agent")
@key_values(
    "--backup-location-config",
    help="Config of the backup location: region=...,s3Url=..., or path=/folder with filesystem.",
)
@key_values("--snapshot-location-config", help="Config of the snapshot location.")
@click.option(
    "--use-volume-snapshots", type=Boolean(), default=True, metavar="",
    help="Make a snapshot location (=false: none).",
)  # fmt: skip
@comma_list("--plugins", help="Images with plugins, comma-separated.")
@boolean("--use-restic", "--use-node-agent", help="Deploy the node agent, which backs up pod volumes.")
@boolean(
    "--privileged-node-agent", help="Run the node agent privileged, as SELinux or block volumes may need."
)
@click.option("--kubelet-root-dir", default=KUBELET_ROOT, show_default=True,
              help="Directory of the kubelet on each node.")  # fmt: skip
@boolean("--default-volumes-to-restic", "--default-volumes-to-fs-backup",
         help="Back up all pod volumes from their files unless opted out.")  # fmt: skip
@click.option("--uploader-type", type=Enum("kopia", "restic"), default=None,
              help="Program that saves pod volumes. [default: kopia; with --apply as it was]")  # fmt: skip
@click.option("--default-restic-prune-frequency", "--default-repo-maintain-frequency",
              type=DurationFlag(), default="0s",
              help="How often restic repositories are pruned; 0 leaves it to the server.")  # fmt: skip
@click.option("--restic-password-file", default="", help="File with the password of all restic repositories, "
              "instead of Velero's well-known one.")  # fmt: skip
@click.option("--pod-volume-operation-timeout", type=DurationFlag(), default="0s",
              help="How long the pod volumes of one run may take; 0 leaves it to the server.")  # fmt: skip
@click.option("--garbage-collection-frequency", type=DurationFlag(), default="0s",
              help="How often expired backups are looked for; 0 leaves it to the server.")  # fmt: skip
@click.option("--concurrent-backups", type=Number(whole=True, least=0), default=0,
              help="How many backups run at once; 0 leaves it to the server.")  # fmt: skip
@boolean("--schedule-skip-immediately",
         help="Leave out a backup that is due at once, for schedules that do not set it.")  # fmt: skip
@boolean("--default-snapshot-move-data",
         help="Move the data of CSI snapshots to the location, for backups that do not set it.")  # fmt: skip
@boolean("--restore-only", help="Deprecated: let the server run only what restores need.")
@boolean("--minimal-rbac", help="Give the server the rights it uses instead of cluster-admin.")
@boolean("--non-admin", help="Let tenants back up their own namespaces: definitions, roles and, with "
         "--image, the controller. With --features=NonAdmin the server itself is the controller")  # fmt: skip
@boolean("--apply", help="Bring what exists in line with these flags, instead of leaving it as it is.")
@boolean("--wait", help="Wait until the server, and the node agent, are ready.")
@boolean("--dry-run", help="Only print (with -o); send nothing.")
@boolean("--crds-only", help="Only the custom resource definitions.")
@click.option("--crds-version", default="v1", show_default=True,
              help="Accepted for scripts; v1 is always used.")  # fmt: skip
@click.option("--cacert", default="", help="CA bundle for the backup location.")
@click.option("--features", default="", help="Feature flags for the server, comma-separated.")
@partial(output_flags, help="Print the objects: json or yaml.")
@refusing(OF_INSTALL)
@takes(InstallFlags)
def command(ctx: click.Context, flags: InstallFlags) -> None:
    """Install custom resource definitions, namespace, access rights, a backup location and the server.

    Resources that exist already are left as they are. With --apply they are changed to what the flags say and
    keep all other fields; this is the way to move to another version.
    """
    from pinnace.cli.install.run import install

    install(ctx, flags)


@click.command("uninstall", cls=Command, short_help="Remove the server and its resources from a cluster.")
@click.option("--wait", type=Boolean(), default=True, metavar="",
              help="Wait until all is gone, as without this flag (=false: return at once).")  # fmt: skip
@boolean("--force", help="Do not ask.")
@click.pass_context
def uninstall(ctx: click.Context, /, wait: bool, force: bool) -> None:
    """Remove the server's namespace, its access rights and the custom resource definitions.

    All Backup, Restore and Schedule objects of the cluster go with the definitions. What is stored in the
    backup locations stays, and can be used again by another server or with --location.
    """
    from pinnace.cli.install import uninstall as uninstall_run

    uninstall_run.uninstall(ctx, wait=wait, force=force)
