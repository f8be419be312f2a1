"""Pinnace: backup, restore and migration of Kubernetes clusters.

The names in `__all__` are the Python API (docs/python.md). They are loaded when they are first used, so that
the command line, which imports this package too, does not wait for them.
"""

import sys

TYPE_CHECKING = (
    False  # type checkers take it for true by its name; importing `typing` takes longer than all else
)
if TYPE_CHECKING:
    from pinnace._version import __version__ as __version__
    from pinnace.python_api.administration import (
        Diagnosis,
        Finding,
        InstalledObject,
        InstallOptions,
        InstallOutcome,
        InstallResult,
        PodResources,
    )
    from pinnace.python_api.calls import (
        backup,
        backup_async,
        doctor,
        doctor_async,
        install,
        install_async,
        list_backups,
        list_backups_async,
        restore,
        restore_async,
        verify,
        verify_async,
    )
    from pinnace.python_api.errors import (
        ClusterError,
        InvalidRequest,
        LocationError,
        NameTaken,
        PinnaceError,
        RunFailed,
    )
    from pinnace.python_api.types import (
        BackupOptions,
        BackupResult,
        BackupSummary,
        Check,
        CheckResult,
        Cluster,
        ExistingResources,
        Location,
        Phase,
        Progress,
        ProgressCallback,
        ResourceModifier,
        RestoreOptions,
        RestoreResult,
        ScopedResources,
        Selection,
        Verification,
        VerifyOptions,
    )


__all__ = [
    "BackupOptions",
    "BackupResult",
    "BackupSummary",
    "Check",
    "CheckResult",
    "Cluster",
    "ClusterError",
    "Diagnosis",
    "ExistingResources",
    "Finding",
    "InstallOptions",
    "InstallOutcome",
    "InstallResult",
    "InstalledObject",
    "InvalidRequest",
    "Location",
    "LocationError",
    "NameTaken",
    "Phase",
    "PinnaceError",
    "PodResources",
    "Progress",
    "ProgressCallback",
    "ResourceModifier",
    "RestoreOptions",
    "RestoreResult",
    "RunFailed",
    "ScopedResources",
    "Selection",
    "Verification",
    "VerifyOptions",
    "backup",
    "backup_async",
    "doctor",
    "doctor_async",
    "install",
    "install_async",
    "list_backups",
    "list_backups_async",
    "restore",
    "restore_async",
    "verify",
    "verify_async",
]


if not TYPE_CHECKING:  # type checkers see the imports above, and no other names

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from pinnace import _version

            return _version.__version__
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from pinnace.python_api import calls, errors, types

        for module in (calls, errors, types):
            if name in vars(module):
                globals()[name] = vars(module)[name]
                return globals()[name]
        from pinnace.python_api import administration  # its types load the rooms that do the work

        globals()[name] = vars(administration)[name]
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})

    class _Package(type(sys)):
        """Keeps `backup`, `restore` and `doctor` the functions when the packages of these names are imported.

        The packages are reached by `from pinnace.backup import ...`, as all modules here do. (docs/adr/036)
        """

        def __setattr__(self, name: str, value: object) -> None:
            if not (name in __all__ and isinstance(value, type(sys))):
                super().__setattr__(name, value)

    sys.modules[__name__].__class__ = _Package
