"""Resource policies: how each volume is saved, and which objects are chosen. Pure.

A Backup or a Restore names a ConfigMap in the server's namespace; its only value is a YAML document with
these rules. A Restore's has filter policies only. (docs/spec: BEY 4.7, 4.8; docs/spec/after-1.18.md, 2)
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.api.selection.filter_policies import (
    NO_FILTER_POLICIES,
    ClusterPolicyDocument,
    FilterPolicies,
    FilterPolicyError,
    NamespacePolicyDocument,
)
from pinnace.api.selection.names import EVERYTHING
from pinnace.api.selection.resource_filters import ScopedLists
from pinnace.api.strict_yaml import read_yaml
from pinnace.api.values.quantities import parse_quantity
from pinnace.api.velero.data_movement import BLOCK_MOVER, BUILT_IN_MOVERS

VERSION: Final = "v1"
KIND: Final = "configmap"


class VolumeAction(StrEnum):
    """The action on a volume."""

    SKIP = "skip"
    SNAPSHOT = "snapshot"
    FS_BACKUP = "fs-backup"
    CUSTOM = "custom"


VOLUME_TYPES: Final = frozenset(
    {
        "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "configMap", "csi",
        "downwardAPI", "emptyDir", "ephemeral", "fc", "flocker", "flexVolume", "gcePersistentDisk", "gitRepo",
        "glusterfs", "hostPath", "image", "iscsi", "local", "nfs", "photonPersistentDisk", "portworxVolume",
        "projected", "quobyte", "rbd", "scaleIO", "secret", "storageos", "vsphereVolume",
    }
)  # fmt: skip
"""The fields of a pod's volume, and of a persistent volume, that say what it is."""


_STORAGE_OS: Final = {"storageOS": "storageos"}
"""Velero's name of a type that is not the name of its field, with that."""


class PolicyError(ValueError):
    """The resource policies cannot be used; the text says why."""


class _Strict(Struct, rename="camel", kw_only=True, forbid_unknown_fields=True):
    """A part of the document: an unknown key is an error."""


class _NFS(_Strict):
    server: str = ""
    path: str = ""


class _CSI(_Strict):
    driver: str = ""
    volume_attributes: dict[str, str] = {}


class _Conditions(_Strict):
    capacity: str | None = None
    storage_class: list[str] | None = None
    nfs: _NFS | None = None
    csi: _CSI | None = None
    volume_types: list[str] | None = None
    pvc_labels: dict[str, str] | None = None
    pvc_phase: list[str] | None = None
    pvc_volume_mode: Any = None
    pvc_access_modes: Any = None


class _Action(_Strict):
    type: VolumeAction
    parameters: Any = None


class _Rule(_Strict):
    action: _Action
    conditions: _Conditions = msgspec.field(default_factory=_Conditions)


class _Lists(_Strict):
    included_cluster_scoped_resources: list[str] | None = None
    excluded_cluster_scoped_resources: list[str] | None = None
    included_namespace_scoped_resources: list[str] | None = None
    excluded_namespace_scoped_resources: list[str] | None = None


class _Document(_Strict):
    version: str
    volume_policies: list[_Rule] | None = None
    include_exclude_policy: _Lists | None = None
    cluster_scoped_filter_policy: ClusterPolicyDocument | None = None
    namespaced_filter_policies: list[NamespacePolicyDocument] | None = None


class VolumeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a volume that conditions test.

    Of a claim without a volume only the properties of the claim itself are known.

    Attributes:
        source: the type of the volume, such as `csi`; empty if unknown.
        body: the object under that name.
    """

    capacity: Decimal = Decimal(0)
    storage_class: str = ""
    source: str = ""
    body: JSONObject = msgspec.field(default_factory=dict)
    claim_labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    claim_phase: str = ""
    claim_mode: str = ""
    claim_access_modes: frozenset[str] = frozenset()


def facts_of(
    *, claim: JSONObject | None = None, persistent: JSONObject | None = None, volume: JSONObject | None = None
) -> VolumeFacts:
    """The properties of a volume, read from its claim, and its persistent volume or its entry in a pod."""
    spec = mapping(persistent, "spec") if persistent is not None else volume or {}
    source = next((name for name in spec if name in VOLUME_TYPES and spec[name] is not None), "")
    capacity = Decimal(0)
    if persistent is not None and (written := text(spec, "capacity", "storage")):
        try:
            capacity = parse_quantity(written)
        except ValueError:
            capacity = Decimal(0)  # the API server accepted it; no rule about sizes matches it
    return VolumeFacts(
        capacity=capacity,
        storage_class=text(spec, "storageClassName") if persistent is not None else "",
        source=source,
        body=mapping(spec, source) if source else {},
        claim_labels=mapping(claim, "metadata", "labels"),
        claim_phase=text(claim, "status", "phase"),
        claim_mode=text(claim, "spec", "volumeMode"),
        claim_access_modes=frozenset(map(str, listed(claim, "spec", "accessModes"))),
    )


class VolumeRule(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions and the action for the volumes that fulfil all of them.

    Attributes:
        source: the ConfigMap that has the rule.
        snapshot_class: the VolumeSnapshotClass of the action `snapshot`; empty for the usual choice.
    """

    action: VolumeAction
    source: str = ""
    snapshot_class: str = ""
    conditions: _Conditions
    least: Decimal = Decimal(0)
    most: Decimal = Decimal(0)

    def matches(self, facts: VolumeFacts) -> bool:
        """Whether every condition holds; an absent condition counts as one that holds."""
        asked = self.conditions
        if asked.capacity and (facts.capacity < self.least or (self.most and facts.capacity > self.most)):
            return False
        if asked.storage_class and facts.storage_class not in asked.storage_class:
            return False
        if asked.nfs is not None and not _is_nfs(asked.nfs, facts):
            return False
        if asked.csi is not None and not _is_csi(asked.csi, facts):
            return False
        types = [_STORAGE_OS.get(name, name) for name in asked.volume_types or ()]
        if types and facts.source not in types:
            return False
        if asked.pvc_phase and facts.claim_phase not in asked.pvc_phase:
            return False
        if asked.pvc_volume_mode and facts.claim_mode != asked.pvc_volume_mode:
            return False
        if asked.pvc_access_modes and facts.claim_access_modes != {*asked.pvc_access_modes}:
            return False
        return _has(asked.pvc_labels or {}, facts.claim_labels)

    @property
    def reason(self) -> str:
        """Why a volume that it selects is not saved in another way."""
        return f"the resource policies {self.source} have the action {self.action} for the volume"


def _is_nfs(asked: _NFS, facts: VolumeFacts) -> bool:
    body = facts.body
    return (
        facts.source == "nfs"
        and asked.server in ("", text(body, "server"))
        and asked.path in ("", text(body, "path"))
    )


def _is_csi(asked: _CSI, facts: VolumeFacts) -> bool:
    return (
        facts.source == "csi"
        and asked.driver in ("", text(facts.body, "driver"))
        and _has(asked.volume_attributes, mapping(facts.body, "volumeAttributes"))
    )


def _has(wanted: Mapping[str, str], given: Mapping[str, Any]) -> bool:
    return all(given.get(name) == value for name, value in wanted.items())


class ResourcePolicies(msgspec.Struct, frozen=True, kw_only=True):
    """The policies of a ConfigMap.

    Attributes:
        rules: in order: the first that matches decides.
        lists: the include/exclude policy.
        filters: by namespace and kind.
    """

    rules: Sequence[VolumeRule] = ()
    lists: ScopedLists = msgspec.field(default_factory=ScopedLists)
    filters: FilterPolicies = NO_FILTER_POLICIES

    def rule_for(self, facts: VolumeFacts) -> VolumeRule | None:
        """The first rule that matches; None if none does."""
        return next((rule for rule in self.rules if rule.matches(facts)), None)


def read_policies(document: str, name: str = "") -> ResourcePolicies:
    """Read a document; `name` is that of its ConfigMap.

    Raises:
        PolicyError: it cannot be read, or a rule of it is not valid.
    """
    try:
        found = msgspec.convert(read_yaml(document), _Document)
    except (ValueError, msgspec.ValidationError) as error:
        raise PolicyError(str(error)) from error
    if found.version != VERSION:
        raise PolicyError(f"unsupported version {found.version!r}: it must be {VERSION}")
    rules = [_rule(number, rule, name) for number, rule in enumerate(found.volume_policies or (), start=1)]
    lists = _lists(found.include_exclude_policy)
    try:
        filters = FilterPolicies.read(
            found.cluster_scoped_filter_policy, found.namespaced_filter_policies or ()
        )
    except FilterPolicyError as error:
        raise PolicyError(str(error)) from error
    return ResourcePolicies(rules=rules, lists=lists, filters=filters)


def read_restore_policies(document: str, name: str = "") -> ResourcePolicies:
    """Read the document of a Restore, which has filter policies only. (section 2.5)

    Raises:
        PolicyError: it cannot be read, is not valid, or has rules that no restore can follow.
    """
    policies = read_policies(document, name)
    if policies.rules:
        raise PolicyError("volumePolicies are not supported for restore")
    if policies.lists:
        raise PolicyError("includeExcludePolicy is not supported for restore")
    return policies


def _rule(number: int, rule: _Rule, source: str) -> VolumeRule:
    place = f"volume policy {number}"
    snapshot_class = _snapshot_class(place, rule.action)
    conditions = rule.conditions
    if conditions.csi is not None and conditions.csi.volume_attributes and not conditions.csi.driver:
        raise PolicyError(f"{place}: csi volumeAttributes need a csi driver")
    mode, modes = conditions.pvc_volume_mode, conditions.pvc_access_modes
    if mode is not None and not isinstance(mode, str):
        raise PolicyError(f"{place}: pvcVolumeMode must be a string, got {_type(mode)}")
    if modes is not None and not isinstance(modes, list):
        raise PolicyError(f"{place}: pvcAccessModes must be a list of strings, got {_type(modes)}")
    for odd in (each for each in modes or () if not isinstance(each, str)):
        raise PolicyError(f"{place}: pvcAccessModes must be a list of strings, got element {_type(odd)}")
    least = most = Decimal(0)
    if conditions.capacity:
        least, most = _capacity(number, conditions.capacity)
    return VolumeRule(
        action=rule.action.type,
        source=source,
        snapshot_class=snapshot_class,
        conditions=conditions,
        least=least,
        most=most,
    )


_DATA_MOVER: Final = "dataMover"
_SNAPSHOT_CLASS: Final = "snapshotClass"


def _snapshot_class(place: str, action: _Action) -> str:
    """The parameter snapshotClass; dataMover is checked, too. Raises PolicyError. (after-1.18, 3.3)

    The built-in mover of files is the only one, so that naming it changes nothing. A plugin reads the
    parameters of a custom action.
    """
    parameters = action.parameters
    if not isinstance(parameters, Mapping) or action.type is VolumeAction.CUSTOM:
        return ""
    for key in (_DATA_MOVER, _SNAPSHOT_CLASS):
        value = parameters.get(key)
        if value is None:
            continue
        if action.type is not VolumeAction.SNAPSHOT:
            raise PolicyError(
                f'{place}: parameter "{key}" is only supported for the "snapshot" action, but the action type'
                f' is "{action.type}"'
            )
        if not isinstance(value, str):
            raise PolicyError(f'{place}: parameter "{key}" must be a string, got {_type(value)}')
    mover = text(parameters, _DATA_MOVER)
    if mover == BLOCK_MOVER:
        raise PolicyError(
            f"{place}: the dataMover {mover} is not supported (Velero 1.19): its snapshots are restored, and"
            " none is made; take it out of the rule, and volumes are moved by their files"
        )
    if mover not in BUILT_IN_MOVERS:
        raise PolicyError(
            f'{place}: invalid "{_DATA_MOVER}" value "{mover}", valid values are "velero", "velero-fs",'
            f' "{BLOCK_MOVER}"'
        )
    if parameters.get(_SNAPSHOT_CLASS) == "":
        raise PolicyError(f'{place}: parameter "{_SNAPSHOT_CLASS}" must not be empty')
    return text(parameters, _SNAPSHOT_CLASS)


def _type(value: object) -> str:
    """The type of a part of the document, as its author calls it."""
    return "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else "nothing"


def _capacity(number: int, written: str) -> tuple[Decimal, Decimal]:
    parts = [part.strip() for part in written.split(",")]
    problem = f"volume policy {number}: capacity {written!r}"
    if len(parts) != 2:
        raise PolicyError(f'{problem} must be two quantities with a comma between them, such as "0,100Gi"')
    try:
        least, most = (parse_quantity(part) if part else Decimal(0) for part in parts)
    except ValueError as error:
        raise PolicyError(f"{problem}: {error}") from error
    if most and least > most:
        raise PolicyError(f"{problem}: the first quantity must not be larger than the second")
    return least, most


def _lists(given: _Lists | None) -> ScopedLists:
    if given is None:
        return ScopedLists()
    lists = ScopedLists(
        included_cluster=tuple(given.included_cluster_scoped_resources or ()),
        excluded_cluster=tuple(given.excluded_cluster_scoped_resources or ()),
        included_namespaced=tuple(given.included_namespace_scoped_resources or ()),
        excluded_namespaced=tuple(given.excluded_namespace_scoped_resources or ()),
    )
    pairs = (
        ("cluster-scoped", lists.included_cluster, lists.excluded_cluster),
        ("namespace-scoped", lists.included_namespaced, lists.excluded_namespaced),
    )
    for scope, included, excluded in pairs:
        if EVERYTHING in (*included, *excluded):
            raise PolicyError(f"includeExcludePolicy: '*' is not allowed in the {scope} lists")
        if both := sorted({*included} & {*excluded}):
            raise PolicyError(f"includeExcludePolicy: {', '.join(both)} is in both {scope} lists")
    return lists
