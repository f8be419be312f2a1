"""Our plugins under the plugin management of Velero 1.6.3 itself, compiled into hack/tools/plugin/host."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.plugins.programs import pod, put_own

SELECTOR = {
    "IncludedNamespaces": ["shop"],
    "ExcludedNamespaces": ["kube-system"],
    "IncludedResources": ["pods"],
    "ExcludedResources": ["nodes"],
    "LabelSelector": "app=web",
}
ADDITIONAL = [{"Group": "group", "Resource": "pods", "Namespace": "myns", "Name": "mypod"}]


@pytest.fixture(scope="module", params=["own", "compiled"])
def outcome(
    request: pytest.FixtureRequest,
    velero_host: Path,
    compiled_sample: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The host's results of a plugin, and its log. The compiled plugin shows that the host is right."""
    directory = tmp_path_factory.mktemp("plugins")
    if request.param == "own":
        put_own(directory)
    else:
        (directory / "compiled").symlink_to(compiled_sample)
    ended = subprocess.run([velero_host, directory], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout), [json.loads(line) for line in ended.stderr.splitlines()]


Outcome = tuple[dict[str, Any], list[dict[str, Any]]]


def test_all_five_kinds_are_found(outcome: Outcome) -> None:
    got, _ = outcome
    assert sorted(got["plugins"]) == [
        "BackupItemAction example.io/backup",
        "DeleteItemAction example.io/delete",
        "ObjectStore example.io/memory",
        "RestoreItemAction example.io/restore",
        "VolumeSnapshotter example.io/snapshots",
    ]


@pytest.mark.spec("PLG-016", "PLG-018")
def test_backup_item_action(outcome: Outcome) -> None:
    got = outcome[0]["backup"]
    assert got["selector"] == SELECTOR
    assert got["item change"] == pod("change", backup="b1")
    assert got["additional change"] == ADDITIONAL
    for wish in ("", "nothing", "log"):
        assert got[f"item {wish}"] == pod(wish)
        assert not got[f"additional {wish}"]
    assert got["error fail"] == "rpc error: code = Unknown desc = it broke"
    assert got["error panic"].startswith("rpc error: code = Aborted desc = plugin panicked: ")


def test_restore_item_action(outcome: Outcome) -> None:
    got = outcome[0]["restore"]
    assert got["selector"] == SELECTOR
    assert got["change"] == {"item": pod("change", restore="r1-web"), "additional": ADDITIONAL, "skip": False}
    assert got["skip"]["skip"]
    assert got["skip"]["item"] == pod("skip")


def test_delete_item_action(outcome: Outcome) -> None:
    got = outcome[0]["delete"]
    assert got["selector"] == SELECTOR
    assert got["error "] == ""
    assert got["error fail"] == "rpc error: code = Unknown desc = it broke"


def test_object_store(outcome: Outcome) -> None:
    got = outcome[0]["store"]
    assert got["large"]
    assert got["exists"]
    assert got["missing"] == "rpc error: code = Unknown desc = key not found"
    assert got["refused"] == "rpc error: code = Unknown desc = the object is refused"
    assert sorted(got["prefixes"]) == ["a-prefix/foo-1/", "a-prefix/foo-2/"]
    assert sorted(got["keys"]) == ["a-prefix/foo-1/bar", "a-prefix/foo-2/baz"]
    assert got["url"] == "memory://b/k?ttl=600000000000&marker=m1"


@pytest.mark.spec("PLG-017")
def test_volume_snapshotter(outcome: Outcome) -> None:
    got = outcome[0]["snapshots"]
    assert got["snapshot"] == "snapshot north v1 az1 a=1,b=2"
    assert got["volume"] == "volume s1 ssd az1"
    assert got["fast volume"] == "volume s1 ssd az1 7"
    assert got["info fast"] == {"type": "ssd", "iops": 100}
    assert got["info slow"] == {"type": "disk", "iops": None}
    assert got["delete missing"] == "rpc error: code = Unknown desc = snapshot not found"
    assert got["id"] == "v9"


@pytest.mark.spec("PLG-022")
def test_a_plugin_logs_through_the_host_and_ends_with_it(outcome: Outcome) -> None:
    _, lines = outcome
    by_message = {line["msg"]: line for line in lines}
    assert by_message["a warning"]["level"] == "warning"
    assert by_message["a warning"]["count"] == 2
    assert by_message["an error"]["level"] == "error"
    assert "the cause" in by_message["an error"]["error"]
    assert "plugin failed to exit gracefully" not in by_message
    assert "plugin exited" in by_message
