"""The API server's own schema of a container, for the init containers in hooks of Restores.

Without it the API server stores misspelt and wrongly typed fields, and Velero's own `restore get` then fails
for all Restores. `hack/container_schema.py` writes the file.
"""

import copy
import functools
from typing import Any, Final

import msgspec

FILE_NAME: Final = "container.schema.json"


def container_schema() -> dict[str, Any]:
    """The structural schema; each call returns a new one."""
    return copy.deepcopy(_read())


@functools.cache
def _read() -> dict[str, Any]:
    from importlib import resources  # loads three compressors; few commands need the schema

    schema: dict[str, Any] = msgspec.json.decode(
        resources.files(__package__).joinpath(FILE_NAME).read_bytes()
    )
    return schema
