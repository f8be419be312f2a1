"""Verifies one Backup with the server's access, and writes the result beside it. (docs/adr/067)"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pinnace.aio.temporary import temporary_folder
from pinnace.api import labels
from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.objects import text
from pinnace.api.values.times import format_time
from pinnace.api.velero.backup import Backup
from pinnace.api.verification_answer import Soundness
from pinnace.browse.checks import Check, CheckResult
from pinnace.browse.errors import NoRoom
from pinnace.controllers.shared.availability import Availability
from pinnace.controllers.shared.events import write_event
from pinnace.controllers.shared.locations import LocationStores, location_of
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.csi.snapshots import FEATURE
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import BACKUP_REPOSITORIES, BACKUPS
from pinnace.operations.snapshots import snapshotters_of
from pinnace.operations.verification.sealed import NAME as SEALED
from pinnace.operations.verification.sealed import sealed_checks
from pinnace.operations.verification.volumes import ClusterView, NoCluster, VolumeLookup
from pinnace.operations.verification.whole import verify_stored
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.storage.errors import StorageError, StoreUnavailable
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.locks import RepositoryLocks
from pinnace.volumes.uploader.share import ReadShare

log = get_logger(__name__)

WORKERS: Final = 3
"""Backups verified at once, one of each location: a location that hangs must not delay the others."""

_LONGEST_FINDINGS: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupVerifier:
    """Verifies Backups.

    Attributes:
        availability: tells which locations cannot be used now.
        locks: the locks of the repositories of pod volumes.
    """

    scope: Scope
    locations: LocationStores
    availability: Availability
    locks: RepositoryLocks

    @classmethod
    def of(cls, parts: Parts) -> "BackupVerifier":
        """The verifier of a server."""
        return cls(
            scope=parts.scope,
            locations=parts.locations,
            availability=parts.availability,
            locks=parts.locks,
        )

    async def findings(self, backup: Backup, share: ReadShare | None) -> list[Check]:
        """Check a backup and the data of its volumes.

        Args:
            share: how much data of repositories is read; None for none.

        Raises:
            StorageError, KubeError: the location or the cluster cannot be asked now, or the server has no
                room for the tarball.
        """
        location = await self.locations.location(location_of(backup))
        name = location.metadata.name
        if problem := await self.availability.problem(location):
            raise StoreUnavailable(f"location {name} cannot be used: {problem}")
        # A tenant wrote what is in its location: it could name any snapshot in the storage system.
        is_trusted = not tenant_of(location.metadata)
        scope = self.scope
        async with (
            self.locations.open(name) as store,
            scope.plugins.operation(client=scope.client, namespace=scope.namespace) as plugins,
        ):

            async def view() -> ClusterView:
                if not is_trusted:
                    raise NoCluster("the snapshots of a backup in a tenant's location are not looked for")
                discovery = await Discovery.load(scope.client)
                context = scope.run_context(discovery=discovery, store=store, plugins=plugins)
                return ClusterView(
                    client=scope.client,
                    discovery=discovery,
                    snapshotters=snapshotters_of(context),
                    # Without the feature, a server may have no right to remove the contents that it makes.
                    ask_in=scope.namespace if FEATURE in scope.features else "",
                )

            async def access(workdir: Path) -> AccessProvider:
                return AccessProvider(scope.client, scope.namespace, workdir)

            lookup = VolumeLookup(
                location=location, store=store, access=access, cluster=view, share=share, hold=self._held
            )
            with temporary_folder(scope.workdir, "verification-") as folder:
                try:
                    if sealed := await sealed_checks(store, backup):
                        return sealed
                    return await verify_stored(store, backup.metadata.name, lookup, folder)
                except StorageError:
                    self.availability.worked(name, well=False)
                    raise
                except NoRoom as error:
                    raise StorageError(str(error)) from error

    async def note(
        self, backup: Backup, findings: Sequence[Check], answer: str | None = None
    ) -> tuple[str, Soundness]:
        """Write the findings into the Backup and an Event. Returns the time and the result.

        Args:
            answer: the answer to a request; None where there was none.
        """
        is_bad = any(finding.is_problem for finding in findings)
        is_sealed = any(finding.name == SEALED for finding in findings)
        result = Soundness.UNSOUND if is_bad else Soundness.NOT_VERIFIED if is_sealed else Soundness.SOUND
        name, shown = backup.metadata.name, summary_of(findings)
        (log.error if is_bad else log.info)("Verified a backup", backup=name, result=result, findings=shown)
        when = format_time(self.scope.clock.now())
        notes = {labels.VERIFIED: f"{when} {result}", labels.VERIFICATION_FINDINGS: shown or None}
        if answer is not None:
            notes[labels.VERIFICATION_ANSWER] = answer
        key = Key(backup.metadata.namespace, backup.metadata.name)
        await self.annotate(key, backup.metadata.uid, notes)
        await self._tell(backup, result, shown)
        return when, result

    async def annotate(self, key: Key, uid: str, notes: dict[str, str | None]) -> None:
        """Set annotations of a Backup, if it is still there."""
        patch = {"metadata": {"uid": uid, "annotations": notes}}
        try:
            await self.scope.client.patch(BACKUPS, key.name, patch, key.namespace)
        except NotFound:
            log.info("The backup was deleted while it was verified", backup=key.name)

    @asynccontextmanager
    async def _held(self, place: Repository) -> AsyncIterator[None]:
        """Keep maintenance, which removes data, from running meanwhile."""
        names = [
            obj["metadata"]["name"]
            for obj in await self.scope.client.list_all(BACKUP_REPOSITORIES, self.scope.namespace)
            if text(obj, "spec", "volumeNamespace") == place.namespace
            and text(obj, "spec", "backupStorageLocation") == place.location
            and (text(obj, "spec", "repositoryType") or "restic") == place.uploader
        ]
        if not names:
            yield
            return
        async with self.locks.shared(names[0]):
            yield

    async def _tell(self, backup: Backup, result: Soundness, findings: str) -> None:
        """Write an Event of the Backup, or count one that says the same; a refusal is only logged."""
        about = {
            "apiVersion": backup.api_version,
            "kind": backup.kind,
            "namespace": self.scope.namespace,
            "name": backup.metadata.name,
            "uid": backup.metadata.uid,
        }
        message = f"The backup is {result}. {findings}"
        reason = "NotVerified" if result == Soundness.NOT_VERIFIED else "Verified"
        is_bad = result == Soundness.UNSOUND
        await write_event(self.scope, about, reason=reason, message=message, is_bad=is_bad)


def summary_of(findings: Sequence[Check]) -> str:
    """The bad findings, and then the checks that were not done, as one text. Pure."""
    worst_first = sorted(
        (finding for finding in findings if finding.result in (CheckResult.BAD, CheckResult.NOT_CHECKED)),
        key=lambda finding: finding.result != CheckResult.BAD,
    )
    shown = "; ".join(f"{each.name}: {each.result}: {each.details}" for each in worst_first)
    return shown if len(shown) <= _LONGEST_FINDINGS else f"{shown[:_LONGEST_FINDINGS]}..."
