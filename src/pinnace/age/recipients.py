"""Recipients as settings name them, and small secrets wrapped for several of them."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from pinnace.age.errors import InvalidRecipient

MOST_RECIPIENTS: Final = 32
"""Fewer than a header may have stanzas."""
_SEPARATORS: Final = re.compile(r"[\s,]+")
_SSH_KINDS: Final = frozenset({"ssh-ed25519", "ssh-rsa"})


class Recipient(msgspec.Struct, frozen=True):
    """A public key as it is written: `age1…`, or the kind and the key of ssh without a comment."""

    text: str

    def loaded(self) -> Any:
        """The key as pyrage has it. Raises InvalidRecipient."""
        from pyrage import RecipientError, ssh, x25519

        from pinnace.age.x25519 import X25519Recipient

        try:
            if self.text.startswith("ssh-"):
                return ssh.Recipient.from_str(self.text)
            return x25519.Recipient.from_str(str(X25519Recipient.parse(self.text)))
        except RecipientError as error:
            raise InvalidRecipient(f"recipient {self.text!r} cannot be read: {error}") from None


def parse_recipients(text: str) -> tuple[Recipient, ...]:
    """The recipients in a text, separated by commas or whitespace; the comment of an ssh key is left out.

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
            raise InvalidRecipient(f"{word!r} is no recipient: write age1…, ssh-ed25519 … or ssh-rsa …")
    if not found:
        raise InvalidRecipient("no recipient is given: write age1…, ssh-ed25519 … or ssh-rsa …")
    if len(found) > MOST_RECIPIENTS:
        raise InvalidRecipient(f"more than {MOST_RECIPIENTS} recipients are given")
    if len(set(found)) != len(found):
        raise InvalidRecipient("a recipient is given twice")
    for recipient in found:
        recipient.loaded()
    return tuple(found)


def wrap(secret: bytes, recipients: Sequence[Recipient]) -> bytes:
    """An age file of a small secret, which the identity of each of the recipients opens."""
    from pyrage import encrypt

    sealed: bytes = encrypt(secret, [recipient.loaded() for recipient in recipients])
    return sealed
