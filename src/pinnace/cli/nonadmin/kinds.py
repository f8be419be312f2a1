"""The kinds of the tenants' commands, and the namespace that the commands work in."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.objects import JSONObject, listed, member, text
from pinnace.cli.connect import cluster_of, need_no_location, settings_of
from pinnace.cli.declaring.global_flags import GlobalFlags
from pinnace.cli.output import cells
from pinnace.cli.output.printing import Table
from pinnace.kube.resources import APIResource
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_LOCATIONS, NON_ADMIN_RESTORES
from pinnace.store_access.user_agent import user_agent

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantKind:
    """A kind of requests.

    Attributes:
        mirror: the member of its status that shows the server's object.
        spec: the member of its spec that says what is wanted.
        extra: a column that only this kind has: its heading, and a function for its text.
    """

    resource: APIResource
    mirror: str
    spec: str
    extra: tuple[str, cells.Cell]

    def table(self) -> Table:
        """The table of the requests, with their state, that of the server's work, and the extra column."""

        def position(obj: JSONObject) -> str:
            found = member(obj, "status", "queueInfo", "estimatedQueuePosition")
            return "" if found is None else str(found)

        now = SYSTEM_CLOCK.now()
        return Table(
            columns=(
                ("NAME", cells.name),
                ("REQUEST", cells.phase),
                ("STATUS", cells.field("status", self.mirror, "status", "phase")),
                self.extra,
                ("QUEUE", position),
                ("CREATED", cells.moment("metadata", "creationTimestamp")),
                ("REASON", reason),
            ),
            wide=(("AGE", lambda obj: cells.age(obj, now)),),
        )


def reason(obj: JSONObject) -> str:
    """Why a request is refused; empty if it is not."""
    conditions = listed(obj, "status", "conditions")
    refusals = [text(each, "message") for each in conditions if text(each, "status") == "False"]
    return refusals[-1] if refusals else ""


KINDS = {
    "backup": TenantKind(
        resource=NON_ADMIN_BACKUPS,
        mirror="veleroBackup",
        spec="backupSpec",
        extra=("STORAGE LOCATION", cells.field("spec", "backupSpec", "storageLocation", absent="default")),
    ),
    "restore": TenantKind(
        resource=NON_ADMIN_RESTORES,
        mirror="veleroRestore",
        spec="restoreSpec",
        extra=("BACKUP", cells.field("spec", "restoreSpec", "backupName")),
    ),
    "storage-location": TenantKind(
        resource=NON_ADMIN_LOCATIONS,
        mirror="veleroBackupStorageLocation",
        spec="backupStorageLocationSpec",
        extra=("BUCKET", cells.field("spec", "backupStorageLocationSpec", "objectStorage", "bucket")),
    ),
}


@dataclass(frozen=True, slots=True)
class Home:
    """A tenant's namespace, and a client for its cluster."""

    client: "KubeClient"
    namespace: str


@asynccontextmanager
async def open_home(ctx: click.Context) -> AsyncIterator[Home]:
    """Open the namespace of `--namespace`, of the kubeconfig's context, or `default`. Raises ConfigError."""
    from pinnace.kube.client import KubeClient

    settings = settings_of(ctx)
    need_no_location(settings, "nonadmin")
    config = cluster_of(settings)
    namespace = ctx.ensure_object(GlobalFlags).namespace or config.namespace or "default"
    async with KubeClient(config, user_agent=user_agent("pinnace")) as client:
        yield Home(client, namespace)
