"""`smtp`: one mail for the messages that are due. (RFC 5321, 3207, 4954)

The standard library's client blocks, and a server that sends one byte now and then would hold its thread for
hours. This one is cancelled by the limit of the attempt.
"""

import asyncio
import base64
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

from msgspec import Struct

from pinnace.api.values.digits import is_digits
from pinnace.messages.errors import SinkError
from pinnace.messages.problem import Notification
from pinnace.messages.settings import SmtpSettings
from pinnace.messages.sinks.http import REFUSED
from pinnace.store_access.addresses import Addresses, AddressRefused
from pinnace.store_access.connector import resolve_checked
from pinnace.store_access.errors import StorageError
from pinnace.store_access.requests import tls_context

_MOST_LINES: Final = 100
_MOST_REPLY_BYTES: Final = 8 << 10


class SmtpSink(Struct, frozen=True, kw_only=True):
    """Sends mail by one server."""

    settings: SmtpSettings
    addresses: Addresses | None = None
    batch: int = 50
    takes_runs: bool = False
    refresh_seconds: float | None = None

    async def send(self, messages: Sequence[Notification]) -> None:
        """See Sink."""
        settings = self.settings
        where = f"mail server {settings.host}:{settings.port}"
        try:
            context = _context(settings) if settings.tls != "none" else None
            host = settings.host
            if self.addresses is not None:
                host = await resolve_checked(host, self.addresses)
            dialogue = await _Dialogue.connect(host, settings, context)
            try:
                await dialogue.deliver(settings, mail_of(messages, settings))
            finally:
                dialogue.close()
        except AddressRefused as error:
            raise SinkError(f"{where} {REFUSED}") from error
        except StorageError as error:
            raise SinkError(str(error)) from error
        except ssl.SSLError as error:
            raise SinkError(f"{where}: TLS failed: {error.reason or 'no TLS'}") from error
        except TimeoutError:
            raise
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise SinkError(f"{where} cannot be used: {type(error).__name__}") from error


def _context(settings: SmtpSettings) -> ssl.SSLContext:
    made = tls_context(settings.ca_cert)
    return made if isinstance(made, ssl.SSLContext) else ssl.create_default_context()


def mail_of(messages: Sequence[Notification], settings: SmtpSettings) -> EmailMessage:
    """The mail about some messages. Pure."""
    mail = EmailMessage(policy=SMTP)
    first = messages[0]
    more = f" and {len(messages) - 1} more" if len(messages) > 1 else ""
    # A title has no control character (`clean`), and a header with one would be an error here.
    mail["Subject"] = f"{first.title}{more}"[:200]
    mail["From"] = settings.sender
    mail["To"] = ", ".join(settings.to)
    mail["Date"] = format_datetime(datetime.fromtimestamp(first.at, UTC))
    mail["Message-ID"] = f"<{first.id}@pinnace>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content("\n\n".join(f"{each.title}\n{each.body}" for each in messages) + "\n")
    return mail


class _Dialogue:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = self._plain = writer
        self._host = host

    @classmethod
    async def connect(cls, host: str, settings: SmtpSettings, context: ssl.SSLContext | None) -> "_Dialogue":
        implicit = settings.tls == "implicit"
        reader, writer = await asyncio.open_connection(
            host,
            settings.port,
            limit=_MOST_REPLY_BYTES,
            ssl=context if implicit else None,
            server_hostname=settings.host if implicit else None,
        )
        made = cls(reader, writer, settings.host)
        try:
            await made._expect("the greeting", 220)
            offered = await made._ehlo()
            if settings.tls == "starttls":
                if "STARTTLS" not in offered:
                    raise SinkError(f"mail server {settings.host} offers no STARTTLS, and tls is starttls")
                assert context is not None
                await made._command("STARTTLS", "STARTTLS", 220)
                await made._encrypt(context)
                await made._ehlo()
        except BaseException:  # cancellation too: the connection must not stay open; passed on
            made.close()
            raise
        return made

    async def deliver(self, settings: SmtpSettings, mail: EmailMessage) -> None:
        if settings.username:
            plain = f"\0{settings.username}\0{settings.password}".encode()
            await self._command(f"AUTH PLAIN {base64.b64encode(plain).decode()}", "AUTH", 235)
        await self._command(f"MAIL FROM:<{settings.sender}>", "MAIL", 250)
        for each in settings.to:
            await self._command(f"RCPT TO:<{each}>", "RCPT", 250, 251)
        await self._command("DATA", "DATA", 354)
        lines = mail.as_bytes().splitlines()
        for line in lines:
            self._writer.write((b"." if line.startswith(b".") else b"") + line + b"\r\n")
        await self._command(".", "the end of DATA", 250)

    def close(self) -> None:
        """Drop the connection: a mail that the server took is delivered."""
        for writer in (self._writer, self._plain):
            writer.transport.abort()

    async def _ehlo(self) -> set[str]:
        lines = await self._command("EHLO pinnace", "EHLO", 250)
        return {line.split(" ", 1)[0].upper() for line in lines[1:]}

    async def _encrypt(self, context: ssl.SSLContext) -> None:
        """Start TLS with an empty buffer: what was sent in plain text before must not count as an answer."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_MOST_REPLY_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport = await loop.start_tls(
            self._writer.transport, protocol, context, server_hostname=self._host
        )
        if transport is None:
            raise SinkError(f"mail server {self._host}: the connection ended")
        protocol.connection_made(transport)
        self._reader, self._writer = reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _command(self, line: str, what: str, *codes: int) -> list[str]:
        self._writer.write(f"{line}\r\n".encode())
        await self._writer.drain()
        return await self._expect(what, *codes)

    async def _expect(self, what: str, *codes: int) -> list[str]:
        """The lines of a reply. Raises SinkError for another code; its text is the server's and not shown."""
        lines: list[str] = []
        for _ in range(_MOST_LINES):
            line = (await self._reader.readuntil(b"\n")).decode("ascii", "replace").rstrip("\r\n")
            if len(line) < 3 or not is_digits(line[:3]):
                raise SinkError(f"mail server {self._host} answered {what} with no SMTP reply")
            lines.append(line[4:])
            if line[3:4] != "-":
                if int(line[:3]) not in codes:
                    raise SinkError(f"mail server {self._host} refused {what} with code {line[:3]}")
                return lines
        raise SinkError(f"mail server {self._host} answered {what} with too many lines")
