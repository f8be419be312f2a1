"""The errors of pod volumes.

PodVolumeError
└── PodVolumeBackupFailed  a PodVolumeBackup ended without the data of its volume
"""


class PodVolumeError(Exception):
    """A volume was not saved or not restored; the text is Velero's."""


class PodVolumeBackupFailed(PodVolumeError):
    """A PodVolumeBackup ended without the data of its volume, and the backup lists it as failed."""
