"""Recipients as settings name them, and small secrets wrapped for several of them."""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from pinnace.age import bech32
from pinnace.age.errors import InvalidRecipient, MalformedFile, PluginFailed
from pinnace.age.header import parse_header, write_header
from pinnace.age.plugins import plugin_name, wrap_by_plugin
from pinnace.aio.blocking import in_thread

MOST_RECIPIENTS: Final = 32
"""Fewer than a header may have stanzas."""
_SEPARATORS: Final = re.compile(r"[\s,]+")
_SSH_KINDS: Final = frozenset({"ssh-ed25519", "ssh-rsa"})
_TAG: Final = "age1tag"
_HYBRID_TAG: Final = "age1tagpq"
_FORMS: Final = "age1…, ssh-ed25519 … or ssh-rsa …"


class Recipient(msgspec.Struct, frozen=True):
    """A public key as it is written: `age1…`, or the kind and the key of ssh without a comment."""

    text: str

    @property
    def prefix(self) -> str:
        """`age`, or `age1NAME` of other kinds than X25519; empty for ssh and what cannot be read."""
        return self.text.rpartition("1")[0] if self.text.startswith("age1") else ""

    @property
    def is_simple(self) -> bool:
        """Whether it is a key X25519 or of ssh."""
        return self.prefix in ("", "age")

    @property
    def plugin(self) -> str:
        """The plugin that wraps for it; empty if none is needed. Raises InvalidRecipient."""
        if self.is_simple or self.prefix in (_TAG, _HYBRID_TAG):
            return ""
        try:
            prefix, _ = bech32.decode(self.text)
            return plugin_name(prefix, before="age1")
        except ValueError as error:
            raise InvalidRecipient(f"recipient {self.text!r} cannot be read: {error}") from None

    def loaded(self) -> Any:
        """The key as pyrage has it; None if a plugin has it. Raises InvalidRecipient."""
        from pyrage import RecipientError, ssh, tag, tagpq, x25519

        from pinnace.age.x25519 import X25519Recipient

        try:
            if self.text.startswith("ssh-"):
                return ssh.Recipient.from_str(self.text)
            if self.prefix == _TAG:
                return tag.Recipient.from_str(self.text)
            if self.prefix == _HYBRID_TAG:
                return tagpq.Recipient.from_str(self.text)
            if self.plugin:
                return None
            return x25519.Recipient.from_str(str(X25519Recipient.parse(self.text)))
        except RecipientError as error:
            raise InvalidRecipient(f"recipient {self.text!r} cannot be read: {error}") from None


def parse_recipients(text: str, *, simple_only: bool = False) -> tuple[Recipient, ...]:
    """The recipients in a text, separated by commas or whitespace; the comment of an ssh key is left out.

    Args:
        simple_only: take keys X25519 and of ssh only, as the text may be anybody's.

    Raises:
        InvalidRecipient: one cannot be read, is given twice, or is of a kind that is not supported; there is
            none, or there are too many.
    """
    found: list[Recipient] = []
    words = iter([word for word in _SEPARATORS.split(text) if word])
    for word in words:
        if word in _SSH_KINDS:
            found.append(Recipient(f"{word} {next(words, '')}"))
        elif word.startswith("age1"):
            found.append(Recipient(word))
        elif found and found[-1].text.startswith("ssh-") and not word.upper().startswith("AGE-"):
            continue  # the comment of the key
        elif word.upper().startswith("AGE-"):
            raise InvalidRecipient(
                "a private key stands where recipients belong, and is no secret any more: make a new one, and"
                " give its public key, age1…"
            )
        else:
            raise InvalidRecipient(f"{word!r} is no recipient: write {_FORMS}")
    if not found:
        raise InvalidRecipient(f"no recipient is given: write {_FORMS}")
    if len(found) > MOST_RECIPIENTS:
        raise InvalidRecipient(f"more than {MOST_RECIPIENTS} recipients are given")
    if len(set(found)) != len(found):
        raise InvalidRecipient("a recipient is given twice")
    for recipient in found:
        if simple_only and not recipient.is_simple:
            raise InvalidRecipient(
                f"recipient {recipient.text!r} is of a plugin or of hardware, which is for locations of"
                " administrators: write a key X25519, age1…, or one of ssh"
            )
        recipient.loaded()
    hybrid = [recipient for recipient in found if recipient.prefix == _HYBRID_TAG]
    if hybrid and len(hybrid) < len(found):
        raise InvalidRecipient(
            f"recipient {hybrid[0].text[:20]}… is safe from quantum computers, and would not be beside"
            " others: give recipients age1tagpq1… alone"
        )
    return tuple(found)


def wrap(secret: bytes, recipients: Sequence[Recipient]) -> bytes:
    """An age file of a small secret, which the identity of each recipient opens; none is of a plugin."""
    from pyrage import encrypt

    sealed: bytes = encrypt(secret, [recipient.loaded() for recipient in recipients])
    return sealed


async def wrap_for_all(secret: bytes, recipients: Sequence[Recipient]) -> bytes:
    """As `wrap`, for recipients of plugins too.

    Raises:
        PluginFailed: a plugin does not wrap it.
    """
    by_plugin: dict[str, list[str]] = defaultdict(list)
    others: list[Recipient] = []
    for recipient in recipients:
        if name := recipient.plugin:
            by_plugin[name].append(recipient.text)
        else:
            others.append(recipient)
    if not by_plugin:
        return await in_thread(wrap, secret, recipients)
    from pinnace.age.x25519 import X25519Identity

    # pyrage tells nobody the key of a file: a recipient of ours, which goes at once, has it.
    ours = X25519Identity.generate()
    wrapped = await in_thread(wrap, secret, [Recipient(str(ours.recipient)), *others])
    header = parse_header(wrapped)
    assert header is not None, "it was written just now"
    file_key, stanzas = ours.file_key(header), list(header.stanzas[1:])
    expected: frozenset[str] | None = frozenset() if others else None
    for name, texts in by_plugin.items():
        found, labels = await wrap_by_plugin(name, texts, file_key)
        if expected is not None and labels != expected:
            raise PluginFailed(name, "its recipients cannot stand beside the others: give them alone")
        if any(stanza.arguments[0] == "scrypt" for stanza in found):
            raise PluginFailed(name, "it wraps by a passphrase, which no key file of a backup may have")
        expected = labels
        stanzas += found
    sealed = write_header(stanzas, file_key)
    try:
        parse_header(sealed)
    except MalformedFile as error:
        raise PluginFailed(name, f"with what it has made {error}") from None
    return sealed + wrapped[header.length :]
