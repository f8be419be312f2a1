"""How long requests to an API server may take, by default. Of its own, as `--help` loads it."""

DEFAULT_TIMEOUT_SECONDS = 30.0
"""A request that reads or writes one object; the API server's own limit is 60 s."""
LIST_TIMEOUT_SECONDS = 120.0
"""For one page of a list: its duration depends on its size, not only on the server."""
DEFAULT_PATIENCE_SECONDS = 300.0
"""How long an outage of the API server is waited out: long enough to upgrade a single control plane node."""
CONNECT_SECONDS = 10.0
"""The time allowed for connecting, TLS included."""
