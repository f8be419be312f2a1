"""The flags of the server, for dry runs by a command."""

from typing import Any, cast

import pytest

from pinnace.api.labels import SERVER_LABEL
from pinnace.api.objects import JSONObject
from pinnace.kube.reading import ObjectLister
from pinnace.operations.server_flags import MODIFIERS_FLAG, flag_of_server


class Lister:
    """Has the Deployment of a server whose chart gave it the name of its release."""

    def __init__(self, *words: str) -> None:
        self._words = list(words)

    async def list_all(self, _resource: Any, _namespace: str, *, label_selector: str) -> list[JSONObject]:
        assert label_selector == SERVER_LABEL
        container = {"command": ["pinnace"], "args": self._words}
        return [{"metadata": {"name": "ours"}, "spec": {"template": {"spec": {"containers": [container]}}}}]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["server", f"{MODIFIERS_FLAG}=rules"], "rules"),
        (["server", MODIFIERS_FLAG, "rules"], "rules"),
        (["server", MODIFIERS_FLAG], ""),
        (["server"], ""),
    ],
)
async def test_a_flag_is_found_whatever_the_deployment_is_called(words: list[str], expected: str) -> None:
    client = cast(ObjectLister, Lister(*words))
    assert await flag_of_server(client, "velero", MODIFIERS_FLAG) == expected
