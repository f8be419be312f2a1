"""Compares a mounted volume with a snapshot, in the container of a node agent. (docs/adr/122)

A dry run starts `compare-files` there. It reads the volume as the agent does, from the kubelet's directory of
pods, and so needs no rights in the namespace of the claim. It ends by itself when its time is up or the pod
is to go: the connection of who started it may end unnoticed, and until it ends the kubelet cannot unmount the
volume.
"""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.racing import unless_stopped
from pinnace.api.meta import ObjectReference
from pinnace.controllers.node.reconciler import PodVolumeFailed
from pinnace.controllers.node.scope import NodeScope
from pinnace.controllers.node.volumes import NodeVolumes
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import PASSING_ERRORS, KubeError
from pinnace.kube.transport.config import ClusterConfig
from pinnace.operations.workdir import work_directory
from pinnace.server.monitoring.node_metrics import NodeAgentMetrics
from pinnace.server.signals import stop_on_signals
from pinnace.storage.errors import StorageError
from pinnace.volumes.comparison_request import LIMIT_SECONDS, ComparisonRequest
from pinnace.volumes.pods.host_paths import CSI_MOUNT, CSI_NOTES, HostPathError, is_migrated
from pinnace.volumes.restic.identifiers import find_region, needs_region, repository_identifier
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.comparing import FileComparison
from pinnace.volumes.uploader.errors import UploaderError
from pinnace.volumes.uploader.interface import KOPIA, RESTIC, Target, Uploader
from pinnace.volumes.uploader.memory import container_limit, with_memory_limit
from pinnace.volumes.uploaders import Uploaders

_BESIDE_OTHERS: Final = 4
"""The memory of the container is shared with the agent, and with the volumes that it saves and fills."""
_LOOK_SECONDS: Final = 2.0


class ComparisonFailed(Exception):
    """The files were not compared; the text says why."""


async def run_comparison(
    config: ClusterConfig, namespace: str, pods: Path, wanted: ComparisonRequest, *, user_agent: str
) -> FileComparison:
    """Compare the files of a volume with those of a snapshot.

    Args:
        namespace: the server's.
        pods: where the kubelet's directory of pods is mounted.

    Raises:
        ComparisonFailed
    """
    stop, scratch = asyncio.Event(), os.environ.get("VELERO_SCRATCH_DIR")
    with stop_on_signals(stop):
        try:
            async with (
                asyncio.timeout(LIMIT_SECONDS),
                KubeClient(config, user_agent=user_agent) as client,
                work_directory(Path(scratch) if scratch else None) as work,
            ):
                inherited = with_memory_limit(
                    os.environ, at_once=_BESIDE_OTHERS, container_bytes=container_limit()
                )
                accesses = AccessProvider(client, namespace, work, inherited=inherited)
                scope = NodeScope(
                    client=client,
                    namespace=namespace,
                    node="",
                    pods_directory=pods,
                    metrics=NodeAgentMetrics(""),
                )
                comparison = VolumeComparison(NodeVolumes(scope), accesses, Uploaders.of(accesses), wanted)
                found = await unless_stopped(stop, comparison.result())
        except TimeoutError as error:
            raise ComparisonFailed(f"it took longer than {LIMIT_SECONDS / 60:g} minutes") from error
        except (PodVolumeFailed, HostPathError, UploaderError, KubeError, StorageError, OSError) as error:
            raise ComparisonFailed(str(error)) from error
    if found is None:
        raise ComparisonFailed("it was asked to stop")
    return found


class VolumeComparison:
    """One comparison.

    Args:
        uploaders: open the repositories.
    """

    def __init__(
        self,
        volumes: NodeVolumes,
        accesses: AccessProvider,
        uploaders: Uploader | Uploaders,
        wanted: ComparisonRequest,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._volumes = volumes
        self._accesses = accesses
        self._uploaders = uploaders
        self._wanted = wanted
        self._clock = clock

    async def result(self) -> FileComparison:
        """The difference.

        Raises:
            ComparisonFailed: the pod is to go.
            PodVolumeFailed, HostPathError: the volume is not mounted here.
            UploaderError, StorageError, KubeError: the snapshot or the volume cannot be read.
        """
        going = asyncio.Event()
        watching = asyncio.create_task(self._watch(going))
        try:
            found = await unless_stopped(going, self._compared())
        finally:
            watching.cancel()
            await asyncio.wait({watching})
        if found is None:
            raise ComparisonFailed("the pod that has the volume mounted is being deleted")
        return found

    async def _compared(self) -> FileComparison:
        wanted = self._wanted
        content = await self._volumes.files(await self._volumes.pod(wanted.pod), wanted.volume)
        target = Target(
            path=content.path, keep_unchanged=wanted.keep_unchanged, delete_extra=wanted.delete_extra
        )
        place = await self._repository()
        async with self._volumes.held(content):
            if is_migrated(content.path, content.directory) and await self._uploaders.has_file(
                place, wanted.snapshot, CSI_NOTES
            ):
                level = content.path if wanted.uploader == KOPIA else content.path.parent
                target = msgspec.structs.replace(target, path=level, only=CSI_MOUNT)
            return await self._uploaders.compare(place, wanted.snapshot, target)

    async def _repository(self) -> Repository:
        """The repository, by its location: what the backup says of it could lead anywhere."""
        wanted, identifier = self._wanted, ""
        if wanted.uploader == RESTIC:
            location = await self._accesses.location(wanted.location)
            region = ""
            if needs_region(location):
                region = await find_region(location)
            identifier = repository_identifier(location, wanted.namespace, bucket_region=region)
        return Repository(
            identifier=identifier,
            location=wanted.location,
            namespace=wanted.namespace,
            uploader=wanted.uploader,
        )

    async def _watch(self, going: asyncio.Event) -> None:
        """Set the event once the pod is to go: its volume cannot be unmounted before this ends."""
        while not await self._is_going(self._wanted.pod):
            await self._clock.sleep(_LOOK_SECONDS)
        going.set()

    async def _is_going(self, wanted: ObjectReference) -> bool:
        with suppress(*PASSING_ERRORS):
            try:
                return "deletionTimestamp" in (await self._volumes.pod(wanted))["metadata"]
            except PodVolumeFailed:
                return True
        return False
