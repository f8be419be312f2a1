"""Makes the checks in their order. A failure to read is a finding too."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from pinnace._version import __version__
from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.objects import JSONObject
from pinnace.client.caller import Caller
from pinnace.client.errors import ClientError
from pinnace.client.location import LocationBackend
from pinnace.client.server import ServerBackend
from pinnace.doctor import (
    backups,
    clocks,
    credentials,
    definitions,
    locations,
    messages,
    repositories,
    rights,
    schedules,
    server,
    snapshots,
)
from pinnace.doctor.encryption import judge_encryption
from pinnace.doctor.findings import Finding, judge_refusals, ok, problem, refused, skipped
from pinnace.doctor.looking import SeenLocation, look_by_server
from pinnace.kube import config as kube_config
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import Forbidden, KubeError, NotFound
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, BACKUPS, NAMESPACES, SCHEDULES
from pinnace.kube.transport.timeouts import DEFAULT_PATIENCE_SECONDS
from pinnace.notices.codes import Code
from pinnace.storage.errors import StorageError
from pinnace.storage.location_url import location_title
from pinnace.store_access.user_agent import user_agent

if TYPE_CHECKING:
    from pinnace.kube.client import KubeClient

Step = Callable[[], Awaitable[list[Finding]]]


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """The subject of an examination.

    Attributes:
        kubeconfig, context: which cluster; by default that of kubectl.
        namespace: where its server is.
        location: a path or URL, to examine what is needed without a server; None for the server.
        namespaces: whose objects are backed up without a server; empty for all.
        patience_seconds: how long the API server may be silent.
    """

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str = "velero"
    location: str | None = None
    namespaces: Sequence[str] = ()
    patience_seconds: float = DEFAULT_PATIENCE_SECONDS


async def examine(subject: Subject, caller: Caller | None = None) -> list[Finding]:
    """Make all checks, in their order.

    Commands in remedies are `backup verify NAME` and the like, which `Caller.pasteable` completes. Nothing is
    raised for what is wrong with cluster, server or location: that is a finding.
    """
    caller = caller or Caller()
    examination = _Examination()
    found = examination.findings
    async with _cluster(subject, found, caller) as client:
        if client is not None:
            await _examine_cluster(client, subject, examination)
            found += judge_refusals(found, [rights.CHECK], about="the cluster", rights=rights.RIGHTS)
        if subject.location is not None:
            found += await _examine_location(subject.location, caller)
        elif client is not None:
            await _examine_server(client, subject.namespace, examination)
            namespace = subject.namespace
            found += judge_refusals(
                found,
                _OF_SERVER,
                about=f"the server in namespace {namespace}",
                rights=f"{server.RIGHTS} in namespace {namespace}",
            )
    return [replace(finding, remedy=caller.pasteable(finding.remedy)) for finding in found]


@dataclass(slots=True)
class _Examination:
    """The findings so far, in the order of the checks."""

    findings: list[Finding] = field(default_factory=list)

    async def step(self, check: str, work: Step) -> None:
        """Add the findings of one check; one that cannot be made is skipped, with the reason."""
        try:
            self.findings += await work()
        except Forbidden as error:
            self.findings.append(refused(check, str(error)))
        except NotFound as error:
            self.findings.append(skipped(check, f"not checked: {error}", code=Code.NOT_SERVED))
        except KubeError as error:
            self.findings.append(
                problem(
                    check,
                    f"could not be checked: {error}",
                    "is the cluster overloaded? Try again",
                    code=Code.CHECK_FAILED,
                )
            )


@asynccontextmanager
async def _cluster(
    subject: Subject, findings: list[Finding], caller: Caller
) -> AsyncIterator["KubeClient | None"]:
    """A client, with findings about kubeconfig and credentials; None if the cluster cannot be reached."""
    from pinnace.kube.client import KubeClient

    check = "kubeconfig"
    try:
        config = kube_config.load_config(
            subject.kubeconfig, subject.context, patience_seconds=subject.patience_seconds
        )
        held = await credentials.read_held(config)
        findings += credentials.judge(held, config.user, SYSTEM_CLOCK.now())
    except KubeError as error:
        findings.append(
            problem(
                check,
                str(error),
                "fix what is named here, or use another kubeconfig (--kubeconfig, KUBECONFIG) or context "
                "(--kubecontext)",
                code=Code.KUBECONFIG_UNUSABLE,
            )
        )
        yield None
        return
    async with KubeClient(config, user_agent=user_agent(caller.program)) as client:
        try:
            version = await client.version()
        except KubeError as error:
            findings.append(credentials.judge_refusal(error, held, config, SYSTEM_CLOCK.now()))
            yield None
            return
        if held.none and await credentials.is_anonymous(client):
            findings.append(credentials.judge_none(config.user))
            yield None  # all else would be refused, too
        else:
            text = f"{config.user or 'this user'} reaches {config.server}, Kubernetes {version.git_version}"
            findings.append(ok(check, text))
            yield client


async def _examine_cluster(client: "KubeClient", subject: Subject, examination: _Examination) -> None:
    """Check the parts that matter with and without a server, and without one the rights of this user."""
    namespaces = subject.namespaces

    async def of_user() -> list[Finding]:
        discovery = await Discovery.load(client)
        answers = await rights.read_rights(client, rights.Account(), namespaces, discovery.resources)
        return rights.judge(answers, namespaces)

    async def of_namespaces() -> list[Finding]:
        findings = []
        for name in namespaces:
            try:
                await client.get(NAMESPACES, name)
            except NotFound:
                why = await ServerBackend(client, name).why_empty("backups")
                findings.append(
                    problem(rights.CHECK, why, "correct --include-namespaces", code=Code.NAMESPACE_MISSING)
                )
        return findings

    async def of_clock() -> list[Finding]:
        return [clocks.judge("the cluster", await clocks.read_cluster_time(client), SYSTEM_CLOCK.now())]

    async def of_snapshots() -> list[Finding]:
        return snapshots.judge(await snapshots.read_snapshots(client))

    await examination.step(rights.CHECK, of_namespaces)
    if subject.location is not None:
        await examination.step(rights.CHECK, of_user)
    elif namespaces:
        text = "--include-namespaces is not used: a server needs its rights in the whole cluster"
        examination.findings.append(skipped(rights.CHECK, text))
    await examination.step(clocks.CHECK, of_clock)
    await examination.step(snapshots.CHECK, of_snapshots)


async def _examine_location(url: str, caller: Caller) -> list[Finding]:
    """Check the location of commands without a server."""
    try:
        async with LocationBackend.open(url, caller) as location:
            title = location_title(location.location)
            if inner := await location.inner_folder():
                text = f"{title} is no location: {inner}"
                return [problem(locations.CHECK, text, "correct --location", code=Code.LOCATION_UNUSABLE)]
            probe = await locations.probe_store(location.store)
            ended = [] if probe.problem else await _last_backups(location)
    except ClientError as error:
        remedy = "correct --location; a folder that does not exist is made by the first backup"
        return [problem(locations.CHECK, str(error), remedy, code=Code.LOCATION_UNUSABLE)]
    return [
        locations.judge_probe(title, probe),
        *judge_encryption(title, probe.encryption, of_server=False),
        *ended,
        *_clock_of(title, probe),
        *repositories.judge_locks(title, probe.locks, in_use=False),
    ]


async def _last_backups(location: LocationBackend) -> list[Finding]:
    try:
        async with asyncio.timeout(locations.PROBE_SECONDS):
            found = await location.objects(BACKUPS.name)
    except (TimeoutError, StorageError) as error:
        said = str(error) or f"they could not be read within {locations.PROBE_SECONDS:g} seconds"
        return [skipped(backups.CHECK, f"not checked: {said}", code=Code.CHECK_FAILED)]
    return backups.judge(found, SYSTEM_CLOCK.now())


def _clock_of(name: str, probe: locations.Probe, now: datetime | None = None) -> list[Finding]:
    if probe.store_time is None:
        return []  # a folder, a store that signs no URLs, or one that could not be used: said already
    return [clocks.judge(f"the store of {name}", probe.store_time, now or SYSTEM_CLOCK.now())]


_OF_SERVER = (
    server.CHECK,
    locations.CHECK,
    definitions.CHECK,
    server.AGENTS,
    repositories.CHECK,
    schedules.CHECK,
    messages.CHECK,
    backups.CHECK,
)


async def _missing_namespace(client: "KubeClient", namespace: str) -> Finding | None:
    """The finding about a namespace that does not exist: all about its server follows from that."""
    why = await ServerBackend(client, namespace).why_empty("backups")
    if not why:
        return None
    remedy = "name the server's namespace with -n, or install a server"
    return problem(server.CHECK, why, remedy, code=Code.NAMESPACE_MISSING)


async def _examine_server(client: "KubeClient", namespace: str, examination: _Examination) -> None:
    """Check the parts that only a server has."""
    facts: server.ServerFacts | None = None
    missing = await _missing_namespace(client, namespace)

    async def of_definitions() -> list[Finding]:
        return definitions.judge(await definitions.read_definitions(client))

    async def of_server() -> list[Finding]:
        nonlocal facts
        facts = await server.read_server(client, namespace)
        findings = server.judge_server(facts, f"v{__version__}")
        if facts.image:
            findings += definitions.judge_for_velero(await definitions.read_definitions(client), facts.image)
        if facts.account:
            discovery = await Discovery.load(client)
            account = rights.Account.of_service_account(namespace, facts.account)
            findings += rights.judge(await rights.read_rights(client, account, (), discovery.resources), ())
        return findings

    async def of_agents() -> list[Finding]:
        return server.judge_agents(await server.read_agents(client, namespace), namespace)

    async def of_locations() -> list[Finding]:
        found = await client.list_all(BACKUP_STORAGE_LOCATIONS, namespace)
        names = [str(one["metadata"]["name"]) for one in found]
        examined = await asyncio.gather(*(_examine_one(client, facts, one) for one in found))
        probes = {name: probe for name, (_, probe) in zip(names, examined, strict=True)}
        looks = {name: look for name, (look, _) in zip(names, examined, strict=True)}
        findings = locations.judge_servers(looks, probes, SYSTEM_CLOCK.now())
        in_use = await repositories.is_in_use(client, namespace)
        for name, probe in probes.items():
            findings += judge_encryption(name, probe.encryption, of_server=True)
            findings += _clock_of(name, probe)
            findings += repositories.judge_locks(name, probe.locks, in_use=in_use)
        return findings

    async def of_repositories() -> list[Finding]:
        return repositories.judge(await repositories.read_repositories(client, namespace))

    async def of_passwords() -> list[Finding]:
        public = await repositories.read_public_passwords(client, namespace)
        return repositories.judge_passwords(public, namespace)

    async def of_messages() -> list[Finding]:
        return messages.judge(
            await messages.read_messages(client, namespace),
            await messages.read_ledgers(client, namespace),
            await client.list_all(SCHEDULES, namespace),
        )

    async def of_schedules() -> list[Finding]:
        found = await client.list_all(SCHEDULES, namespace)
        names = [
            str(one["metadata"]["name"]) for one in await client.list_all(BACKUP_STORAGE_LOCATIONS, namespace)
        ]
        return schedules.judge(
            found,
            names,
            SYSTEM_CLOCK.now(),
            zone=UTC if facts is None else facts.zone,
            in_progress=schedules.running(await client.list_all(BACKUPS, namespace)) if found else (),
            without_server="" if facts is None or facts.answers else f"namespace {namespace}",
        )

    async def of_backups() -> list[Finding]:
        return backups.judge(await client.list_all(BACKUPS, namespace), SYSTEM_CLOCK.now())

    for check, work in (
        (definitions.CHECK, of_definitions),
        (server.CHECK, of_server),
        (server.AGENTS, of_agents),
        (locations.CHECK, of_locations),
        (repositories.CHECK, of_repositories),
        (repositories.PASSWORD, of_passwords),
        (schedules.CHECK, of_schedules),
        (messages.CHECK, of_messages),
        (backups.CHECK, of_backups),
    ):
        if missing is None or check == definitions.CHECK:
            await examination.step(check, work)
    if missing is not None:
        examination.findings.append(missing)


async def _examine_one(
    client: "KubeClient", facts: server.ServerFacts | None, location: JSONObject
) -> tuple[SeenLocation, locations.Probe]:
    """Look at one location from here, and have the server look at it, both at the same time.

    Args:
        facts: None if it is not known whether a server answers.
    """
    look, probe = await asyncio.gather(
        look_by_server(
            client,
            location,
            answers=facts is None or facts.answers,
            obeys=facts is None or facts.is_ours,
        ),
        locations.probe_location(client, location["metadata"]["namespace"], location),
    )
    return look, probe
