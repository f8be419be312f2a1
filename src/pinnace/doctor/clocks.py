"""Compares the clocks of the cluster and of stores with that of this machine."""

from datetime import datetime, timedelta

import aiohttp
import orjson

from pinnace.api.objects import dump_json
from pinnace.api.values.times import http_date, parse_time
from pinnace.doctor.findings import Finding, ok, problem, skipped, warning
from pinnace.kube.client import KubeClient
from pinnace.notices.codes import Code

CHECK = "clocks"
TOLERANCE = timedelta(seconds=30)
"""More than a slow answer explains; less than what breaks schedules or expiry."""
REFUSED = timedelta(minutes=5)
"""S3 refuses requests from fifteen minutes on, Azure and many proxies earlier."""
_REMEDY = "set this machine's clock, or the other one's, by NTP (`timedatectl status`)"
_REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
_ANSWER_SECONDS = 10.0


async def read_cluster_time(client: KubeClient) -> datetime | None:
    """The API server's time, from a review that is not stored; None before Kubernetes 1.28."""
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    answer = orjson.loads(await client.request("POST", path, body=dump_json(_REVIEW)))
    text = (answer.get("metadata") or {}).get("creationTimestamp")
    return parse_time(text) if isinstance(text, str) else None


async def read_store_time(url: str) -> datetime | None:
    """The store's time, from the answer to a signed URL; None if it tells no time, as a folder.

    The time stays unknown if only the location trusts the store's certificate.
    """
    if not url.startswith(("http://", "https://")):
        return None
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(trust_env=True, timeout=timeout) as session,
            session.get(url) as response,
        ):
            return http_date(response.headers.get("Date", ""))
    except (aiohttp.ClientError, TimeoutError):
        return None  # whether the store works was checked before; its time stays unknown


def judge(what: str, remote: datetime | None, local: datetime) -> Finding:
    """Compare a clock, read in whole seconds, with this machine's."""
    if remote is None:
        return skipped(CHECK, f"{what} does not tell its time")
    difference = remote - local
    seconds = abs(difference).total_seconds()
    relation = "ahead of" if difference > timedelta() else "behind"
    text = f"the clock of {what} is {seconds:.0f} seconds {relation} this machine's"
    if abs(difference) >= REFUSED:
        return problem(CHECK, text, _REMEDY, code=Code.CLOCK_DIFFERS)
    if abs(difference) > TOLERANCE:
        return warning(CHECK, text, _REMEDY, code=Code.CLOCK_DIFFERS)
    return ok(CHECK, f"the clock of {what} agrees with this machine's")
