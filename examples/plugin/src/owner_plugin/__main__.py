"""The program that a server runs from its plugin directory."""

import sys

from pinnace.plugins import serve

from . import plugins


def main() -> None:
    """Serve until the server says that it is enough."""
    sys.exit(serve(plugins))


if __name__ == "__main__":
    main()
