"""The User-Agent header of every request, to API servers, stores and clouds alike. (docs/spec: CLI 1.4)"""

import os

from pinnace._version import __version__

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def user_agent(program: str = "pinnace") -> str:
    """Return `<program>/v<version> (<os>/<arch>)`, with the names that Go uses for the architecture."""
    system = os.uname()
    architecture = _ARCHITECTURES.get(system.machine, system.machine)
    return f"{program}/v{__version__} ({system.sysname.lower()}/{architecture})"
