"""Checks the server and its leader, and the node agents."""

from dataclasses import dataclass, field
from datetime import tzinfo

from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.api.values.counts import counted
from pinnace.api.values.times import format_time, known_time
from pinnace.client.server_status import answered, ask_server, is_ours, older_side
from pinnace.client.server_zone import DEPLOYMENT, zone_of_deployment
from pinnace.doctor.findings import Finding, listed, ok, problem, skipped, warning
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import DEPLOYMENTS, LEASES, NODES, APIResource
from pinnace.notices.codes import Code
from pinnace.runtime.lease import SERVER_LEASE
from pinnace.volumes.node_agents import NodeAgents

CHECK = "server"
RIGHTS = (
    "get deployments.apps, create and get serverstatusrequests.velero.io, and get leases.coordination.k8s.io"
)
"""The rights that the check of the server needs in its namespace."""
AGENTS = "node agents"
ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """The state of the server.

    Attributes:
        deployment: None if the server runs outside of the cluster, or not at all.
        answer: the ServerStatusRequest; not answered if no server runs.
        lease: the Lease of the leader; a Velero server has none.
    """

    namespace: str
    deployment: JSONObject | None
    answer: JSONObject
    lease: JSONObject | None

    @property
    def answers(self) -> bool:
        """Whether a server answers now."""
        return answered(self.answer)

    @property
    def is_ours(self) -> bool:
        """Whether the server that answers is Pinnace's."""
        return self.answers and is_ours(self.answer)

    @property
    def account(self) -> str:
        """The service account of the server; empty if it has no Deployment."""
        template = mapping(mapping(self.deployment or {}, "spec"), "template")
        return str(mapping(template, "spec").get("serviceAccountName") or "")

    @property
    def zone(self) -> tzinfo:
        """The time zone of its schedules: UTC, as in the image, unless the Deployment sets TZ."""
        return zone_of_deployment(self.deployment)

    @property
    def image(self) -> str:
        """The image of the server; empty if it has no Deployment."""
        containers = objects(self.deployment, "spec", "template", "spec", "containers")
        return next((text(each, "image") for each in containers), "")


async def read_server(client: KubeClient, namespace: str) -> ServerFacts:
    """Ask the server, and read its Deployment and Lease. Raises KubeError."""
    return ServerFacts(
        namespace=namespace,
        deployment=await _maybe(client, DEPLOYMENTS, DEPLOYMENT, namespace),
        answer=await ask_server(client, namespace, ANSWER_SECONDS),
        lease=await _maybe(client, LEASES, SERVER_LEASE, namespace),
    )


async def _maybe(client: KubeClient, resource: APIResource, name: str, namespace: str) -> JSONObject | None:
    try:
        return await client.get(resource, name, namespace)
    except NotFound:
        return None


def judge_server(facts: ServerFacts, client_version: str) -> list[Finding]:
    """Whether a server answers, which one leads, and whether client and server are of one version."""
    findings = [_running(facts)]
    if facts.answers:
        version = str(mapping(facts.answer, "status").get("serverVersion") or "")
        holder = str(mapping(facts.lease or {}, "spec").get("holderIdentity") or "")
        if facts.lease is None:
            text = f"the server that answers ({version}) has no lease {SERVER_LEASE}: it is Velero's, "
            text += "or runs with --leader-elect=false"
            findings.append(ok(CHECK, text))
        elif holder:
            findings.append(ok(CHECK, f"{holder} leads"))
        else:
            findings.append(
                warning(
                    CHECK,
                    "no server holds the lease",
                    "wait some seconds; if it stays, restart the server",
                    code=Code.SERVER_NOT_LEADING,
                )
            )
        if facts.lease is not None and older_side(client_version, version):
            findings.append(
                warning(
                    CHECK,
                    f"the server is {version}, this client {client_version}",
                    "update the older one",
                    code=Code.SERVER_VERSION_DIFFERS,
                )
            )
    return findings


def _running(facts: ServerFacts) -> Finding:
    namespace = facts.namespace
    if facts.answers:
        version = mapping(facts.answer, "status").get("serverVersion")
        return ok(CHECK, f"a server of version {version} answers in namespace {namespace}")
    status = mapping(facts.deployment or {}, "status")
    holder = mapping(facts.lease or {}, "spec").get("holderIdentity")
    if facts.deployment is None and holder:
        renewed = text(facts.lease, "spec", "renewTime")
        moment = known_time(renewed)
        since = f", and renewed the lease last at {format_time(moment)}" if moment else ""
        return problem(
            CHECK,
            f"{holder} holds the lease in namespace {namespace}, but did not answer within {ANSWER_SECONDS:g}"
            f" seconds{since}",
            "does that process still run? Its log says what it is doing; if it has ended, start it again",
            code=Code.SERVER_SILENT,
        )
    if facts.deployment is None:
        return problem(
            CHECK,
            f"no server answers in namespace {namespace}, and it has no Deployment {DEPLOYMENT}",
            "install one, name its namespace (-n), or work without a server (--location)",
            code=Code.SERVER_MISSING,
        )
    if not status.get("readyReplicas"):
        return problem(
            CHECK,
            f"Deployment {DEPLOYMENT} in namespace {namespace} has no ready pod",
            f"`kubectl -n {namespace} describe pod -l deploy=velero` and its log say why",
            code=Code.SERVER_NOT_READY,
        )
    return problem(
        CHECK,
        f"the server in namespace {namespace} runs, but did not answer within {ANSWER_SECONDS:g} seconds",
        f"`kubectl -n {namespace} logs deploy/{DEPLOYMENT}` says what it is doing",
        code=Code.SERVER_SILENT,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """Whether there are node agents, the nodes, and those with a ready agent."""

    are_installed: bool = False
    nodes: list[str] = field(default_factory=list)
    with_agent: set[str] = field(default_factory=set)


async def read_agents(client: KubeClient, namespace: str) -> AgentFacts:
    """Read the DaemonSet, the pods of agents, and the nodes that can run pods. Raises KubeError."""
    seen = await NodeAgents(client, namespace).look()
    if seen.daemon_set is None and not seen.pods:
        return AgentFacts()
    nodes = [
        str(node["metadata"]["name"])
        for node in await client.list_all(NODES)
        if not mapping(node, "spec").get("unschedulable")
    ]
    return AgentFacts(are_installed=True, nodes=nodes, with_agent=seen.ready_on())


def judge_agents(facts: AgentFacts, namespace: str) -> list[Finding]:
    """A finding about nodes without a ready agent: volumes of pods there cannot be saved."""
    if not facts.are_installed:
        return [
            skipped(
                AGENTS,
                f"none are installed in namespace {namespace}: files of volumes are not backed up, and data"
                " of CSI snapshots is not moved",
                "if they are wanted, install again with the same flags and --use-node-agent",
                code=Code.AGENTS_NOT_INSTALLED,
            )
        ]
    if not facts.nodes:
        return [skipped(AGENTS, "the cluster has no node that takes pods", "")]
    lacking = [node for node in facts.nodes if node not in facts.with_agent]
    if lacking:
        return [
            problem(
                AGENTS,
                f"no ready agent on {len(lacking)} of {counted(len(facts.nodes), 'node')}: {listed(lacking)}",
                f"`kubectl -n {namespace} get pods -o wide` shows why; the agents need a toleration for"
                " tainted nodes",
                code=Code.AGENTS_MISSING,
            )
        ]
    return [ok(AGENTS, f"{counted(len(facts.nodes), 'node')}, each with a ready agent")]
