"""Lines out of the chunks of a stream."""

from collections.abc import Iterator


class LineTooLong(ValueError):
    """A line is longer than the maximum."""


class LineSplitter:
    """Joins chunks and splits them into lines, without line ends; empty lines are left out.

    Args:
        maximum_bytes: the length of the longest line.
        in_pieces: whether a longer line comes in pieces of that length, rather than to be an error.
    """

    def __init__(self, maximum_bytes: int, *, in_pieces: bool = False) -> None:
        self._maximum_bytes = maximum_bytes
        self._in_pieces = in_pieces
        self._parts: list[bytes] = []
        self._size_bytes = 0

    @property
    def has_rest(self) -> bool:
        """Whether an incomplete line is left."""
        return self._size_bytes > 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes.

        Raises:
            LineTooLong: an incomplete line grows beyond the maximum.
        """
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            self._parts.append(piece)
            yield from self.end()
        if not rest:
            return
        self._parts.append(rest)
        self._size_bytes += len(rest)
        if self._size_bytes <= self._maximum_bytes:
            return
        if not self._in_pieces:
            raise LineTooLong(f"larger than {self._maximum_bytes} bytes")
        *pieces, last = self.end()
        yield from pieces
        self._parts, self._size_bytes = [last], len(last)

    def end(self) -> Iterator[bytes]:
        """The rest after the last line end, which is complete now."""
        line = b"".join(self._parts)
        self._parts.clear()
        self._size_bytes = 0
        size = self._maximum_bytes if self._in_pieces else max(len(line), 1)
        for start in range(0, len(line), size):
            yield line[start : start + size]
