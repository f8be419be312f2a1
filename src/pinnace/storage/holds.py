"""The hold on a backup as a file beside it, which every server and command on the bucket obeys. (ADR 128)"""

from datetime import datetime

import msgspec

from pinnace.api.values.times import format_time

MOST_BYTES = 16 << 10
_LONGEST_REASON = 1000
UNREADABLE = "its hold cannot be read"
UNTRUSTED = "its hold, or its release, is not signed by a trusted key"


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """What the file says.

    Attributes:
        held: false where a hold that the backup's own record has was released.
        reason: for people; may be empty.
        since: when it was written, RFC 3339.
        holder: `<uid of the cluster>/<namespace>` of the server whose Backup it copies; empty for none.
    """

    held: bool
    reason: str = ""
    since: str = ""
    holder: str = ""

    @classmethod
    def at(cls, moment: datetime, *, held: bool, reason: str = "", holder: str = "") -> "Hold":
        """The hold, or release, of that time."""
        return cls(held=held, reason=reason[:_LONGEST_REASON], since=format_time(moment), holder=holder)

    def printable(self) -> "Hold":
        """The hold with a reason that can be shown to people."""
        shown = "".join(each if each.isprintable() else " " for each in self.reason[:_LONGEST_REASON])
        return msgspec.structs.replace(self, reason=shown)

    def encoded(self) -> bytes:
        """The content of the file."""
        return msgspec.json.encode(self)


def decode_hold(data: bytes) -> Hold:
    """The hold of a file; one that cannot be read counts as a hold."""
    try:
        found = msgspec.json.decode(data, type=Hold)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Hold(held=True, reason=UNREADABLE)
    return found.printable()
