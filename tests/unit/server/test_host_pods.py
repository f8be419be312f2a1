"""Whether an agent sees the directory of its kubelet."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.lists.pages import Page, parse_page
from pinnace.server.checks import StartupError
from pinnace.server.host_pods import check_host_pods, missing_directories


def pod(uid: str, **annotations: str) -> JSONObject:
    return {"metadata": {"namespace": "ns", "name": f"pod-{uid}", "uid": uid, "annotations": annotations}}


def mirror(uid: str, directory: str) -> JSONObject:
    return pod(uid, **{"kubernetes.io/config.mirror": directory})


class Pods:
    """A cluster with these pods on the node."""

    def __init__(self, *pods: JSONObject) -> None:
        self.pods = pods
        self.selector = ""

    async def list_pages(self, *_: Any, field_selector: str, **__: Any) -> AsyncGenerator[Page, None]:
        self.selector = field_selector
        document = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self.pods}
        yield parse_page(orjson.dumps(document))


@pytest.mark.spec("PVL-017", "CLI-043", "SRV-019")
@pytest.mark.parametrize(
    ("pods", "directories", "missing"),
    [
        ([pod("foo"), pod("zoo")], ["foo", "zoo"], []),
        ([pod("foo"), mirror("zoo", "baz")], ["foo", "baz", "further"], []),
        ([pod("foo"), mirror("zoo", "baz")], ["foo", "zoo"], ["ns/pod-zoo"]),
        ([pod("foo"), pod("zoo")], ["foo"], ["ns/pod-zoo"]),
        ([pod("foo"), pod("zoo")], [], ["ns/pod-foo", "ns/pod-zoo"]),
        ([], [], []),
    ],
)
async def test_a_running_pod_without_a_directory_stops_the_start(
    tmp_path: Path, pods: list[JSONObject], directories: list[str], missing: list[str]
) -> None:
    for name in directories:
        (tmp_path / name).mkdir()
    cluster = Pods(*pods)
    client = cast("KubeClient", cluster)

    assert missing_directories(pods, directories) == missing
    if missing:
        with pytest.raises(
            StartupError, match="unexpected directory structure for host-pods volume"
        ) as caught:
            await check_host_pods(client, "n1", tmp_path)
        assert missing[0] in str(caught.value)
    else:
        await check_host_pods(client, "n1", tmp_path)
    assert cluster.selector == "spec.nodeName=n1,status.phase=Running"


@pytest.mark.spec("PVL-017")
async def test_a_missing_pods_directory_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"^could not read pod volumes host path: .*/none: No such file"):
        await check_host_pods(cast("KubeClient", Pods()), "n1", tmp_path / "none")
