"""`nonadmin`: the commands of tenants for their own namespace, and that of their process. (docs/spec: NAC)

Each command of a tenant needs rights in one namespace only: that of `--namespace`, else that of the
kubeconfig's context, else `default`.
"""

from collections.abc import Sequence

from pinnace.cli.common.commands import group_of
from pinnace.cli.common.options import GetOptions, LogsOptions
from pinnace.cli.declaring.commands import Command, Examples, lazy_command
from pinnace.cli.declaring.fields import Options, arguments, switch


def _get(noun: str, things: str, name: str) -> Command:
    return lazy_command(
        "get",
        GetOptions,
        "pinnace.cli.nonadmin.reading:get",
        noun,
        noun=f"nonadmin {noun}",
        words={"selects": "Only", "things": f"{noun}s"},
        short_help=f"List {noun}s.",
        help=f"List {noun}s, or the named ones.",
        examples=(
            (f"List the {things} of the context's namespace", f"pinnace nonadmin {noun} get"),
            ("Of another namespace", f"pinnace nonadmin {noun} get -n shop"),
            ("Show one as it is stored", f"pinnace nonadmin {noun} get {name} -o yaml"),
        ),
    )


class TenantDescribeOptions(Options):
    """`nonadmin ... describe`."""

    names: Sequence[str] = arguments("[NAME...]")


def _describe(noun: str, name: str) -> Command:
    return lazy_command(
        "describe",
        TenantDescribeOptions,
        "pinnace.cli.nonadmin.reading:describe",
        noun,
        noun=f"nonadmin {noun}",
        short_help=f"Describe {noun}s.",
        help=f"Describe {noun}s in full.",
        examples=(
            (
                "Describe one: what was asked for, and what was done",
                f"pinnace nonadmin {noun} describe {name}",
            ),
            ("Describe all of the namespace", f"pinnace nonadmin {noun} describe"),
            ("Describe all of another namespace", f"pinnace nonadmin {noun} describe -n shop"),
        ),
    )


def _logs(noun: str, name: str, level: str) -> Command:
    return lazy_command(
        "logs",
        LogsOptions,
        "pinnace.cli.nonadmin.reading:logs",
        noun,
        noun=f"nonadmin {noun}",
        words={"object": "NAME"},
        short_help=f"Print the log of a {noun}.",
        help=f"Print the log of a finished {noun} that is in your own storage location.",
        examples=(
            (f"Print the log of a {noun}", f"pinnace nonadmin {noun} logs {name}"),
            ("In another namespace", f"pinnace nonadmin {noun} logs {name} -n shop"),
            (f"Only its {level}s", f"pinnace nonadmin {noun} logs {name} | grep level={level}"),
        ),
    )


class TenantDeleteOptions(Options):
    """`nonadmin ... delete`."""

    names: Sequence[str] = arguments("NAME...", least=0)
    confirm: bool = switch(help="Do not ask.")
    keep_data: bool = False


class TenantBackupDeleteOptions(TenantDeleteOptions):
    """`nonadmin backup delete`."""

    keep_data: bool = switch(help="Delete the object only; the backup stays in storage, and may come back.")


class TenantResumeOptions(Options):
    """Continue a restore of the namespace that was interrupted, as the server was killed or stopped.

    What it created counts as created, hooks that ran are not run again, and volumes whose data is there are
    not read again. It is checked again as at first, by the rules that the administrator has now.
    """

    names: Sequence[str] = arguments("NAME")


def _delete(noun: str, help: str, examples: Examples) -> Command:
    return lazy_command(
        "delete",
        TenantBackupDeleteOptions if noun == "backup" else TenantDeleteOptions,
        "pinnace.cli.nonadmin.deleting:delete",
        noun,
        noun=f"nonadmin {noun}",
        short_help=f"Delete {noun}s.",
        help=help,
        examples=examples,
    )


backup = group_of(
    "backup",
    "Work with backups of your own namespace.",
    _get("backup", "backups", "shop"),
    _describe("backup", "shop"),
    _delete(
        "backup",
        "Delete backups for good: what is stored, and their restores.",
        (
            ("Delete a backup and what is stored of it", "pinnace nonadmin backup delete shop"),
            ("Delete the object and keep what is stored", "pinnace nonadmin backup delete shop --keep-data"),
            ("Delete two without a question", "pinnace nonadmin backup delete shop blog --confirm"),
        ),
    ),
    _logs("backup", "shop", "error"),
    lazy={"create": "pinnace.cli.nonadmin.create_backup:create_backup"},
)
restore = group_of(
    "restore",
    "Work with restores of your own namespace.",
    _get("restore", "restores", "shop-again"),
    _describe("restore", "shop-again"),
    _delete(
        "restore",
        "Delete restores; what they restored stays.",
        (
            ("Delete one; what it restored stays", "pinnace nonadmin restore delete again"),
            ("In another namespace", "pinnace nonadmin restore delete again -n shop"),
            ("Delete two without a question", "pinnace nonadmin restore delete first second --confirm"),
        ),
    ),
    _logs("restore", "again", "warning"),
    lazy_command(
        "resume",
        TenantResumeOptions,
        "pinnace.cli.nonadmin.resuming:resume",
        noun="nonadmin restore",
        short_help="Continue a restore that was interrupted.",
        examples=(
            ("Continue a restore whose server was killed", "pinnace nonadmin restore resume again"),
            ("In another namespace", "pinnace nonadmin restore resume again -n shop"),
            ("In another cluster", "pinnace nonadmin restore resume again --kubecontext test"),
        ),
    ),
    lazy={"create": "pinnace.cli.nonadmin.create_restore:create_restore"},
)
location = group_of(
    "storage-location",
    "Work with locations in your own buckets.",
    _get("storage-location", "storage locations", "mine"),
    _describe("storage-location", "mine"),
    _delete(
        "storage-location",
        "Delete storage locations and the backup objects on them; the data stays.",
        (
            ("Delete one; the data in the bucket stays", "pinnace nonadmin storage-location delete mine"),
            ("In another namespace", "pinnace nonadmin storage-location delete mine -n shop"),
            ("Without a question", "pinnace nonadmin storage-location delete mine --confirm"),
        ),
    ),
    lazy={"create": "pinnace.cli.nonadmin.create_location:create_location"},
)
group = group_of(
    "nonadmin",
    "Back up and restore your own namespace, without rights in the server's.",
    backup,
    restore,
    location,
    short_help="Back up and restore your own namespace (self-service).",
    lazy={"server": "pinnace.cli.nonadmin.server:server"},
)
