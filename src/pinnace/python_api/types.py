"""Arguments and results of the Python API: frozen dataclasses, which load no library."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from pinnace.api.phases import BackupPhase
from pinnace.browse.checks import Check as Check
from pinnace.browse.checks import CheckResult as CheckResult


class Phase(StrEnum):
    """How a run ended, or how far a listed backup is."""

    NEW = BackupPhase.NEW
    FAILED_VALIDATION = BackupPhase.FAILED_VALIDATION
    IN_PROGRESS = BackupPhase.IN_PROGRESS
    COMPLETED = BackupPhase.COMPLETED
    PARTIALLY_FAILED = BackupPhase.PARTIALLY_FAILED
    """Something was not saved or restored; the log of the backup or the results of the restore say what."""
    FAILED = BackupPhase.FAILED
    DELETING = BackupPhase.DELETING
    UNKNOWN = "Unknown"
    """A phase of another version of Velero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The cluster that a run works on; without arguments, the one that kubectl would use.

    Attributes:
        kubeconfig: the file; by default those in $KUBECONFIG, else ~/.kube/config, else the pod's account.
        context: a context of it; by default the current one.
        namespace: where a server would be, for the locations of native snapshots.
        features: feature flags, such as "EnableCSI".
    """

    kubeconfig: str | os.PathLike[str] | None = None
    context: str | None = None
    namespace: str = "velero"
    features: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Location:
    """Where backups are kept.

    Attributes:
        url: a folder, or a URL such as "s3://bucket/prefix?region=eu-central-1", "gs://bucket/prefix" or
            "azblob://container/prefix". It must not contain credentials.
        recipients: public keys that backups are encrypted to: "age1…", "ssh-ed25519 …" or "ssh-rsa …". None
            takes those of the environment's PINNACE_RECIPIENTS.
        identity_file: private keys of age or ssh, without a passphrase, that open encrypted backups.
    """

    url: str | os.PathLike[str] = field(repr=False)  # it may contain credentials by mistake
    recipients: Sequence[str] | None = None
    identity_file: str | os.PathLike[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects to save or to restore; by default all.

    Attributes:
        included_namespaces, excluded_namespaces: names; patterns such as "team-*" are possible.
        included_resources, excluded_resources: names such as "configmaps" or "deployments.apps".
        labels: a label selector such as "app=shop,tier!=cache".
        any_of_labels: label selectors; at least one has to match. Not together with `labels`.
        cluster_resources: whether cluster-scoped objects are selected; None selects those that a selected
            object needs, and all of them when all namespaces are selected.
    """

    included_namespaces: Sequence[str] = ()
    excluded_namespaces: Sequence[str] = ()
    included_resources: Sequence[str] = ()
    excluded_resources: Sequence[str] = ()
    labels: str = ""
    cluster_resources: bool | None = None
    any_of_labels: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopedResources:
    """Which kinds to save, by the scope of their objects; for backups.

    Not together with `included_resources`, `excluded_resources` or `cluster_resources` of a `Selection`. "*"
    stands for all kinds of a scope.

    Attributes:
        included_cluster, excluded_cluster: kinds of cluster-scoped objects, such as "storageclasses". Without
            any, those that a selected object needs are saved.
        included_namespaced, excluded_namespaced: kinds of objects in namespaces; all by default.
    """

    included_cluster: Sequence[str] = ()
    excluded_cluster: Sequence[str] = ()
    included_namespaced: Sequence[str] = ()
    excluded_namespaced: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupOptions:
    """How to make a backup.

    Attributes:
        labels: labels of the backup.
        ttl: after this time a server that knows the location deletes the backup; None is 30 days.
        snapshot_volumes: whether to snapshot volumes by the cluster's VolumeSnapshotLocations.
        ordered_resources: objects to save first: "pods" to "shop/db-0,shop/db-1".
        scoped_resources: filters by scope, in place of those of the selection.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    ttl: timedelta | None = None
    snapshot_volumes: bool | None = None
    ordered_resources: Mapping[str, str] = field(default_factory=dict)
    scoped_resources: ScopedResources | None = None


class ExistingResources(StrEnum):
    """What a restore does with objects that exist and differ from the backup."""

    NONE = "none"
    """Objects are left as they are, with a warning each."""
    UPDATE = "update"
    """Objects are patched to the version in the backup."""
    RECREATE = "recreate"
    """As UPDATE; what cannot be patched is deleted and created again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceModifier:
    """A change to objects before a restore creates them; exactly one of the three patches is given.

    Attributes:
        resources: the kind as "deployments.apps" or "pods"; "*" does not cross a dot, "**" stands for all.
        namespaces: namespaces in the backup, patterns included; empty for all.
        name_pattern: a regular expression that is searched in the name.
        labels: a label selector that the object has to match.
        matches: JSON pointers to the values that the object must have there: "/spec/replicas" to 1.
        json_patch: the operations of a JSON patch (RFC 6902), each with "op" and "path".
        merge_patch: a JSON merge patch (RFC 7386).
        strategic_patch: a strategic merge patch, for built-in kinds.
    """

    resources: str
    namespaces: Sequence[str] = ()
    name_pattern: str = ""
    labels: str = ""
    matches: Mapping[str, object] = field(default_factory=dict)
    json_patch: Sequence[Mapping[str, object]] = ()
    merge_patch: Mapping[str, object] | None = None
    strategic_patch: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """How to restore.

    Attributes:
        name: the name of the restore; by default the name of the backup and the time, with a number if taken.
        labels: labels of the restore.
        namespace_mapping: the namespace in the backup to the one to restore into.
        restore_volumes: whether volumes are restored from snapshots; None means where it is possible.
        preserve_node_ports: whether Services keep their node ports.
        existing_resources: what is done with objects that exist and differ.
        modifiers: changes to objects before they are created, in this order.
        without_volume_data: create claims and pods whose data cannot be restored, with empty volumes; without
            it they are errors. The data of pod volumes needs a server.
        allow_failed: restore what a Failed backup has; without it such a backup is refused.
    """

    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    namespace_mapping: Mapping[str, str] = field(default_factory=dict)
    restore_volumes: bool | None = None
    preserve_node_ports: bool | None = None
    existing_resources: ExistingResources = ExistingResources.NONE
    modifiers: Sequence[ResourceModifier] = ()
    without_volume_data: bool = False
    allow_failed: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is; `total` is an estimate that changes while it runs."""

    done: int
    total: int


ProgressCallback = Callable[[Progress], None]
"""Called at most once a second. An error in it does not stop the run; it is raised when the run has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a backup or a restore ended.

    Attributes:
        name: the name of the backup or restore.
        phase: how it ended.
        items: how many objects were saved; of a restore, worked on, those that existed already included.
        errors, warnings: their numbers in the log of a backup and in the results of a restore.
        failure_reason: why it failed as a whole.
        started, completed: when it began and ended.
        notes: what could not be found out about the cluster or written to the location.
    """

    name: str
    phase: Phase
    items: int
    errors: int
    warnings: int
    failure_reason: str = ""
    started: datetime | None = None
    completed: datetime | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupResult(RunResult):
    """How a backup ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult(RunResult):
    """How a restore ended.

    Attributes:
        backup: the name of its backup.
    """

    backup: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSummary:
    """One backup in a location.

    Attributes:
        name: the name of the backup.
        phase: how far it is, or how it ended.
        items: how many objects it has; None if its metadata does not say.
        errors, warnings: their numbers in its log.
        started, completed, expires: when it began, ended and expires.
        labels: labels of the backup.
        problem: why its metadata cannot be read; empty if it can. The other fields say nothing then.
    """

    name: str
    phase: Phase
    items: int | None = None
    errors: int = 0
    warnings: int = 0
    started: datetime | None = None
    completed: datetime | None = None
    expires: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a verification of a backup found."""

    backup: str
    checks: Sequence[Check]

    @property
    def is_sound(self) -> bool:
        """Whether nothing bad was found, even if something was not checked."""
        return all(check.result != CheckResult.BAD for check in self.checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """How a backup is verified.

    Attributes:
        password_file: the password of the restic and kopia repositories; by default that of the environment
            (RESTIC_PASSWORD_FILE, RESTIC_PASSWORD), else of the cluster's Secret.
        read_data: a share of the data in these repositories that is read, such as "10%" or "1/5"; empty for
            none.
    """

    password_file: str | os.PathLike[str] | None = None
    read_data: str = ""
