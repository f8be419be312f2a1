"""What an API server would refuse is refused without one: a server may take over the location one day."""

import re

from pinnace.api.meta import ObjectMeta
from pinnace.api.selection.selectors import Operator, Requirement
from pinnace.cli.errors import InvalidInput

MAX_NAME_CHARACTERS = 253

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*", re.ASCII)


def check_metadata(metadata: ObjectMeta) -> None:
    """Refuse a name, namespace or label that Kubernetes does not allow. Raises InvalidInput with them all."""
    problems = []
    for field, value in (("name", metadata.name), ("namespace", metadata.namespace)):
        if len(value) > MAX_NAME_CHARACTERS or not _SUBDOMAIN.fullmatch(value):
            problems.append(
                f'metadata.{field}: invalid value "{value}": must be lower case letters, digits, "-" or ".", '
                f"with a letter or digit at both ends, {MAX_NAME_CHARACTERS} at most"
            )
    for key, value in metadata.labels.items():
        try:
            Requirement(key, Operator.EQUALS, (value,))
        except ValueError as error:
            problems.append(f"metadata.labels: {error}")
    if problems:
        raise InvalidInput("; ".join(problems))
