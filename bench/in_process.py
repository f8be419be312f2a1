"""The command's work without the start of its process: `python -m bench.in_process ARGUMENTS...`.

Imports everything that the engines need, then times one run of the command line in this very process. Prints
one JSON object on the last line; the exit code is the command's. With `--without-index` as the first argument
the indexes of backups stay empty, which shows their cost.
"""

import importlib
import json
import sys
import time

from pinnace.archive.item_index import IndexWriter

MODULES = (
    "pinnace.cli.program",
    "pinnace.backup.runner",
    "pinnace.restore.runner",
    "pinnace.kube.discovery",
    "pinnace.storage.open",
    "pinnace.archive.writer",
    "pinnace.archive.reader",
)
WITHOUT_INDEX = "--without-index"


def main(arguments: list[str]) -> int:
    """Run one sample."""
    command, *_ = [importlib.import_module(name) for name in MODULES]
    if arguments[0] == WITHOUT_INDEX:
        arguments = arguments[1:]
        IndexWriter.add_batch = lambda *_: None  # type: ignore[method-assign]
    start, cpu = time.perf_counter(), time.process_time()
    code: int = command.run(arguments)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds}))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
