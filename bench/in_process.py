"""The command's work without the start of its process: `python -m bench.in_process ARGUMENTS...`.

Imports everything that the engines need, then times one run of the command line in this very process. Prints
one JSON object on the last line; the exit code is the command's.
"""

import importlib
import json
import sys
import time

MODULES = (
    "pinnace.cli.program",
    "pinnace.backup.runner",
    "pinnace.restore.runner",
    "pinnace.kube.discovery",
    "pinnace.storage.open",
    "pinnace.archive.writer",
    "pinnace.archive.reader",
)


def main(arguments: list[str]) -> int:
    """Run one sample."""
    command, *_ = [importlib.import_module(name) for name in MODULES]
    start = time.perf_counter()
    code: int = command.run(arguments)
    print(json.dumps({"seconds": time.perf_counter() - start}))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
