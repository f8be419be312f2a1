"""What the PodVolumeBackups of one backup, or the PodVolumeRestores of one restore, have in common."""

from dataclasses import dataclass

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.volumes.outcomes import SeenTransfers
from pinnace.volumes.pods.timeouts import Timeout
from pinnace.volumes.repositories import Repositories
from pinnace.volumes.uploader.interface import RESTIC
from pinnace.volumes.uploader.locks import RepositoryLocks


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVolumeRun:
    """How one backup or restore reaches repositories and waits for node agents.

    Attributes:
        outcomes: fed with the PodVolumeBackups or PodVolumeRestores of this run.
        timeout: for all of them together; running since the start of the run.
        settle_seconds: how long canceled volumes may take to end after the timeout.
        uploader: the program that saves volumes; each is restored by its own.
        clock: for the end of volumes that no agent has claimed.
    """

    repositories: Repositories
    locks: RepositoryLocks
    outcomes: SeenTransfers
    timeout: Timeout
    settle_seconds: float = 0.0
    uploader: str = RESTIC
    clock: Clock = SYSTEM_CLOCK
