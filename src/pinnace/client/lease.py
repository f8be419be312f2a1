"""Tells the user when no server runs that could do what a command waits for.

A server renews its Lease every few seconds. No server holds a Lease that is absent, that was given back, or
that does not change while it is watched. Clocks of two machines are not compared, except for a Lease that was
renewed longer ago than any two clocks differ: an old one is watched for some seconds. (docs/spec: CLI 4.1,
SRV 14)
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final, TypeVar

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.labels import SERVER_LABEL
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.values.relative_times import past
from pinnace.api.values.times import known_time, parse_time
from pinnace.client.errors import ServerAbsent
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, DEPLOYMENTS, LEASES
from pinnace.runtime.lease import SERVER_LEASE

T = TypeVar("T")

FIRST_LOOK_SECONDS: Final = 2.0
SECOND_LOOK_SECONDS: Final = 10.0
"""Both from the beginning; a living server renews its lease several times in between."""

SHORT_LOOK_SECONDS: Final = 6.0
"""How long a lease is watched before a command gives up: three times the period of its renewal."""

RENEWAL_SECONDS: Final = 20.0
"""How far apart looks at a lease are once the work has begun; a server renews it several times in between."""

FRESH: Final = timedelta(minutes=1)
"""How long a lease lasts by default: an older one was lost, or is of a machine with another time."""
LONG_AGO: Final = timedelta(minutes=15)
_POLL_SECONDS: Final = 0.5


async def absence(client: KubeClient, namespace: str) -> str:
    """The reason why new objects wait if no server runs in the namespace; empty if one runs, or may run."""
    try:
        lease = await _lease(client, namespace)
        if lease is not None and mapping(lease, "spec").get("holderIdentity"):
            renewed = text(lease, "spec", "renewTime")
            age = SYSTEM_CLOCK.now() - parse_time(renewed) if renewed else timedelta()
            if age < FRESH or (age < LONG_AGO and await _is_renewed(client, namespace, lease)):
                return ""
            return f"a server: the last one in namespace {namespace} was last seen {_when(renewed)}"
        # By label: Velero's chart names the Deployment after its release.
        servers = await client.list_all(DEPLOYMENTS, namespace, label_selector=SERVER_LABEL)
    except (KubeError, ValueError):
        return ""
    if not servers:
        if lease is None and await _validates(client, namespace):
            return ""
        return f"a server: there is none in namespace {namespace}"
    if any(mapping(server, "status").get("availableReplicas") for server in servers):
        return ""
    name = text(servers[0], "metadata", "name")
    return f"a server: the Deployment {name} in namespace {namespace} has no pod that is ready"


def _when(renewed: str) -> str:
    """A time of a lease to the second, and how long ago that is on this machine's clock."""
    moment, now = known_time(renewed), SYSTEM_CLOCK.now()
    return f"{past(renewed, now)} (at {moment:%Y-%m-%d %H:%M:%S} UTC)" if moment else f"at {renewed}"


async def _is_renewed(client: KubeClient, namespace: str, lease: JSONObject) -> bool:
    """Whether the lease changes within three periods of its renewal. Raises KubeError."""
    loop = asyncio.get_running_loop()
    end = loop.time() + SHORT_LOOK_SECONDS
    while loop.time() < end:
        await asyncio.sleep(min(_POLL_SECONDS, SHORT_LOOK_SECONDS))
        if await _lease(client, namespace) != lease:
            return True
    return False


async def _validates(client: KubeClient, namespace: str) -> bool:
    """Whether something looked at a backup location of late, as a Velero server outside of the cluster does.

    Without a lease and a Deployment nothing else shows that it runs.
    """
    try:
        locations = await client.list_all(BACKUP_STORAGE_LOCATIONS, namespace)
    except KubeError:
        return True
    looks = (known_time(mapping(location, "status").get("lastValidationTime")) for location in locations)
    return any(look is not None and SYSTEM_CLOCK.now() - look < LONG_AGO for look in looks)


async def unless_absent(client: KubeClient, namespace: str, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work that a server has to answer; without a server it is cancelled within seconds.

    Raises:
        ServerAbsent: no server runs, by its lease and its Deployment. Who may not read them waits.
    """
    working, looking = asyncio.ensure_future(work), asyncio.ensure_future(_missing(client, namespace))
    try:
        await asyncio.wait((working, looking), return_when=asyncio.FIRST_COMPLETED)
        if not working.done() and (reason := looking.result()):
            raise ServerAbsent(reason)
        return await working
    finally:
        for task in (working, looking):
            task.cancel()
        await asyncio.wait((working, looking))


async def _missing(client: KubeClient, namespace: str) -> str:
    """Why no server runs, after a look at its lease for some seconds; empty if one runs, or may run."""
    await asyncio.sleep(FIRST_LOOK_SECONDS)
    if reason := await absence(client, namespace):
        return reason.partition(": ")[2]
    try:
        first = await _lease(client, namespace)
        await asyncio.sleep(SHORT_LOOK_SECONDS)
        second = await _lease(client, namespace)
    except KubeError:
        return ""
    if first is None or second != first:
        return ""  # Velero's server has no lease
    holder, renewed = text(first, "spec", "holderIdentity"), text(first, "spec", "renewTime")
    if not holder:  # given back by a server that stopped
        return f"no server holds the lease in namespace {namespace}"
    since = f"; it renewed it last {_when(renewed)}" if renewed else ""
    return f"{holder} holds the lease in namespace {namespace} and does not renew it{since}"


@asynccontextmanager
async def telling_of_absence(
    client: KubeClient, namespace: str, what: str, warn: Callable[[str], object]
) -> AsyncIterator[asyncio.Event]:
    """Warn if no server holds the lease after ten seconds; the caller goes on waiting.

    Args:
        what: what the caller waits for, for example `the backup`.
        warn: takes each warning.

    Yields:
        An event to set as soon as a server has begun.
    """
    begun = asyncio.Event()
    # Not in a task group, which would wrap the errors of the caller's own code.
    task = asyncio.create_task(_tell(client, namespace, what, begun, warn))
    try:
        yield begun
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _tell(
    client: KubeClient, namespace: str, what: str, begun: asyncio.Event, warn: Callable[[str], object]
) -> None:
    def say(message: str) -> None:
        warn(f"{message} Still waiting.")

    try:
        if await _is_absent(client, namespace, begun):
            say(
                f"No Pinnace server holds the lease {SERVER_LEASE} in namespace {namespace}, "
                f"so {what} may never begin. Is the server running, and in that namespace "
                "(--namespace names another)? "
                "A Velero server has no such lease."
            )
            await begun.wait()
        await _loss(client, namespace)
    except KubeError:
        return  # without the right to read the lease no message is printed
    outcome = "ends as Failed" if begun.is_set() else "begins"
    say(
        f"The server has not renewed its lease {SERVER_LEASE} in namespace {namespace} for "
        f"{RENEWAL_SECONDS:g} s, so it may have ended. Then {what} {outcome} when a server runs there again."
    )


async def _is_absent(client: KubeClient, namespace: str, begun: asyncio.Event) -> bool:
    """Whether no server holds the lease, and none has begun either; takes ten seconds."""
    if await _within(FIRST_LOOK_SECONDS, begun):
        return False
    first = await _lease(client, namespace)
    if await _within(SECOND_LOOK_SECONDS - FIRST_LOOK_SECONDS, begun):
        return False
    second = await _lease(client, namespace)
    return second is None or second == first or not mapping(second, "spec").get("holderIdentity")


async def _loss(client: KubeClient, namespace: str) -> None:
    """Return when the lease, which was renewed before, is not renewed any more.

    A lease that is never renewed says nothing: a server with --leader-elect=false does not use it.
    """
    last: JSONObject | None = None
    looks, is_alive = 0, False
    while True:
        await asyncio.sleep(RENEWAL_SECONDS)
        lease = await _lease(client, namespace)
        if is_alive and lease == last:
            return
        is_alive = looks > 0 and lease is not None and lease != last
        last, looks = lease, looks + 1


async def _within(seconds: float, begun: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await begun.wait()
    except TimeoutError:
        return False
    return True


async def _lease(client: KubeClient, namespace: str) -> JSONObject | None:
    try:
        return await client.get(LEASES, SERVER_LEASE, namespace)
    except NotFound:
        return None
