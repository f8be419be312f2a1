"""Talks to plugin programs of age, which wrap and unwrap file keys by keys that they alone know.

The plugin NAME is the program `age-plugin-NAME` on PATH. It is run once for all its keys, gets them by a
pipe, and asks the user by messages. (https://c2sp.org/age-plugin) pyrage runs plugins too, but holds the
interpreter until the program ends, however long that takes.

Not here: whose keys may name a plugin (storage), and how the user is asked (cli).
"""

import asyncio
import logging
import re
import shutil
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final, Protocol

from pinnace.age.errors import InvalidIdentity, MalformedFile, PluginFailed
from pinnace.age.header import (
    COLUMNS,
    FILE_KEY_BYTES,
    MOST_HEADER_BYTES,
    MOST_STANZAS,
    Stanza,
    decode_base64,
    parse_arguments,
    write_stanza,
)
from pinnace.aio.blocking import in_thread

SILENCE_LIMIT_SECONDS: Final = 60.0
"""How long a plugin may be silent: the user may have to touch a key. Time for the user's answers is extra."""
_MOST_MESSAGES: Final = 1_000
_MOST_CHARACTERS: Final = 500
"""Of a message that is shown."""
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9+._-]*")
_OK: Final = Stanza(("ok",), b"")
_FAIL: Final = Stanza(("fail",), b"")

_logger = logging.getLogger(__name__)


class Dialog(Protocol):
    """Carries messages and questions of plugins to the user. The calls may block."""

    def show(self, text: str) -> None:
        """Show a message."""

    def confirm(self, text: str, yes: str, no: str) -> bool:
        """Whether the user chooses the first of two answers. Raises InvalidIdentity: nobody can be asked."""

    def ask(self, text: str, *, secret: bool) -> str:
        """The answer of the user. Raises InvalidIdentity: nobody can be asked."""


class NobodyToAsk:
    """The dialog of runs without a user: messages are logged, questions refused."""

    def show(self, text: str) -> None:
        """Log a message."""
        _logger.info("A plugin of age says: %s", text)

    def confirm(self, text: str, yes: str, no: str) -> bool:
        """Refuse. Raises InvalidIdentity."""
        return bool(self.ask(text, secret=False))

    def ask(self, text: str, *, secret: bool) -> str:
        """Refuse. Raises InvalidIdentity."""
        raise InvalidIdentity(f"it asks {text!r}, and there is nobody to answer")


def plugin_name(prefix: str, *, before: str, after: str = "") -> str:
    """The plugin in the Bech32 prefix of a key. Raises ValueError if no program can have that name."""
    name = prefix.removeprefix(before).removesuffix(after)
    if not prefix.startswith(before) or not prefix.endswith(after) or not _NAME.fullmatch(name):
        raise ValueError("it names no plugin")
    return name


async def wrap_by_plugin(
    name: str, recipients: Sequence[str], file_key: bytes, *, limit_seconds: float = SILENCE_LIMIT_SECONDS
) -> tuple[list[Stanza], frozenset[str]]:
    """Wrap a file key for the recipients of one plugin.

    Returns:
        The stanzas, and their labels: only recipients with the same labels may share a file.

    Raises:
        PluginFailed: the program is missing, hangs, fails, or asks for something.
    """
    stanzas: list[Stanza] = []
    labels: frozenset[str] = frozenset()
    first = [
        *(Stanza(("add-recipient", recipient), b"") for recipient in recipients),
        Stanza(("wrap-file-key",), file_key),
        Stanza(("extension-labels",), b""),
    ]
    async with _running(name, "recipient-v1", NobodyToAsk(), limit_seconds) as plugin:
        async with aclosing(plugin.messages(first)) as messages:
            async for message in messages:
                match message.arguments:
                    case ("recipient-stanza", "0", kind, *rest) if len(stanzas) < MOST_STANZAS:
                        stanzas.append(Stanza((kind, *rest), message.body))
                        await plugin.reply(_OK)
                    case ("labels", *found):
                        labels = frozenset(found)
                        await plugin.reply(_OK)
                    case _:
                        await plugin.answer(message)
        plugin.raise_errors()
    if len(stanzas) < len(recipients):
        raise PluginFailed(name, "it has not wrapped the key for all its recipients")
    return stanzas, labels


async def unwrap_by_plugin(
    name: str,
    identities: Sequence[str],
    stanzas: Iterable[Stanza],
    dialog: Dialog,
    *,
    limit_seconds: float = SILENCE_LIMIT_SECONDS,
) -> bytes | None:
    """The file key in the stanzas of a file; None if they are for none of the plugin's identities.

    Raises:
        PluginFailed: the program is missing, hangs or fails.
    """
    file_key: bytes | None = None
    first = [
        *(Stanza(("add-identity", identity), b"") for identity in identities),
        *(Stanza(("recipient-stanza", "0", *each.arguments), each.body) for each in stanzas),
    ]
    async with _running(name, "identity-v1", dialog, limit_seconds) as plugin:
        async with aclosing(plugin.messages(first)) as messages:
            async for message in messages:
                match message.arguments:
                    case ("file-key", "0") if len(message.body) == FILE_KEY_BYTES:
                        file_key = message.body
                        await plugin.reply(_OK)
                    case _:
                        await plugin.answer(message)
        if file_key is None:
            plugin.raise_errors()
    return file_key


@asynccontextmanager
async def _running(
    name: str, state_machine: str, dialog: Dialog, limit_seconds: float
) -> AsyncGenerator["_Plugin", None]:
    """One run of a plugin program, which ends with the context."""
    program = shutil.which(f"age-plugin-{name}")
    if program is None:
        raise PluginFailed(name, "there is no such program on PATH")
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            f"--age-plugin={state_machine}",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # may repeat keys
            cwd="/",
            limit=MOST_HEADER_BYTES,
        )
    except OSError as error:
        raise PluginFailed(name, f"it cannot be started: {error.strerror}") from error
    try:
        yield _Plugin(name, process, dialog, limit_seconds)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        await process.wait()


class _Plugin:
    """A plugin program that runs."""

    def __init__(
        self, name: str, process: asyncio.subprocess.Process, dialog: Dialog, limit_seconds: float
    ) -> None:
        assert process.stdin is not None, "it is a pipe"
        assert process.stdout is not None, "it is a pipe"
        self._name = name
        self._input, self._output = process.stdin, process.stdout
        self._dialog = dialog
        self._limit_seconds = limit_seconds
        self._errors: list[str] = []

    async def messages(self, first: Sequence[Stanza]) -> AsyncGenerator[Stanza, None]:
        """What the program sends after our first messages; the caller replies to each.

        Raises:
            PluginFailed: it hangs, ends early, or does not speak the protocol.
        """
        await self._send([*first, Stanza(("done",), b"")])
        for _ in range(_MOST_MESSAGES):
            message = await self._read()
            if message.arguments == ("done",):
                return
            yield message
        raise PluginFailed(self._name, f"it has sent more than {_MOST_MESSAGES} messages")

    async def answer(self, message: Stanza) -> None:
        """Reply to a message that is no result."""
        text = _text(message.body)
        try:
            match message.arguments:
                case ("msg",):
                    await in_thread(self._dialog.show, f"age-plugin-{self._name}: {text}")
                    reply = _OK
                case ("confirm", yes, *no):
                    labels = [_text(decode_base64(each.encode())) for each in (yes, *no[:1])]
                    chosen = await in_thread(self._dialog.confirm, text, labels[0], (labels[1:] or ["no"])[0])
                    reply = Stanza(("ok", "yes" if chosen else "no"), b"")
                case ("request-public" | "request-secret" as kind,):
                    is_secret = kind == "request-secret"
                    reply = Stanza(
                        ("ok",), (await in_thread(self._dialog.ask, text, secret=is_secret)).encode()
                    )
                case ("error", *_):
                    self._errors.append(text)
                    reply = _OK
                case _:
                    reply = Stanza(("unsupported",), b"")
        except MalformedFile:
            raise self._confused() from None
        except InvalidIdentity as error:
            self._errors.append(str(error))
            reply = _FAIL
        await self.reply(reply)

    async def reply(self, reply: Stanza) -> None:
        """Reply to the last message. Raises PluginFailed."""
        await self._send([reply])

    def raise_errors(self) -> None:
        """Raise PluginFailed if the program has reported errors, or was not answered."""
        if self._errors:
            raise PluginFailed(self._name, "; ".join(self._errors[:3]))

    async def _send(self, stanzas: Sequence[Stanza]) -> None:
        self._input.write(b"".join(map(write_stanza, stanzas)))
        try:
            async with asyncio.timeout(self._limit_seconds):
                await self._input.drain()
        except TimeoutError:
            raise self._silent() from None
        except OSError:
            raise self._confused() from None

    async def _read(self) -> Stanza:
        try:
            async with asyncio.timeout(self._limit_seconds):
                arguments, encoded = parse_arguments(await self._line()), b""
                while len(encoded) <= MOST_HEADER_BYTES:
                    line = await self._line()
                    encoded += line
                    if len(line) != COLUMNS:
                        return Stanza(arguments, decode_base64(encoded))
        except TimeoutError:
            raise self._silent() from None
        except (MalformedFile, ValueError):
            raise self._confused() from None
        raise self._confused()

    async def _line(self) -> bytes:
        line = await self._output.readline()
        if not line.endswith(b"\n"):
            raise PluginFailed(self._name, f"it has ended{self._reported()}")
        return line[:-1]

    def _silent(self) -> PluginFailed:
        return PluginFailed(self._name, f"it was silent for {self._limit_seconds:g} seconds, and was ended")

    def _confused(self) -> PluginFailed:
        return PluginFailed(self._name, f"it does not speak the protocol of plugins{self._reported()}")

    def _reported(self) -> str:
        return f", after {'; '.join(self._errors[:3])!r}" if self._errors else ""


def _text(body: bytes) -> str:
    """A message of a program as it may be shown."""
    text = " ".join(body.decode(errors="replace").split())
    return "".join(each if each.isprintable() else "?" for each in text[:_MOST_CHARACTERS])
