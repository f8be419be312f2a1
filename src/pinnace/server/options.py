"""The settings of the server process. (docs/spec: SRV 2)"""

import os
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import Final

from pinnace.api.values.durations import Duration
from pinnace.controllers.shared.options import ControllerOptions
from pinnace.runtime.leader import LEASE_SECONDS
from pinnace.runtime.zone import local_zone

CLIENT_QPS: Final = 20.0
CLIENT_BURST: Final = 30
PLUGIN_DIRECTORY: Final = Path("/plugins")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions(ControllerOptions):
    """The settings of the server, from flags and environment. (docs/spec: SRV 2)

    Attributes:
        profiler_address: `host:port` of the profiler; None: no profiler.
        client_qps: requests to the API server a second, in the long run; None: as many as it takes.
        client_burst: requests at once after a pause, if `client_qps` is set.
        plugin_directory: searched for executables; need not exist.
        scratch: where big temporary files go; None: the system's temporary directory.
        disabled_controllers: names of controllers not to run; unknown names are ignored.
        leader_election: work only while holding the Lease of the namespace.
        lease_duration: how long a Lease lasts without being renewed; an outage of the API server of up to
            five sixths of that time does not end the server.
    """

    namespace: str
    metrics_address: str = ":8085"
    profiler_address: str | None = None
    log_level: str = "info"
    log_format: str = "text"
    scratch: Path | None = None
    features: frozenset[str] = frozenset()
    client_qps: float | None = None
    client_burst: int = CLIENT_BURST
    plugin_directory: Path = PLUGIN_DIRECTORY
    zone: tzinfo = field(default_factory=lambda: local_zone(os.environ))
    disabled_controllers: frozenset[str] = frozenset()
    leader_election: bool = True
    lease_duration: Duration = field(default_factory=lambda: Duration.seconds(LEASE_SECONDS))
