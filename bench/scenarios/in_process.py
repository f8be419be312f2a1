"""The command's work without the start of its process: `python -m bench.scenarios.in_process ARGUMENTS...`.

Imports everything that the engines need, then times one run of the command line in this very process. Prints
one JSON object on the last line; the exit code is the command's. With `--without-index` as the first argument
the indexes of backups stay empty, which shows their cost. With `--checksums-alone` they stay empty too, but
as much is hashed as for an index: the least that any index costs.
"""

import importlib
import json
import sys
import time
from collections.abc import Iterable
from hashlib import sha256

from pinnace.archive.item_index import IndexWriter, Span

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
CHECKSUMS_ALONE = "--checksums-alone"
_HASHED_PERCENT = 80
"""How much of the generated objects is not managedFields, and so covered by their checksums."""
_UNLOCKED_BYTES = 2047
"""Up to this size hashlib keeps the interpreter's lock, as in `pinnace.archive.content`."""


def _nothing(*_: object) -> None:
    """Instead of `IndexWriter.add_batch`."""


def _checksums_alone(
    _writer: IndexWriter, _span: Span, batch: bytes, files: Iterable[tuple[str, str, int, int]]
) -> None:
    """Instead of `IndexWriter.add_batch`."""
    for _directory, _file, offset, size_bytes in files:
        end = offset + size_bytes * _HASHED_PERCENT // 100
        made = sha256()
        for begin in range(offset, end, _UNLOCKED_BYTES):
            made.update(batch[begin : min(begin + _UNLOCKED_BYTES, end)])
        made.digest()


INSTEAD = {WITHOUT_INDEX: _nothing, CHECKSUMS_ALONE: _checksums_alone}


def main(arguments: list[str]) -> int:
    """Run one sample."""
    command, *_ = [importlib.import_module(name) for name in MODULES]
    if arguments[0] in INSTEAD:
        IndexWriter.add_batch = INSTEAD[arguments[0]]  # type: ignore[assignment, method-assign]
        arguments = arguments[1:]
    start, cpu = time.perf_counter(), time.process_time()
    code: int = command.run(arguments)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds}))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
