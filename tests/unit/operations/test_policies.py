"""Reading the resource policies that a backup names. (docs/spec: BEY 4.7)"""

from typing import Any, cast

import pytest

from pinnace.api.meta import ConfigReference
from pinnace.api.objects import JSONObject
from pinnace.api.resource_policies import PolicyError
from pinnace.api.velero.backup import BackupSpec
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConnectionFailed, KubeError, status_error
from pinnace.operations.policies import policies_of

VALID = "version: v1\nvolumePolicies:\n- conditions: {}\n  action: {type: skip}\n"
LISTS = "version: v1\nincludeExcludePolicy: {excludedNamespaceScopedResources: [secrets]}\n"


class Client:
    """Has one ConfigMap, or an error."""

    def __init__(self, answer: JSONObject | KubeError) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str, str]] = []

    async def get(self, resource: Any, name: str, namespace: str) -> JSONObject:
        self.asked.append((resource.name, namespace, name))
        if isinstance(self.answer, KubeError):
            raise self.answer
        return self.answer


async def read(answer: JSONObject | KubeError, kind: str = "ConfigMap", **spec: Any) -> Any:
    client = Client(answer)
    named = BackupSpec(resource_policy=ConfigReference(kind=kind, name="rules"), **spec)
    found = await policies_of(cast(KubeClient, client), "velero", named)
    assert client.asked == [("configmaps", "velero", "rules")]
    return found


async def test_a_backup_that_names_none_has_none() -> None:
    assert await policies_of(cast(KubeClient, None), "velero", BackupSpec()) is None


async def test_the_config_map_of_the_servers_namespace_is_read() -> None:
    policies = await read({"data": {"any.yaml": VALID}})
    assert (policies.name, len(policies.rules)) == ("rules", 1)


@pytest.mark.spec("BEY-030")
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (status_error(404, {"message": "no rules", "reason": "NotFound"}), "cannot be read: no rules"),
        ({"data": {"a": VALID, "b": VALID}}, "are not valid: it must have exactly one key"),
        ({"data": {"a": "version: v2"}}, "are not valid: unsupported version 'v2'"),
        ({"data": {"a": "version: v1\nvolumes: []"}}, "unknown field `volumes`"),
        ({"data": {"a": f"{VALID}version: v1"}}, "the key 'version' is there twice"),
    ],
)
async def test_an_invalid_config_map_is_an_error_with_the_reason(
    answer: JSONObject | KubeError, text: str
) -> None:
    with pytest.raises(PolicyError, match="the resource policies in ConfigMap velero/rules") as raised:
        await read(answer)
    assert text in str(raised.value)


async def test_another_kind_is_refused() -> None:
    with pytest.raises(PolicyError, match="of the kind 'Secret'"):
        await read({"data": {"a": VALID}}, kind="Secret")


@pytest.mark.spec("BEY-026")
async def test_an_include_exclude_policy_does_not_fit_filters_of_old() -> None:
    with pytest.raises(PolicyError, match="includedResources cannot be used together"):
        await read({"data": {"a": LISTS}}, included_resources=["pods"])
    assert (await read({"data": {"a": LISTS}})).lists


async def test_an_error_of_the_api_server_is_raised() -> None:
    with pytest.raises(ConnectionFailed):
        await read(ConnectionFailed("no answer"))
