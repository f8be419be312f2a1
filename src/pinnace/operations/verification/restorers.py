"""The two ways of a restore on trial: in this process from a location, or by a server."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.timing import poll
from pinnace.api import phases
from pinnace.api.codec import encode
from pinnace.api.meta import ConfigReference
from pinnace.api.objects import JSONObject, listed, member, text
from pinnace.api.values.counts import counted
from pinnace.api.velero.restore import Restore
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import CONFIGMAPS, RESTORES
from pinnace.operations.local import LocalRun
from pinnace.operations.local_restore import make_restore
from pinnace.operations.verification.trial import Restored
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.modifiers.rules import read_rules
from pinnace.storage.errors import ObjectNotFound, StorageError

_POLL_SECONDS = 2.0
_STOP_SECONDS = 60.0
"""How long a removal waits for a restore that still runs: it would make its objects again."""

ReadResults = Callable[[str], Awaitable[JSONObject]]
"""The results file of a restore; may raise anything that reading it raises."""


class LocalRestorer(msgspec.Struct, frozen=True, kw_only=True):
    """Restores in this process."""

    run: LocalRun

    async def restore(self, restore: Restore, rules: JSONObject) -> Restored:
        """See Restorer. Raises InvalidRun, KubeError, StorageError."""
        restore.metadata.namespace = self.run.namespace
        modifiers = ResourceModifiers(read_rules({"data": rules}))
        finished, _ = await make_restore(self.run, restore, modifiers=modifiers)
        status = finished.status
        try:
            problems = error_texts(await self.run.store.read_restore_results(restore.metadata.name))
        except (ObjectNotFound, StorageError):
            problems = [counted(status.errors, "error")]
        reasons = [status.failure_reason] if status.failure_reason else []
        return Restored(phase=status.phase, problems=[*reasons, *problems], warnings=status.warnings)

    async def discard(self, name: str) -> Sequence[str]:
        """See Restorer."""
        try:
            await self.run.store.delete_restore(name)
        except StorageError as error:
            return [f"the files of restore {name}: {error}"]
        return []


class ServerRestorer(msgspec.Struct, frozen=True, kw_only=True):
    """Has a server restore.

    Attributes:
        namespace: the server's.
        limit_seconds: how long the restore may take.
        results: reads the results of a finished restore.
    """

    client: KubeClient
    namespace: str
    limit_seconds: float
    results: ReadResults
    clock: Clock = SYSTEM_CLOCK

    async def restore(self, restore: Restore, rules: JSONObject) -> Restored:
        """See Restorer. Raises KubeError."""
        name, restore.metadata.namespace = restore.metadata.name, self.namespace
        config_map: JSONObject = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "labels": dict(restore.metadata.labels)},
            "data": rules,
        }
        await self.client.create(CONFIGMAPS, config_map, self.namespace)
        restore.spec.resource_modifier = ConfigReference(kind="configmap", name=name)
        await self.client.create(RESTORES, encode(restore), self.namespace)
        if not await self._ends(name, self.limit_seconds):
            return Restored(phase="", problems=[f"it took longer than {self.limit_seconds:g} seconds"])
        found = await self.client.get(RESTORES, name, self.namespace)
        phase = text(found, "status", "phase")
        problems = [str(each) for each in listed(found, "status", "validationErrors")]
        if reason := text(found, "status", "failureReason"):
            problems.append(reason)
        if phase in phases.FINISHED_IN_PART:
            problems += error_texts(await self.results(name))
        warnings = member(found, "status", "warnings")
        return Restored(phase=phase, problems=problems, warnings=warnings if isinstance(warnings, int) else 0)

    async def discard(self, name: str) -> Sequence[str]:
        """See Restorer."""
        left = []
        try:
            if not await self._ends(name, _STOP_SECONDS):
                left.append(f"the server still works on restore {name}")
            for resource in (RESTORES, CONFIGMAPS):
                with suppress(NotFound):
                    await self.client.delete(resource, name, self.namespace)
        except KubeError as error:
            left.append(f"restore {name}: {error}")
        return left

    async def _ends(self, name: str, seconds: float) -> bool:
        """Whether a restore ends in time, or is not there. Raises KubeError."""

        async def has_ended() -> bool:
            try:
                found = await self.client.get(RESTORES, name, self.namespace)
            except NotFound:
                return True
            return text(found, "status", "phase") in phases.FINAL

        return await poll(
            has_ended, clock=self.clock, timeout_seconds=seconds, longest_pause_seconds=_POLL_SECONDS
        )


def error_texts(results: JSONObject) -> list[str]:
    """The errors in the results of a restore, of the run, the cluster and the namespaces. Pure."""
    errors = member(results, "errors")
    found = [str(each) for key in ("velero", "cluster") for each in listed(errors, key)]
    by_namespace = member(errors, "namespaces")
    if isinstance(by_namespace, dict):
        found += [f"{name}: {each}" for name in sorted(by_namespace) for each in listed(by_namespace, name)]
    return found
