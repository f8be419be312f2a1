"""The settings of the node agents: JSON in a ConfigMap that `--node-agent-configmap` names. Pure.

(docs/spec: BEY 6.9)
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from pinnace.api.definitions.spec_fields import unknown_fields
from pinnace.api.meta import LabelSelector
from pinnace.api.nonadmin.names import is_object_name
from pinnace.api.selection.selectors import Selector

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "podResources": "the node agents themselves move the data, so set the resources of their DaemonSet",
    "privilegedFsBackup": "set the securityContext of the DaemonSet (`install --privileged-node-agent`)",
    "csiSnapshotMetadataServiceConfigs": "no backup reads changed blocks only",
    "cachePVC": "caches are in the scratch directory of the node agents",
}
"""Settings of Velero that are known and not used, with the reason."""


class NodeNumber(Struct, rename="camel", kw_only=True):
    """How many volumes the nodes with certain labels work on at once."""

    node_selector: LabelSelector = field(default_factory=LabelSelector)
    number: int = 0


class LoadConcurrency(Struct, rename="camel", kw_only=True):
    """How many volumes a node works on at once, saved and restored together.

    Attributes:
        global_config: on nodes that `per_node_config` does not match.
        per_node_config: the smallest number of those that match a node counts.
        prepare_queue_length: how many volumes of snapshots are prepared at once on all nodes, before their
            transfer begins; 0 for no limit.
    """

    global_config: int = 1
    per_node_config: list[NodeNumber] = []
    prepare_queue_length: int = 0


class LoadAffinity(Struct, rename="camel", kw_only=True):
    """The nodes that may move the data of snapshots.

    Attributes:
        storage_class: of the claims that this applies to; empty for the claims of all other classes.
    """

    node_selector: LabelSelector = field(default_factory=LabelSelector)
    storage_class: str = ""


class ClaimCompanions(Struct, rename="camel", kw_only=True):
    """The objects that a driver reads beside a claim, such as keys of encrypted volumes.

    Attributes:
        secret_names, config_map_names: in the namespace of the claim that is saved or restored.
    """

    secret_names: list[str] = []
    config_map_names: list[str] = []


class BackupClaim(ClaimCompanions, rename="camel", kw_only=True):
    """The properties of the temporary claim that is made of a snapshot.

    Attributes:
        storage_class: its storage class; empty for that of the claim that was snapshotted.
        read_only: ask for the access mode ReadOnlyMany.
        spc_no_relabeling: run the pod with the SELinux type spc_t, so that the volume is not relabeled.
    """

    storage_class: str = ""
    read_only: bool = False
    spc_no_relabeling: bool = field(name="spcNoRelabeling", default=False)
    annotations: dict[str, str] = {}


class RestoreClaim(ClaimCompanions, rename="camel", kw_only=True):
    """The properties of the temporary claim of a restore.

    Attributes:
        ignore_delay_binding: do not wait for the first pod of a claim whose class is WaitForFirstConsumer.
    """

    ignore_delay_binding: bool = False


class NodeAgentConfig(Struct, rename="camel", kw_only=True):
    """All settings that are used.

    Attributes:
        load_concurrency: None leaves it to the flags of the agents.
        backup_claims: by the storage class of the claim that was snapshotted.
        priority_class_name, pod_annotations, pod_labels: of temporary pods.
    """

    load_concurrency: LoadConcurrency | None = None
    load_affinity: list[LoadAffinity] = []
    backup_claims: dict[str, BackupClaim] = field(name="backupPVC", default_factory=dict)
    restore_claim: RestoreClaim = field(name="restorePVC", default_factory=RestoreClaim)
    priority_class_name: str = ""
    pod_annotations: dict[str, str] = {}
    pod_labels: dict[str, str] = {}

    def concurrency(self, node_labels: Mapping[str, str]) -> int:
        """How many volumes a node works on at once; 0 if this does not say."""
        if self.load_concurrency is None:
            return 0
        numbers = [
            each.number
            for each in self.load_concurrency.per_node_config
            if Selector.from_label_selector(each.node_selector).matches(node_labels)
        ]
        return min(numbers, default=self.load_concurrency.global_config)

    def nodes_for(self, storage_class: str) -> LabelSelector | None:
        """The nodes that may move the data of a claim of that class; None for all."""
        for wanted in (storage_class, ""):
            for each in self.load_affinity:
                if each.storage_class == wanted:
                    return each.node_selector
        return None


def read_node_agent_config(document: str) -> tuple[NodeAgentConfig, Sequence[str]]:
    """The settings, and a warning for each that has no effect.

    Raises:
        ValueError: it is not valid, with the path of what is wrong.
    """
    try:
        raw = msgspec.json.decode(document)
        config = msgspec.convert(raw, NodeAgentConfig)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ValueError(f"it is not valid: {error}") from error
    _check(config)
    _check_companions(config)
    return config, _warnings(raw)


def _check(config: NodeAgentConfig) -> None:
    selectors = [each.node_selector for each in config.load_affinity]
    if (concurrency := config.load_concurrency) is not None:
        selectors += [each.node_selector for each in concurrency.per_node_config]
        if concurrency.prepare_queue_length < 0:
            raise ValueError("it is not valid: prepareQueueLength of loadConcurrency must be at least 0")
        numbers = [concurrency.global_config, *(each.number for each in concurrency.per_node_config)]
        if min(numbers) < 1:
            raise ValueError("it is not valid: each number of loadConcurrency must be at least 1")
    for selector in selectors:
        try:
            Selector.from_label_selector(selector)
        except ValueError as error:
            raise ValueError(f"it is not valid: a nodeSelector is wrong: {error}") from error


def _check_companions(config: NodeAgentConfig) -> None:
    for claim in (config.restore_claim, *config.backup_claims.values()):
        for name in (*claim.secret_names, *claim.config_map_names):
            if not is_object_name(name):
                raise ValueError(f"it is not valid: {name!r} cannot be the name of a Secret or ConfigMap")


def _warnings(raw: Mapping[str, Any]) -> list[str]:
    known = {member.encode_name for member in msgspec.structs.fields(NodeAgentConfig)}
    no_such = "there is no such setting"
    found = [
        f"{name} has no effect: {WITHOUT_EFFECT.get(name, no_such)}" for name in sorted(set(raw) - known)
    ]
    used = {name: value for name, value in raw.items() if name in known}
    inside = unknown_fields(NodeAgentConfig, used)
    return [*found, *(f"{path} has no effect: {no_such}" for path in sorted(inside))]
