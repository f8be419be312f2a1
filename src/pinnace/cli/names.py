"""What an API server would refuse is refused without one: a server may take over the location one day."""

from pinnace.api.meta import ObjectMeta
from pinnace.api.selection.validation import metadata_errors
from pinnace.cli.errors import InvalidInput


def check_metadata(metadata: ObjectMeta) -> None:
    """Refuse a name, namespace or label that Kubernetes does not allow. Raises InvalidInput with them all."""
    if problems := metadata_errors(metadata):
        raise InvalidInput("; ".join(problems))
