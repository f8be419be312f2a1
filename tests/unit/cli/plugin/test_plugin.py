"""`plugin add|remove|get`."""

import io
import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from pinnace.cli.main import run
from pinnace.installing.plugin_images import init_container_name
from pinnace.kube.errors import Conflict, ConnectionFailed, Forbidden
from pinnace.kube.resources import DEPLOYMENTS
from tests.unit.cli.cluster import ServedCluster, connected

IMAGE = "velero/velero-plugin-for-aws:v1.2.0"
NAME = "velero-velero-plugin-for-aws"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    return connected(monkeypatch, tmp_path)


def deploy(cluster: ServedCluster, **pod: Any) -> None:
    spec = {"containers": [{"name": "sidecar"}, {"name": "velero", "image": "i"}], **pod}
    cluster.add(DEPLOYMENTS, "velero", labels={"component": "velero"}, spec={"template": {"spec": spec}})
    cluster.add(DEPLOYMENTS, "other", spec={"template": {"spec": {"containers": []}}})


def pod_of(cluster: ServedCluster) -> dict[str, Any]:
    spec: dict[str, Any] = cluster.stored(DEPLOYMENTS, "velero")["spec"]["template"]["spec"]
    return spec


@pytest.mark.spec("CLI-032")
@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("gcr.io/my-repo/my-image:latest", "my-repo-my-image"),
        ("gcr.io/my-repo/my-image", "my-repo-my-image"),
        ("my-repo/my-image:latest", "my-repo-my-image"),
        ("my-repo/my-image", "my-repo-my-image"),
        ("mycustomregistry.io:8080/my-repo/my-image:latest", "my-repo-my-image"),
        ("/my-repo/my-image", "my-repo-my-image"),
        ("my-image", "my-image"),
        ("/my-image", "my-image"),
        ("gcr.io/my-repo/mystery/another/my-image", "my-repo-mystery-another-my-image"),
        ("/gcr.io/my-repo/mystery/another/my-image", "gcr-io-my-repo-mystery-another-my-image"),
        (
            "projects.registry.vmware.com/tanzu_migrator/route-2-httpproxy:myTag",
            "tanzu-migrator-route-2-httpproxy",
        ),
        (
            "projects.registry.vmware.com/tanzu.migrator/route-2-httpproxy:myTag",
            "tanzu-migrator-route-2-httpproxy",
        ),
        (IMAGE, NAME),
    ],
)  # fmt: skip
def test_the_init_container_is_named_after_the_image(image: str, name: str) -> None:
    assert init_container_name(image) == name


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("host:5000/a/b", "a-b"),
        ("host:5000/a", "a"),
        ("host:5000/a/b:v1@sha256:0123", "a-b"),
        ("velero/velero-plugin-for-aws@sha256:0123456789abcdef", NAME),
    ],
)
def test_ports_and_digests_are_left_out_of_the_name(image: str, name: str) -> None:
    assert init_container_name(image) == name


def test_add_appends_an_init_container_with_volume_and_mount(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    deploy(cluster)

    assert run(["plugin", "add", IMAGE]) == 0

    assert capsys.readouterr().out == ""
    assert pod_of(cluster) == {
        "containers": [
            {"name": "sidecar"},
            {
                "name": "velero",
                "image": "i",
                "volumeMounts": [{"name": "plugins", "mountPath": "/plugins"}],
            },
        ],
        "volumes": [{"name": "plugins", "emptyDir": {}}],
        "initContainers": [
            {
                "name": NAME,
                "image": IMAGE,
                "imagePullPolicy": "IfNotPresent",
                "volumeMounts": [{"name": "plugins", "mountPath": "/target"}],
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }


def test_add_keeps_existing_plugins_and_volumes(cluster: ServedCluster) -> None:
    volumes = [{"name": "plugins", "emptyDir": {}}, {"name": "scratch", "emptyDir": {}}]
    deploy(cluster, volumes=volumes, initContainers=[{"name": "a", "image": "a:1"}])

    assert run(["plugin", "add", "b:1", "--image-pull-policy", "Never"]) == 0

    pod = pod_of(cluster)
    assert pod["volumes"] == volumes
    # The mount comes with the volume: where that was there already, somebody has taken care of both.
    assert pod["containers"][1] == {"name": "velero", "image": "i"}
    assert [container["name"] for container in pod["initContainers"]] == ["a", "b"]
    assert pod["initContainers"][1]["imagePullPolicy"] == "Never"


@pytest.mark.parametrize("word", ["b", "b:1"])
def test_remove_deletes_the_init_container_of_that_name_or_image(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, word: str
) -> None:
    deploy(cluster, initContainers=[{"name": name, "image": f"{name}:1"} for name in ("a", "b", "c")])

    assert run(["plugin", "remove", word]) == 0

    assert capsys.readouterr().out == ""
    assert [container["name"] for container in pod_of(cluster)["initContainers"]] == ["a", "c"]


@pytest.mark.found("E-F4")
@pytest.mark.parametrize(
    ("words", "answer", "changes"),
    [
        (["add", IMAGE, "--confirm"], "", True),
        (["remove", "a", "--confirm"], "", True),
        (["add", IMAGE], "y\n", True),
        (["add", IMAGE], "n\n", False),
        (["remove", "a"], "n\n", False),
    ],
)
def test_a_terminal_is_asked_before_the_server_restarts_and_a_flag_answers(
    capsys: pytest.CaptureFixture[str],
    cluster: ServedCluster,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    answer: str,
    changes: bool,
) -> None:
    deploy(cluster, initContainers=[{"name": "a", "image": "a:1"}])
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdin", terminal)

    assert run(["plugin", *words]) == 0

    assert bool(cluster.writes()) == changes
    asked = (
        "The server in namespace velero restarts, and the backups and restores that run fail.\nAre you sure"
    )
    assert capsys.readouterr().out.startswith(asked if answer else "")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["add"], "accepts 1 arg(s), received 0"),
        (["add", "a", "--image-pull-policy", "Sometimes"], 'invalid value: "Sometimes"'),
        (["remove", "nope"], "init container nope not found in Velero server deployment; it has none"),
        (
            ["add", "a", "-n", "elsewhere"],
            "Velero deployment not found: namespace elsewhere has no Deployment with the label "
            "component=velero; name the namespace of the server with -n",
        ),
    ],
)
def test_wrong_arguments_are_refused(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, words: list[str], text: str
) -> None:
    deploy(cluster)
    assert run(["plugin", *words]) == 1
    assert text in capsys.readouterr().err
    assert cluster.writes() == []


def test_a_deployment_without_the_server_container_is_an_error(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    deploy(cluster, containers=[{"name": "x"}])
    assert run(["plugin", "add", IMAGE]) == 1
    assert capsys.readouterr().err == ("An error occurred: velero container not found in velero deployment\n")


@pytest.mark.parametrize(("conflicts", "exit_code"), [(3, 0), (5, 1)])
def test_add_is_repeated_after_a_conflict(cluster: ServedCluster, conflicts: int, exit_code: int) -> None:
    deploy(cluster)
    changed = Conflict(409, reason="Conflict", message="the object has been modified")
    cluster.refuse("patch", "deployments", changed, times=conflicts)

    assert run(["plugin", "add", IMAGE]) == exit_code
    assert ("initContainers" in pod_of(cluster)) == (exit_code == 0)


@pytest.mark.spec("CLI-018")
def test_get_prints_the_plugins_that_the_server_reports(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    cluster.plugins = [{"name": "b", "kind": "X"}, {"name": "a", "kind": "Y"}, {"name": "a", "kind": "X"}]

    assert run(["plugin", "get"]) == 0
    assert capsys.readouterr().out == textwrap.dedent("""\
        NAME   KIND
        a      X
        b      X
        a      Y
        """)
    assert run(["get", "plugins", "-o", "name"]) == 0
    assert capsys.readouterr().out == "a\nb\na\n"


def test_get_prints_the_request_in_json_and_yaml(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    cluster.plugins = [{"name": "velero.io/pv", "kind": "BackupItemAction"}]

    assert run(["plugin", "get", "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["kind"] == "ServerStatusRequest"
    assert printed["metadata"]["generateName"] == "velero-cli-"
    assert printed["status"]["plugins"] == cluster.plugins
    assert run(["plugin", "get", "-o", "yaml"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["status"]["plugins"] == cluster.plugins


def test_get_without_an_answer_warns_and_prints_no_rows(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    cluster.plugins = None

    assert run(["plugin", "get", "--timeout", "1ms"]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("The server did not answer within 0.001s")


def test_get_without_a_server_prints_the_error_on_stdout(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    key = ("create", "serverstatusrequests")
    cluster.refuse(*key, Forbidden(403, reason="Forbidden", message="you may not"))
    assert run(["plugin", "get"]) == 0
    assert capsys.readouterr().out == "<error getting plugin information: you may not>\n"
    cluster.relent()
    cluster.unserved = {("serverstatusrequests", "v1")}
    assert run(["plugin", "get"]) == 0
    assert "install it (`pinnace install --help`)" in capsys.readouterr().out


def test_get_from_an_unreachable_cluster_is_an_error(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> dict[str, Any]:
        raise ConnectionFailed("connection refused")

    monkeypatch.setattr(cluster, "create", refused)
    assert run(["plugin", "get"]) == 1
    assert capsys.readouterr().err == "An error occurred: connection refused\n"


@pytest.mark.parametrize("words", [["add", IMAGE], ["remove", IMAGE], ["get"]])
def test_plugin_commands_with_a_location_are_refused(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, words: list[str]
) -> None:
    assert run(["--location", "./backups", "plugin", *words]) == 2
    assert f"`plugin {words[0]}` works on a server" in capsys.readouterr().err
