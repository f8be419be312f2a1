"""Identities as files have them: age and ssh keys, with or without a passphrase, and those of plugins."""

import base64
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pinnace.age import bech32
from pinnace.age.errors import AgeError, InvalidIdentity, MalformedFile, NoIdentityMatches
from pinnace.age.header import MAGIC, AgeHeader, is_age, parse_header
from pinnace.age.plugins import Dialog, NobodyToAsk, plugin_name, unwrap_by_plugin
from pinnace.aio.blocking import in_thread

MOST_FILE_BYTES: Final = 64 << 10
"""Of a file of identities; those of age and ssh have less than four thousand bytes."""
MOST_WRAPPED_BYTES: Final = 64 << 10
MOST_IDENTITIES: Final = 64
MOST_WORK_FACTOR: Final = 20
"""Of scrypt: a second, and a GiB of memory. age itself writes 18."""
_SCRYPT: Final = "scrypt"
_PLUGIN: Final = "AGE-PLUGIN-"
_WORK_FACTOR: Final = re.compile(r"[1-9][0-9]?")
_ARMOR: Final = re.compile(
    rb"\s*-----BEGIN AGE ENCRYPTED FILE-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END AGE ENCRYPTED FILE-----\s*"
)
_PRIVATE_KEY: Final = re.compile(rb"\s*-----BEGIN (OPENSSH|RSA) PRIVATE KEY-----")

Passphrases = Callable[[str], str]
"""Returns the passphrase of what the text describes. Raises InvalidIdentity if there is none."""


def no_passphrases(what: str) -> str:
    """Of those who cannot ask anybody."""
    raise InvalidIdentity(f"{what} is protected by a passphrase, and there is nobody to ask for it")


class Identities:
    """Private keys. The repr shows none."""

    def __init__(
        self,
        keys: Sequence[Any],
        by_plugin: Mapping[str, Sequence[str]] = {},
        dialog: Dialog | None = None,
    ) -> None:
        """Args:
        keys: as pyrage has them.
        by_plugin: the identities of each plugin.
        dialog: of the plugins with the user.
        """
        self._keys = tuple(keys)
        self._by_plugin = dict(by_plugin)
        self._dialog = dialog or NobodyToAsk()

    @classmethod
    def parse(
        cls, data: bytes, passphrases: Passphrases = no_passphrases, dialog: Dialog | None = None
    ) -> "Identities":
        """The identities in a file.

        Args:
            dialog: of plugins with the user. Without it identities of plugins are refused: their programs run
                for those who administer this machine only.

        Raises:
            InvalidIdentity: the file has none, or one that cannot be read; or the passphrase is wrong.
        """
        if len(data) > MOST_FILE_BYTES:
            raise InvalidIdentity(
                f"it has more than {MOST_FILE_BYTES} bytes, which no file of identities has"
            )
        if is_age(data) or b"AGE ENCRYPTED FILE" in data:
            data = _unprotected(data, passphrases)
        if _PRIVATE_KEY.match(data):
            return cls([_ssh_key(data, passphrases)])
        keys, by_plugin = _age_keys(data)
        if by_plugin and dialog is None:
            raise InvalidIdentity(
                f"it names the plugin age-plugin-{next(iter(by_plugin))}, and plugins are not run here"
            )
        return cls(keys, by_plugin, dialog)

    async def open(self, wrapped: bytes) -> bytes:
        """As `unwrap`, by plugins too, once no other identity opens it.

        Raises:
            PluginFailed: a plugin is missing, hangs or fails.
        """
        try:
            return await in_thread(self.unwrap, wrapped)
        except NoIdentityMatches:
            header = _small_header(wrapped)
            for name, texts in self._by_plugin.items():
                file_key = await unwrap_by_plugin(name, texts, header.stanzas, self._dialog)
                if file_key is not None:
                    return _opened(wrapped, header, file_key)
            raise

    @classmethod
    def joined(cls, parts: "Sequence[Identities]") -> "Identities":
        """All of several files, none of a plugin. Raises InvalidIdentity: there are none, or more than 64."""
        keys = [key for part in parts for key in part._keys]
        if not keys:
            raise InvalidIdentity("it has no identity: an age key AGE-SECRET-KEY-1… or an ssh key")
        if len(keys) > MOST_IDENTITIES:
            raise InvalidIdentity(f"it has more than {MOST_IDENTITIES} identities")
        return cls(keys)

    def unwrap(self, wrapped: bytes) -> bytes:
        """What was wrapped for the recipient of one of the identities, none of a plugin, within limits.

        Raises:
            MalformedFile: it is no age file, damaged or beyond the limits, or is for a passphrase.
            NoIdentityMatches: it is for none of the identities.
        """
        from pyrage import DecryptError, decrypt

        header = _small_header(wrapped)
        if any(stanza.arguments[0] == _SCRYPT for stanza in header.stanzas):
            raise MalformedFile("it is encrypted by a passphrase, which is refused where others can write it")
        if not self._keys:
            raise NoIdentityMatches
        try:
            content: bytes = decrypt(wrapped, self._keys)
        except DecryptError as error:
            if "No matching keys" in str(error):
                raise NoIdentityMatches from None
            raise MalformedFile(f"it was changed after it was encrypted: {error}") from None
        return content


def _small_header(data: bytes) -> AgeHeader:
    if len(data) > MOST_WRAPPED_BYTES:
        raise MalformedFile(f"it has more than {MOST_WRAPPED_BYTES} bytes")
    header = parse_header(data)
    if header is None:
        raise MalformedFile("it is cut off in its header")
    return header


def _opened(wrapped: bytes, header: AgeHeader, file_key: bytes) -> bytes:
    """The content of a small file with this key. Raises MalformedFile."""
    from pinnace.age.payload import Chunks

    header.check(file_key)
    chunks = Chunks.of_file_key(file_key, wrapped, header)
    if chunks.last(len(wrapped)):
        raise MalformedFile("it has more than one chunk")
    return chunks.open(0, wrapped[chunks.start :], last=True)


def _unprotected(data: bytes, passphrases: Passphrases) -> bytes:
    """The content of a file of identities that a passphrase protects."""
    from pyrage import DecryptError, passphrase

    if (armor := _ARMOR.fullmatch(data)) is not None:
        try:
            data = base64.b64decode(b"".join(armor[1].split()), validate=True)
        except ValueError:
            data = b""
    if not data.startswith(MAGIC):
        raise InvalidIdentity("it is a damaged age file")
    try:
        _check_protection(_small_header(data))
    except MalformedFile as error:
        raise InvalidIdentity(f"it is an age file, but {error}") from None
    try:
        content: bytes = passphrase.decrypt(data, passphrases("the file of identities"))
    except DecryptError:
        raise InvalidIdentity("its passphrase is wrong, or it is damaged") from None
    return content


def _check_protection(header: AgeHeader) -> None:
    """Raise MalformedFile unless one passphrase alone opens the file, with bearable work."""
    (first, *others) = header.stanzas
    if others or first.arguments[0] != _SCRYPT or len(first.arguments) != 3:
        raise MalformedFile("it is not protected by one passphrase: decrypt it first")
    factor = first.arguments[2]
    if not _WORK_FACTOR.fullmatch(factor) or int(factor) > MOST_WORK_FACTOR:
        raise MalformedFile(f"its work factor is {factor}, above {MOST_WORK_FACTOR}")


def _age_keys(data: bytes) -> tuple[list[Any], dict[str, list[str]]]:
    """The keys in a file, and those of plugins by the names of these. Raises InvalidIdentity."""
    from pyrage import x25519

    from pinnace.age.x25519 import X25519Identity

    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError:
        raise InvalidIdentity("it has no identity: an age key AGE-SECRET-KEY-1… or an ssh key") from None
    keys: list[Any] = []
    by_plugin: dict[str, list[str]] = defaultdict(list)
    count = 0
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if text.startswith("age1"):
            raise InvalidIdentity(f"line {number} is a recipient, not an identity AGE-SECRET-KEY-1…")
        if text.startswith("AGE-SECRET-KEY-PQ-1"):
            raise InvalidIdentity(
                f"line {number} is a key AGE-SECRET-KEY-PQ-1…: convert it by age-plugin-pq -identity"
            )
        if not text.startswith(("AGE-SECRET-KEY-1", _PLUGIN)):
            raise InvalidIdentity(f"line {number} is no identity AGE-SECRET-KEY-1…")
        count += 1
        if count > MOST_IDENTITIES:
            raise InvalidIdentity(f"it has more than {MOST_IDENTITIES} identities")
        if text.startswith(_PLUGIN):
            try:
                prefix, _ = bech32.decode(text)
                by_plugin[plugin_name(prefix, before=_PLUGIN.lower(), after="-")].append(text)
            except ValueError as error:
                raise InvalidIdentity(f"line {number}: an identity of a plugin: {error}") from None
            continue
        try:
            keys.append(x25519.Identity.from_str(X25519Identity.parse(text).secret_text()))
        except AgeError as error:
            raise InvalidIdentity(f"line {number}: {error}") from None
    if not count:
        raise InvalidIdentity("it has no identity: an age key AGE-SECRET-KEY-1… or an ssh key")
    return keys, by_plugin


def _ssh_key(data: bytes, passphrases: Passphrases) -> Any:
    """An ssh key; pyrage takes only those without a passphrase."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization as keys
    from pyrage import IdentityError, ssh

    try:
        try:
            return ssh.Identity.from_buffer(data)
        except IdentityError as error:
            if "must be decrypted" not in str(error):
                raise InvalidIdentity(f"the ssh key cannot be read: {error}") from None
        private = keys.load_ssh_private_key(data, passphrases("the ssh key").encode())
        plain = private.private_bytes(keys.Encoding.PEM, keys.PrivateFormat.OpenSSH, keys.NoEncryption())
        return ssh.Identity.from_buffer(plain)
    except (ValueError, TypeError, UnsupportedAlgorithm, IdentityError):
        raise InvalidIdentity(
            "the passphrase of the ssh key is wrong, or its kind is not supported"
        ) from None
