"""Names for objects that nobody named, where another command of the same second has the first."""

from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.values.default_names import other_names
from pinnace.client.server import created_under
from pinnace.kube.errors import AlreadyExists
from pinnace.kube.resources import RESTORES


class Taken:
    """A cluster in which these names are taken."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)

    async def create(self, _: object, obj: JSONObject, namespace: str) -> JSONObject:
        if obj["metadata"]["name"] in self.names:
            raise AlreadyExists(409, reason="AlreadyExists", message="already exists")
        return obj


RESTORE: JSONObject = {"kind": "Restore", "metadata": {"name": "b-1", "namespace": "velero"}, "spec": {}}


@pytest.mark.found("P3")
async def test_a_default_name_that_is_taken_gets_a_number() -> None:
    client: Any = Taken("b-1", "b-1-2")

    created = await created_under(client, RESTORES, RESTORE, ("b-1", *other_names("b-1")))

    assert created["metadata"] == {"name": "b-1-3", "namespace": "velero"}
    assert RESTORE["metadata"]["name"] == "b-1"


async def test_a_chosen_name_that_is_taken_is_refused() -> None:
    client: Any = Taken("b-1")

    with pytest.raises(AlreadyExists):
        await created_under(client, RESTORES, RESTORE, ("b-1",))
