"""Writes the output of a program to a device: cut to a size, counted, and on the disk in the end."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from io import FileIO
from pathlib import Path
from typing import Final

from pinnace.aio.blocking import in_own_thread, in_thread, settle
from pinnace.volumes.uploader.errors import CommandFailed, UnexpectedOutput, Unsupported, UploaderError
from pinnace.volumes.uploader.output import ByteCounts
from pinnace.volumes.uploader.processes import TRANSFER_SECONDS

_CHUNK_BYTES: Final = 1 << 20


class DeviceStream:
    """The way of a program's output to a device.

    A pipe lies between: the output may be longer than what is to be written. The copy is done in a thread,
    with a buffer of 1 MiB. Zeros are written like all other bytes: the device may have been in use.

    Attributes:
        pipe: the standard output of the program.
        written_bytes: the number of bytes that the device has.
    """

    def __init__(self, device: FileIO, output: FileIO, pipe: FileIO, size_bytes: int | None) -> None:
        self.pipe = pipe
        self.written_bytes = 0
        self._device = device
        self._output = output
        self._size_bytes = size_bytes

    def progress(self) -> ByteCounts | None:
        """How much is written; None before the first byte."""
        done = self.written_bytes
        return ByteCounts(total_bytes=max(done, self._size_bytes or 0), bytes_done=done) if done else None

    def copy(self) -> None:
        """Write what comes, until the program and the owner of the pipe have closed it. Raises OSError."""
        buffer = memoryview(bytearray(_CHUNK_BYTES))
        with self._output:  # closed, it ends a program whose device fails
            while count := self._output.readinto(buffer):
                if self._size_bytes is not None:
                    count = min(count, self._size_bytes - self.written_bytes)
                part = buffer[:count]
                while part:
                    done = self._device.write(part)
                    self.written_bytes += done
                    part = part[done:]


@asynccontextmanager
async def streaming(
    path: Path, size_bytes: int | None = None, *, least_bytes: int = 0
) -> AsyncIterator[DeviceStream]:
    """Open a device for the program that the body runs; what it printed is on the disk afterwards.

    Args:
        size_bytes: how much of the output is written, and must come; None for all of it.
        least_bytes: the size that the device must have, for output that is written whole.

    Raises:
        Unsupported: the device is smaller.
        CommandFailed: the device cannot be opened or written.
        UnexpectedOutput: the program printed less.
    """
    with ExitStack() as stack:
        device = stack.enter_context(await opened(path, "rb+"))
        if needed := max(size_bytes or 0, least_bytes):
            found = os.lseek(device.fileno(), 0, os.SEEK_END)
            os.lseek(device.fileno(), 0, os.SEEK_SET)
            if found < needed:
                raise Unsupported(f"dest dev({path}) size is too small ({found} vs. {needed})")
        reading, writing = os.pipe()
        output, pipe = stack.enter_context(FileIO(reading)), stack.enter_context(FileIO(writing, "wb"))
        stream = DeviceStream(device, output, pipe, size_bytes)
        copying = asyncio.create_task(in_own_thread(stream.copy))
        failed: UploaderError | None = None
        try:
            yield stream
        except UploaderError as error:
            failed = error  # if the device failed, the program could only fail as well
        finally:
            pipe.close()  # the program has ended; now the copy ends
            await settle({copying}, grace_seconds=TRANSFER_SECONDS)
        try:
            copying.result()
            if failed is not None:
                raise failed
            if size_bytes is not None and stream.written_bytes < size_bytes:
                raise UnexpectedOutput(f"kopia printed {stream.written_bytes} of {size_bytes} bytes")
            await in_thread(os.fsync, device.fileno())
        except OSError as error:
            raise _failed("write", path, error) from error


async def opened(path: Path, mode: str) -> FileIO:
    """A device, unbuffered. Raises CommandFailed."""
    try:
        return await in_thread(FileIO, path, mode)
    except OSError as error:
        raise _failed("open", path, error) from error


def _failed(what: str, path: Path, error: OSError) -> CommandFailed:
    return CommandFailed(what, exit_code=None, reason=f"{path}: {error.strerror}")
