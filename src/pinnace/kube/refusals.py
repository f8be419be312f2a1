"""The cause of an API server's refusal: a quota, a webhook, a policy or a right, by its own sentences.

A Status has a reason and a code, but only its message names the webhook that denied a request.
"""

import re
from collections.abc import Mapping
from typing import Final

from pinnace.notices.codes import Code

_SEARCHED_CHARACTERS: Final = 4096
"""A hostile webhook may send a megabyte; what names the cause stands at the beginning."""

_SENTENCES: Final = (
    (Code.QUOTA_EXCEEDED, r"exceeded quota: (?P<quota>[a-z0-9.-]+)"),
    (Code.WEBHOOK_DENIED, r"admission webhook \"(?P<webhook>[^\"]+)\" denied the request"),
    (Code.WEBHOOK_UNREACHABLE, r"failed calling webhook \"(?P<webhook>[^\"]+)\""),
    (Code.POLICY_DENIED, r"ValidatingAdmissionPolicy '(?P<policy>[^']+)' with binding '[^']+' denied"),
    (Code.POD_SECURITY_DENIED, r"violates PodSecurity \"(?P<level>[^\"]+)\""),
    (
        Code.RIGHTS_MISSING,
        r"User \"(?P<user>[^\"]*)\" cannot (?P<verb>\w+) resource \"(?P<resource>[^\"]+)\"",
    ),
)


def cause_of(message: str) -> tuple[Code, Mapping[str, str]] | None:
    """The cause that a Status message names, with its facts; None if it names none that is known."""
    searched = message[:_SEARCHED_CHARACTERS]
    for code, sentence in _SENTENCES:
        if (found := re.search(sentence, searched)) is not None:
            return code, found.groupdict()
    return None
