"""The record in a Lease: which candidate may hold it now, and what is written to hold it. Pure; no I/O.

Clocks of two machines are never compared: a lease counts as held for its duration from the moment at which
*this process* saw it change, by its own monotonic clock. The times inside are for people.
(docs/spec: SRV 14, CTL 15)
"""

import math
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from pinnace.api.objects import JSONObject, mapping

SERVER_LEASE: Final = "pinnace-server"
"""The Lease of the server that leads, in its namespace."""


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


class Observation(msgspec.Struct, frozen=True):
    """A record and when, by the monotonic clock of this process, it was first seen."""

    record: LeaseRecord
    seen_at: float

    def after(self, record: LeaseRecord, now: float) -> "Observation":
        """The observation after reading the lease again: its time changes only if the record did."""
        return self if record == self.record else Observation(record, now)

    def is_held(self, now: float) -> bool:
        """Whether the lease has not expired."""
        return bool(self.record.holder) and now < self.seen_at + self.record.duration_seconds


def held_spec(
    former: LeaseRecord | None, identity: str, duration_seconds: float, now: datetime
) -> dict[str, Any]:
    """The spec by which `identity` takes or renews a lease."""
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
