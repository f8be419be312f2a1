"""Exec plugins: what they are told, what they may answer, when they run again."""

import asyncio
import json
import os
import shlex
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from pinnace.api.values.times import format_time
from pinnace.kube.auth.exec_plugin import ExecAuth, ExecPlugin
from pinnace.kube.config import load_config
from pinnace.kube.errors import ConfigError
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.credentials import ClientCertificate, Credentials, bearer
from tests.support.clock import START, FakeClock
from tests.unit.kube.scripted import ScriptedServer, answer_json, answer_status, connected

GROUP = "client.authentication.k8s.io"
SECRET = "s3cr3t-t0ken"


class Plugin:
    """A shell script that prints what `answer` holds and keeps what it was told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "plugin.sh"
        self.answer = folder / "answer"
        self.runs = folder / "runs"
        self.write("")

    def write(self, more: str) -> None:
        quoted = {name: shlex.quote(str(path)) for name, path in vars(self).items()}
        self.path.write_text(
            "#!/bin/sh\n"
            f'printf "%s\\n" "$KUBERNETES_EXEC_INFO" >> {quoted["runs"]}\n'
            f'printf "%s %s" "$PLUGIN_EXTRA" "$*" > {quoted["folder"]}/told\n'
            f"{more}\ncat {quoted['answer']}\n"
        )
        self.path.chmod(0o700)

    def answers(self, version: str = "v1", **status: Any) -> None:
        document = {"apiVersion": f"{GROUP}/{version}", "kind": "ExecCredential", "status": status}
        self.answer.write_text(json.dumps(document))

    def requests(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.runs.read_text().splitlines()]

    def auth(self, clock: FakeClock | None = None, **settings: Any) -> ExecAuth:
        options = {"clock": clock or FakeClock(), "is_terminal": settings.pop("is_terminal", lambda: False)}
        if "deadline_seconds" in settings:
            options["deadline_seconds"] = settings.pop("deadline_seconds")
        settings = {"version": "v1", "origin": "k: users[u].user.exec"} | settings
        return ExecAuth(ExecPlugin(command=str(self.path), **settings), **options)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


def configured(plugin: Plugin, server: str = "https://k", **entry: Any) -> ClusterConfig:
    """The configuration of a kubeconfig beside the plugin, which names it by a relative path."""
    extensions = [
        {"name": f"{GROUP}/exec", "extension": {"audience": "x"}},
        {"name": "other", "extension": 1},
    ]
    cluster = {
        "server": server,
        "tls-server-name": "api.internal",
        "certificate-authority-data": "Q0E=",
        "proxy-url": "http://p:1",
        "disable-compression": True,
        "extensions": extensions,
    }
    user = {"exec": {"command": "./plugin.sh", "interactiveMode": "Never", **entry}}
    document = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    }
    path = plugin.folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return load_config(str(path), environ={})


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
async def test_every_version(plugin: Plugin, version: str) -> None:
    plugin.answers(version, token=SECRET)
    config = configured(
        plugin,
        apiVersion=f"{GROUP}/{version}",
        args=["get-token", "a b"],
        env=[{"name": "PLUGIN_EXTRA", "value": "from kubeconfig"}],
        provideClusterInfo=True,
    )
    assert await config.auth.credentials() == bearer(SECRET)
    (request,) = plugin.requests()
    cluster = {
        "server": "https://k",
        "tls-server-name": "api.internal",
        "certificate-authority-data": "Q0E=",
        "proxy-url": "http://p:1",
        "disable-compression": True,
        "config": {"audience": "x"},
    }
    spec: dict[str, Any] = {"interactive": False}
    if version != "v1alpha1":
        spec["cluster"] = cluster
    assert request == {"kind": "ExecCredential", "apiVersion": f"{GROUP}/{version}", "spec": spec}
    assert (plugin.folder / "told").read_text() == "from kubeconfig get-token a b"


async def test_the_cluster_is_told_only_on_request(plugin: Plugin) -> None:
    plugin.answers(token=SECRET)
    await configured(plugin, apiVersion=f"{GROUP}/v1").auth.credentials()
    assert plugin.requests()[0]["spec"] == {"interactive": False}


async def test_credentials_are_kept_until_they_expire(plugin: Plugin, clock: FakeClock) -> None:
    auth = plugin.auth(clock)
    plugin.answers(token="one", expirationTimestamp=format_time(START + timedelta(minutes=5)))
    assert await auth.credentials() == bearer("one")
    plugin.answers(token="two")
    clock.turn(timedelta(minutes=5, seconds=-1))
    assert await auth.credentials() == bearer("one")
    clock.turn(1)
    assert await auth.credentials() == bearer("two")
    clock.turn(timedelta(days=365))
    assert await auth.credentials() == bearer("two")
    assert len(plugin.requests()) == 2


async def test_many_tasks_run_the_plugin_once(plugin: Plugin) -> None:
    plugin.answers(token="one")
    auth = plugin.auth()
    results = await asyncio.gather(*(auth.credentials() for _ in range(10)))
    assert results == [bearer("one")] * 10
    plugin.answers(token="two")
    assert await asyncio.gather(*(auth.rejected(bearer("one")) for _ in range(10))) == [True] * 10
    assert len(plugin.requests()) == 2


async def test_a_401_runs_the_plugin_again(server: ScriptedServer, plugin: Plugin) -> None:
    server.on(
        "GET /version",
        answer_json({"gitVersion": "v1"}),
        answer_status(401),
        answer_json({"gitVersion": "v1"}),
    )
    plugin.answers(token="one")
    config = ClusterConfig(server=server.url, auth=plugin.auth())
    async with connected(server, config=config) as client:
        await client.version()
        plugin.answers(token="two")
        await client.version()
    assert [seen.headers["Authorization"] for seen in server.seen] == [
        "Bearer one",
        "Bearer one",
        "Bearer two",
    ]


async def test_a_certificate_is_accepted_instead_of_a_token(plugin: Plugin) -> None:
    plugin.answers(clientCertificateData="CERT", clientKeyData="KEY")
    assert await plugin.auth().credentials() == Credentials("", ClientCertificate(b"CERT", b"KEY"))


@pytest.mark.parametrize(
    ("mode", "terminal", "interactive"),
    [
        ("Never", True, False),
        ("IfAvailable", True, True),
        ("IfAvailable", False, False),
        ("Always", True, True),
    ],
)
async def test_interactive_modes(plugin: Plugin, mode: str, terminal: bool, interactive: bool) -> None:
    plugin.answers(token=SECRET)
    auth = plugin.auth(interactive_mode=mode, is_terminal=lambda: terminal)
    await auth.credentials()
    assert plugin.requests()[0]["spec"] == {"interactive": interactive}


async def test_always_interactive_needs_a_terminal(plugin: Plugin) -> None:
    with pytest.raises(ConfigError, match="needs a terminal"):
        await plugin.auth(interactive_mode="Always").credentials()
    assert not plugin.runs.exists()


async def test_a_missing_plugin_comes_with_its_hint(plugin: Plugin) -> None:
    plugin.path.unlink()
    with pytest.raises(ConfigError) as caught:
        await plugin.auth(install_hint="Install it with your package manager.\n").credentials()
    assert str(caught.value) == (
        f"k: users[u].user.exec: the exec plugin {str(plugin.path)!r}: No such file or directory\n\n"
        "Install it with your package manager."
    )


async def test_a_failing_plugin_is_named_but_not_quoted(plugin: Plugin) -> None:
    plugin.write(f"echo {SECRET}\nexit 3")
    with pytest.raises(ConfigError, match="failed with exit code 3") as caught:
        await plugin.auth(args=(SECRET,), env={"N": SECRET}, install_hint="Try again.").credentials()
    assert SECRET not in str(caught.value)
    assert str(caught.value).endswith("Try again.")


async def test_a_hanging_plugin_is_killed(plugin: Plugin) -> None:
    plugin.write("echo $$ > pid; exec tail -f /dev/null".replace("pid", shlex.quote(f"{plugin.folder}/pid")))
    with pytest.raises(ConfigError, match=r"did not finish within 1\.5 seconds"):
        await plugin.auth(deadline_seconds=1.5).credentials()
    pid = int((plugin.folder / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


GOOD = {"apiVersion": f"{GROUP}/v1", "kind": "ExecCredential"}


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", "no valid ExecCredential"),
        (f"token: {SECRET}", "no valid ExecCredential"),
        (json.dumps(GOOD | {"status": {"token": 5}}), "no valid ExecCredential"),
        (json.dumps(GOOD | {"kind": SECRET}), "something other than an ExecCredential"),
        (json.dumps(GOOD | {"apiVersion": f"{GROUP}/v1beta1"}), "something other than an ExecCredential"),
        (json.dumps(GOOD), "neither a token nor a certificate"),
        (json.dumps(GOOD | {"status": {"clientKeyData": SECRET}}), "a certificate without its key"),
        (
            json.dumps(GOOD | {"status": {"token": SECRET, "expirationTimestamp": SECRET}}),
            "an expirationTimestamp that is no time",
        ),
    ],
)
async def test_unusable_output_is_never_quoted(plugin: Plugin, output: str, message: str) -> None:
    plugin.answer.write_text(output)
    with pytest.raises(ConfigError, match=message) as caught:
        await plugin.auth().credentials()
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None


def test_reprs_hold_no_secrets(plugin: Plugin) -> None:
    auth = plugin.auth(args=(SECRET,), env={"N": SECRET})
    assert SECRET not in repr(auth)
    assert SECRET not in repr(auth._plugin)
