"""The program that a server runs from its plugin directory."""

import sys

from owner_plugin import plugins  # by its full name: PyInstaller runs this file by itself
from pinnace.plugins import serve


def main() -> None:
    """Serve until the server ends the program."""
    sys.exit(serve(plugins))


if __name__ == "__main__":
    main()
