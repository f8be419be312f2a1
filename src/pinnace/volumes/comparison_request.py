"""The question of a dry run to a node agent: which files of a volume differ from a snapshot. (docs/adr/122)

The command line gives it to the program `compare-files` in the agent's container, as one argument.
"""

from typing import Final

import msgspec

from pinnace.api.meta import ObjectReference

COMMAND: Final = "compare-files"
LIMIT_SECONDS: Final = 600.0
"""How long a comparison may take. The agent's side ends by itself, as nothing else can end it."""
MOST_ANSWER_BYTES: Final = 128 << 20
"""The longest answer: the names in it are limited, and each character of them may be escaped."""


class ComparisonRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to compare.

    Attributes:
        pod: has the volume mounted on the agent's node.
        volume: its name in the pod.
        location: of the backup.
        namespace: of the volume that was saved; the repository has its name.
        uploader: the program that saved it.
        keep_unchanged, delete_extra: as in `Target`.
    """

    pod: ObjectReference
    volume: str
    location: str
    namespace: str
    uploader: str
    snapshot: str
    keep_unchanged: bool
    delete_extra: bool
