"""The process of a maintenance Job: maintains one repository once. (docs/spec: BEY 6.3, ADR 076)"""

import asyncio
import os
from pathlib import Path
from typing import Final

from pinnace.aio.racing import unless_stopped
from pinnace.api.codec import DecodeError, decode
from pinnace.api.velero.backup_repository import BackupRepository
from pinnace.controllers.repository_jobs import CANNOT_OPEN
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import BACKUP_REPOSITORIES
from pinnace.kube.transport.config import ClusterConfig
from pinnace.operations.workdir import work_directory
from pinnace.runtime.logfields import get_logger
from pinnace.server.signals import stop_on_signals
from pinnace.volumes.repositories import repository_place
from pinnace.volumes.uploader.access import AccessProvider
from pinnace.volumes.uploader.errors import (
    RepositoryMissing,
    RepositoryUnusable,
    UploaderError,
    WrongPassword,
)
from pinnace.volumes.uploader.memory import container_limit, with_memory_limit
from pinnace.volumes.uploaders import Uploaders

log = get_logger(__name__)

FAILED: Final = 1
TERMINATION_LOG: Final = Path("/dev/termination-log")
"""Where the kubelet reads why a container failed. It makes the file for each container."""

_LONGEST_MESSAGE: Final = 4000


async def run_maintenance(
    config: ClusterConfig, namespace: str, name: str, *, scratch: Path | None, user_agent: str
) -> int:
    """Maintain the repository of a BackupRepository; return the exit code.

    Raises:
        OSError: the work directory cannot be made.
    """
    stop = asyncio.Event()
    with stop_on_signals(stop):
        async with KubeClient(config, user_agent=user_agent) as client, work_directory(scratch) as work:
            inherited = with_memory_limit(os.environ, at_once=1, container_bytes=container_limit())
            uploaders = Uploaders.of(AccessProvider(client, namespace, work, inherited=inherited))
            ended = await unless_stopped(stop, maintain(client, namespace, name, uploaders))
    return _failed("it was asked to stop") if ended is None else ended


async def maintain(client: KubeClient, namespace: str, name: str, uploaders: Uploaders) -> int:
    """Maintain the repository; return the exit code, after the reason of a failure was written."""
    try:
        found = await client.get(BACKUP_REPOSITORIES, name, namespace)
        place = repository_place(decode(BackupRepository, found))
        log.info("Maintaining the repository", backupRepository=name, uploader=place.uploader)
        await uploaders.maintain(place)
    except (RepositoryMissing, RepositoryUnusable, WrongPassword) as error:
        return _failed(str(error), code=CANNOT_OPEN)
    except (UploaderError, KubeError, DecodeError) as error:
        return _failed(str(error))
    log.info("Maintained the repository", backupRepository=name)
    return 0


def _failed(problem: str, *, code: int = FAILED) -> int:
    """Write why it failed, for the server that reads it from the pod."""
    log.error("Error maintaining the repository", error=problem)
    if TERMINATION_LOG.exists():
        TERMINATION_LOG.write_text(problem[:_LONGEST_MESSAGE])
    return code
