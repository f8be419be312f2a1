"""`install`: the flags; the resources are made in install_resources.py. (docs/spec: CLI 11)"""

from pathlib import Path
from typing import Any

import click

from pinnace.cli.flags import Command, KeyValueMap, boolean, merge_maps
from pinnace.cli.output import output_flags, parse_output_flags


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
@click.option(
    "--pod-annotations", type=KeyValueMap(), multiple=True, help="Annotations for the server's pod."
)
@click.option(
    "--sa-annotations", type=KeyValueMap(), multiple=True, help="Annotations for the ServiceAccount."
)
@click.option("--velero-pod-cpu-request", default="500m", show_default=True, help="'0' for none.")
@click.option("--velero-pod-mem-request", default="128Mi", show_default=True, help="'0' for none.")
@click.option("--velero-pod-cpu-limit", default="1000m", show_default=True, help="'0' for none.")
@click.option("--velero-pod-mem-limit", default="512Mi", show_default=True, help="'0' for none.")
@click.option(
    "--backup-location-config", type=KeyValueMap(), multiple=True,
    help="Config of the backup location: region=...,s3Url=..., or path=/folder with filesystem.",
)  # fmt: skip
@click.option(
    "--snapshot-location-config", type=KeyValueMap(), multiple=True, help="Config of the snapshot location."
)
@click.option(
    "--use-volume-snapshots", type=click.BOOL, default=True, help="Make a snapshot location (=false: none)."
)
@boolean("--dry-run", help="Only print (with -o); send nothing.")
@boolean("--crds-only", help="Only the custom resource definitions.")
@click.option("--cacert", default="", help="CA bundle for the backup location.")
@click.option("--features", default="", help="Feature flags for the server, comma-separated.")
@output_flags
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:
    """Install custom resource definitions, namespace, access rights, a backup location and the server.

    Resources that exist already are left as they are.

    \b
    A bucket:  pinnace install --provider aws --bucket backups --secret-file ./credentials \\
                   --backup-location-config region=eu-central-1
    A folder:  pinnace install --provider filesystem --backup-location-config path=/srv/backups
    """
    from pinnace.cli import install_run

    output = parse_output_flags(
        flags.pop("output_format"), flags.pop("label_columns"), flags.pop("show_labels")
    )
    for key in ("pod_annotations", "sa_annotations", "backup_location_config", "snapshot_location_config"):
        flags[key] = merge_maps(flags[key])
    for key in ("secret_file", "cacert"):
        flags[f"{key}_content"] = Path(flags[key]).read_bytes() if flags[key] else b""
    install_run.install(ctx, output, flags)
