"""The record in a Lease: which candidate may hold it now, and what is written to hold it. Pure; no I/O.

Clocks of two candidates are never compared: a lease counts as held for its duration after *this process* saw
it change, by its own monotonic clock. The times inside the spec are its holder's, for people. Only the API
server's own note of the last write, with its own Date, can shorten that. (docs/adr/091)
(docs/spec: SRV 14, CTL 15)
"""

import math
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from pinnace.api.objects import JSONObject, mapping, objects
from pinnace.api.values.times import http_date, known_time

SERVER_LEASE: Final = "pinnace-server"
"""The Lease of the server that leads, in its namespace."""


LONG_EXPIRED_SECONDS: Final = 120.0
"""A lease that by the API server's clock expired longer ago was left by a holder that is gone. If this were
shorter than the difference between the clocks of several API servers, it would say nothing."""


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a Lease. An empty holder means that it was released."""

    holder: str
    duration_seconds: float
    acquire_time: str
    renew_time: str
    transitions: int

    @classmethod
    def of(cls, lease: JSONObject, *, default_duration_seconds: float) -> "LeaseRecord":
        """Read a Lease; every field of its spec may be absent."""
        spec = mapping(lease, "spec")
        return cls(
            holder=spec.get("holderIdentity") or "",
            duration_seconds=float(spec.get("leaseDurationSeconds") or default_duration_seconds),
            acquire_time=spec.get("acquireTime") or "",
            renew_time=spec.get("renewTime") or "",
            transitions=int(spec.get("leaseTransitions") or 0),
        )


class ObservedLease(msgspec.Struct, frozen=True):
    """A record and when, by the monotonic clock of this process, it was first seen."""

    record: LeaseRecord
    seen_at: float

    def after(self, record: LeaseRecord, now: float) -> "ObservedLease":
        """The observation after reading the lease again: its time changes only if the record did."""
        return self if record == self.record else ObservedLease(record, now)

    def is_held(self, now: float) -> bool:
        """Whether the lease has not expired."""
        return bool(self.record.holder) and now < self.seen_at + self.record.duration_seconds


def is_long_expired(lease: JSONObject, record: LeaseRecord, date: str) -> bool:
    """Whether the lease was last written so long ago, by the API server's clock, that its holder is gone.

    Args:
        date: the Date of the answer with the lease.
    """
    written, asked = written_at(lease), http_date(date)
    if written is None or asked is None:
        return False
    return (asked - written).total_seconds() > record.duration_seconds + LONG_EXPIRED_SECONDS


def written_at(lease: JSONObject) -> datetime | None:
    """When the API server took the last write, by its own clock; None if that was not kept."""
    noted = (known_time(entry.get("time")) for entry in objects(lease, "metadata", "managedFields"))
    return max((moment for moment in noted if moment is not None), default=None)


def held_spec(
    former: LeaseRecord | None, identity: str, duration_seconds: float, now: datetime
) -> dict[str, Any]:
    """The spec of a lease that `identity` takes or renews."""
    renewing = former is not None and former.holder == identity
    transitions = former.transitions if former is not None else 0
    time = micro_time(now)
    return {
        "holderIdentity": identity,
        "leaseDurationSeconds": max(1, math.ceil(duration_seconds)),
        "acquireTime": former.acquire_time
        if former is not None and renewing and former.acquire_time
        else time,
        "renewTime": time,
        "leaseTransitions": transitions if renewing or former is None else transitions + 1,
    }


def released_spec(former: LeaseRecord, now: datetime) -> dict[str, Any]:
    """The spec that releases a lease, so that the next holder need not wait. As client-go writes it."""
    time = micro_time(now)
    return {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": time,
        "renewTime": time,
        "leaseTransitions": former.transitions,
    }


def micro_time(moment: datetime) -> str:
    """A time as Kubernetes' MicroTime: always six digits of fraction, in UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
