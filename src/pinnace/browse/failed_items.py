"""Which items the errors of a backup name, to tell an item that failed from one that was lost. Pure.

Velero lists the items that it could not save too. They are not in the tarball, and each has an error in the
log and, since 1.10, among the results. Both are hostile input: only names are kept, up to a limit.
"""

import re
from typing import Final

from pinnace.api.objects import JSONObject, listed, mapping

_MOST_NAMED: Final = 100_000
_LONGEST_LINE_BYTES: Final = 1 << 20
"""Of a longer line, such as an error with a whole object in it, only the beginning is looked at."""

_ERROR_LEVELS: Final = (b"level=error", b'"level":"error"')

_FIELD: Final = r'(?<![\w.])%s(?:=|":\s*"|: /)"?([^\s",]+)'
"""A field of a line of text or JSON, or of a message that Velero makes of one: ` name: /web message: /…`."""
_NAME: Final = re.compile(_FIELD % "name")
_NAMESPACE: Final = re.compile(_FIELD % "namespace")
_BOTH: Final = re.compile(
    r'(?<![\w./:-])(?<!backup=)(?<!backup":")'
    r"([a-z0-9][a-z0-9-]*)/([A-Za-z0-9](?:[\w.:-]*[A-Za-z0-9])?)(?![\w/])"
)
"""A namespace and a name in an error: `PVC shop/data has no volume`. The name of the backup is none."""


class FailedItems:
    """The namespaces and names that errors name; of some errors only the name is known."""

    def __init__(self) -> None:
        self._named: set[tuple[str | None, str]] = set()

    def add_error(self, text: str) -> None:
        """Take an error: a line of the log, or a message of the results."""
        if len(self._named) >= _MOST_NAMED:
            return
        found: list[tuple[str | None, str]] = [(match[1], match[2]) for match in _BOTH.finditer(text)]
        namespace = _NAMESPACE.search(text)
        found += [(namespace[1] if namespace else None, match[1]) for match in _NAME.finditer(text)]
        self._named.update(found)

    def add_results(self, results: JSONObject) -> None:
        """Take the results of a backup."""
        errors = mapping(results, "errors")
        namespaces = mapping(errors, "namespaces").values()
        texts = [*listed(errors, "velero"), *listed(errors, "cluster")]
        texts += [each for group in namespaces if isinstance(group, list) for each in group]
        for each in texts:
            if isinstance(each, str):
                self.add_error(each[:_LONGEST_LINE_BYTES])

    def has(self, key: str) -> bool:
        """Whether there is an error of an item.

        Args:
            key: `namespace/name`, or the name of a cluster-scoped item.
        """
        namespace, _, name = key.rpartition("/")
        return (namespace, name) in self._named or (None, name) in self._named


class LogErrors:
    """Reads a log block by block and keeps the lines of errors."""

    def __init__(self, failed: FailedItems) -> None:
        self._failed = failed
        self._line = b""

    def feed(self, block: bytes) -> None:
        """Take a block."""
        first, *others = block.split(b"\n")
        self._line = (self._line + first)[:_LONGEST_LINE_BYTES]
        for each in others:
            self._take(self._line)
            self._line = each[:_LONGEST_LINE_BYTES]

    def finish(self) -> None:
        """Take the last line."""
        self._take(self._line)

    def _take(self, line: bytes) -> None:
        if any(level in line for level in _ERROR_LEVELS):
            self._failed.add_error(line.decode(errors="replace"))
