"""Checks, at the start of a server, of what it needs in the cluster. (docs/spec: SRV 4)"""

from collections.abc import Collection, Sequence
from contextlib import suppress

from pinnace.api import API_VERSION, GROUP, kinds
from pinnace.api.resource_policies import PolicyError
from pinnace.csi.snapshots import FEATURE as CSI_FEATURE
from pinnace.csi.snapshots import UNSERVED, SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import DAEMON_SETS, NAMESPACES
from pinnace.operations.modifiers import read_modifiers
from pinnace.operations.policies import read_global_policies
from pinnace.operations.server_flags import MODIFIERS_FLAG, VOLUME_POLICIES_FLAG
from pinnace.restore.modifiers.rules import ModifierError
from pinnace.runtime.logfields import get_logger
from pinnace.volumes.node_agents import FORMER_NODE_AGENT, NAMES, NODE_AGENT

log = get_logger(__name__)


class StartupError(Exception):
    """The server cannot start; the text says what is missing and what to do."""


async def check_cluster(client: KubeClient, namespace: str, features: Collection[str]) -> Discovery:
    """Check all that a server needs. Returns what the cluster serves. Raises StartupError, KubeError."""
    await check_namespace(client, namespace)
    discovery = await Discovery.load(client)
    if discovery.gaps:
        log.warning(discovery.gaps)
    check_kinds(discovery)
    check_features(discovery, features)
    return discovery


async def check_namespace(client: KubeClient, namespace: str) -> None:
    """Check that the server's namespace exists. Raises StartupError, KubeError."""
    try:
        await client.get(NAMESPACES, namespace)
    except NotFound as error:
        raise StartupError(
            f'namespace "{namespace}" not found: create it or install the server (`pinnace install --help`), '
            "or name another with --namespace"
        ) from error


async def check_node_agents(client: KubeClient, namespace: str) -> None:
    """Warn if there is no node agent, or if there are two. (docs/spec: SRV 4, SRV-009)"""
    try:
        sets = await _node_agents(client, namespace)
    except KubeError as error:
        log.warning("Cannot tell whether there is a node agent", daemonset=NODE_AGENT, error=error)
    else:
        if not sets:
            log.warning("There is no node agent: pod volumes cannot be backed up", daemonset=NODE_AGENT)
        elif len(sets) > 1:
            log.warning(
                "There are two node agents, which take each other's work: "
                f"`kubectl -n {namespace} delete daemonset {FORMER_NODE_AGENT}` removes the former one"
            )


async def check_global_policies(client: KubeClient, namespace: str, config_map: str) -> None:
    """Check the rules for the volumes of every backup; empty for none. (docs/spec/after-1.18.md, 3.1)

    Raises:
        StartupError: they cannot be used, so that every backup would be refused.
        KubeError: they cannot be read now.
    """
    if not config_map:
        return
    try:
        await read_global_policies(client, namespace, config_map)
    except PolicyError as error:
        raise StartupError(f"{error}: correct the ConfigMap, or leave out {VOLUME_POLICIES_FLAG}") from error


async def check_default_modifiers(client: KubeClient, namespace: str, config_map: str) -> None:
    """Log an error if the modifiers of restores that name none cannot be used; empty for none. (3.2)

    Restores run without them, each with a warning.
    """
    if not config_map:
        return
    try:
        await read_modifiers(client, namespace, config_map)
    except (ModifierError, KubeError) as error:
        log.error(f"Restores are not changed by {MODIFIERS_FLAG}: {error}", config_map=config_map)


async def _node_agents(client: KubeClient, namespace: str) -> set[str]:
    """The names of the DaemonSets of node agents. Raises KubeError."""
    found = set()
    for name in NAMES:
        with suppress(NotFound):
            await client.get(DAEMON_SETS, name, namespace)
            found.add(name)
    return found


def check_kinds(discovery: Discovery) -> None:
    """Check that all kinds are served. Raises StartupError naming those that are not."""
    problem = missing_kinds([r.kind for r in discovery.resources if r.group == GROUP])
    if problem:
        raise StartupError(problem)


def missing_kinds(served: Sequence[str]) -> str:
    """The message about kinds that are missing; empty if none is. (docs/spec: CLI 12.1, SRV-007)"""
    hint = "Please apply the custom resource definitions: `pinnace install --crds-only --apply`"
    if not served:
        return f"Velero API group {API_VERSION} not found. {hint}"
    needed = (kind for kind in kinds.VELERO if kind is not kinds.RESTIC_REPOSITORIES)
    missing = [kind for kind in needed if kind.kind not in served]
    if not missing:
        return ""
    lines = [
        f"custom resource {kind.kind} not found in Velero API group {kind.group}/{kind.version}"
        for kind in missing
    ]
    return "\n".join([*lines, hint])


def check_features(discovery: Discovery, features: Collection[str]) -> None:
    """Warn of features that the cluster does not serve yet. (docs/spec: SRV 4, SRV-010)"""
    if CSI_FEATURE in features and SnapshotKinds.served(discovery) is None:
        log.warning(f"{UNSERVED}. Until then volumes get no CSI snapshots, which each backup of one warns of")
