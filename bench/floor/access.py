"""How the benchmark's own clients reach the API server: an address and three PEM files.

Kept apart from pinnace.kube on purpose: the floors must not share code with what is measured against them.
"""

import json
import ssl
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the server is and which certificates to use; paths as text, so that it can be written to JSON."""

    server: str
    authority: str
    certificate: str
    key: str

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what `save` wrote."""
        return cls(**json.loads(path.read_text()))

    def save(self, path: Path) -> Path:
        """Write the access to a file, for a child process."""
        path.write_text(json.dumps(asdict(self)))
        return path

    def tls(self) -> ssl.SSLContext:
        """A TLS context that trusts the server and presents the client's certificate."""
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.certificate, self.key)
        return context
