"""Finding a cluster: where it is looked for, how files are merged, what is refused and in which words."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pinnace.kube.config import in_cluster_config, load_config
from pinnace.kube.errors import ConfigError
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.credentials import Impersonation, bearer

PREFIX = (
    "error finding Kubernetes API server config in --kubeconfig, $KUBECONFIG, or in-cluster configuration: "
)
SECRET = "s3cr3t-t0ken"
NO_POD = Path("no", "such", "folder")


def kubeconfig(
    path: Path,
    *,
    name: str = "one",
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    current: str | None = None,
) -> Path:
    """A file with one cluster, user and context, all of one name."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name if current is None else current,
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}.example:6443", **(cluster or {})}}
        ],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "ignored"}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def load(path: Path, context: str | None = None, **environ: str) -> ClusterConfig:
    return load_config(str(path), context, environ=environ)


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """A pod's service account folder."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text(SECRET)
    (folder / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    return folder


POD_ENVIRON = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_the_flag_goes_before_everything(tmp_path: Path, pod: Path) -> None:
    flag = kubeconfig(tmp_path / "flag", name="flag")
    variable = kubeconfig(tmp_path / "variable", name="variable")
    kubeconfig(tmp_path / ".kube" / "config", name="home")
    environ = {"HOME": str(tmp_path), "KUBECONFIG": str(variable), **POD_ENVIRON}
    found = []
    for path in (str(flag), "", None):
        found.append(load_config(path, environ=environ, service_account_dir=pod).server)
    del environ["KUBECONFIG"]
    found.append(load_config(environ=environ, service_account_dir=pod).server)
    (tmp_path / ".kube" / "config").unlink()
    found.append(load_config(environ=environ, service_account_dir=pod).server)
    assert found == [
        "https://flag.example:6443",
        "https://variable.example:6443",
        "https://variable.example:6443",
        "https://home.example:6443",
        "https://10.0.0.1:443",
    ]


def test_without_any_configuration_the_error_names_the_sources(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(environ={"HOME": str(tmp_path)}, service_account_dir=NO_POD)
    assert str(caught.value).startswith(PREFIX)
    assert "KUBERNETES_SERVICE_HOST" in str(caught.value)


def test_a_given_file_must_exist_and_be_complete(tmp_path: Path, pod: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(ConfigError, match=r"missing: no such file"):
        load_config(str(missing), environ=POD_ENVIRON, service_account_dir=pod)
    with pytest.raises(ConfigError, match="current-context is not set"):
        load_config(str(kubeconfig(tmp_path / "k", current="")), environ=POD_ENVIRON, service_account_dir=pod)


def test_a_variable_with_missing_files_is_as_none(tmp_path: Path, pod: Path) -> None:
    environ = {"KUBECONFIG": f"{tmp_path / 'a'}:{tmp_path / 'b'}", **POD_ENVIRON}
    assert load_config(environ=environ, service_account_dir=pod).server == "https://10.0.0.1:443"


def test_a_file_without_context_leads_to_the_pod_or_is_named(tmp_path: Path, pod: Path) -> None:
    path = kubeconfig(tmp_path / "k", current="")
    environ = {"KUBECONFIG": str(path)}
    assert (
        load_config(environ=environ | POD_ENVIRON, service_account_dir=pod).server == "https://10.0.0.1:443"
    )
    with pytest.raises(ConfigError, match=r"is not set, and .*: name one of one"):
        load_config(environ=environ, service_account_dir=NO_POD)
    path.write_text("")
    with pytest.raises(ConfigError, match="k: there is no context in it"):
        load_config(environ=environ, service_account_dir=NO_POD)


def test_files_are_merged_and_the_first_wins(tmp_path: Path) -> None:
    (tmp_path / "a.crt").write_text("not read")
    first = kubeconfig(tmp_path / "1" / "k", name="one", user={"token": "first"}, current="")
    second = kubeconfig(tmp_path / "2" / "k", name="two", user={"token": "second"})
    third = kubeconfig(
        tmp_path / "3" / "k", name="one", user={"token": "third"}, cluster={"server": "https://x"}
    )
    environ = {"KUBECONFIG": f"{first}:{tmp_path / 'none'}::{second}:{third}"}
    assert load_config(environ=environ).server == "https://two.example:6443"
    assert load_config(context="one", environ=environ).server == "https://one.example:6443"


async def test_entries_of_several_files_make_one_context(tmp_path: Path) -> None:
    contexts, users = tmp_path / "contexts", tmp_path / "users"
    contexts.write_text(
        yaml.safe_dump(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {"server": "https://k"}}],
            }
        )
    )
    users.write_text(yaml.safe_dump({"users": [{"name": "u", "user": {"token": SECRET}}]}))
    config = load_config(environ={"KUBECONFIG": f"{contexts}:{users}"})
    assert await config.auth.credentials() == bearer(SECRET)


async def test_relative_paths_start_at_their_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "deep" / "folder"
    path = kubeconfig(
        folder / "k",
        cluster={"certificate-authority": "../ca.crt"},
        user={"tokenFile": "token", "client-certificate": "c.crt", "client-key": "./c.key"},
    )
    for name, content in (("../ca.crt", "CA"), ("token", SECRET + "\n"), ("c.crt", "CERT"), ("c.key", "KEY")):
        (folder / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    config = load(path.relative_to(tmp_path))
    monkeypatch.chdir("/")
    assert config.tls.ca == b"CA"
    assert config.tls.certificate is not None
    assert (config.tls.certificate.certificate, config.tls.certificate.key) == (b"CERT", b"KEY")
    assert await config.auth.credentials() == bearer(SECRET)


def test_data_goes_before_files(tmp_path: Path) -> None:
    encoded = base64.encodebytes(b"from data" * 20).decode()
    path = kubeconfig(
        tmp_path / "k", cluster={"certificate-authority": "missing", "certificate-authority-data": encoded}
    )
    assert load(path).tls.ca == b"from data" * 20


def test_tls_settings(tmp_path: Path) -> None:
    assert not load(kubeconfig(tmp_path / "1")).tls.insecure
    path = kubeconfig(
        tmp_path / "2", cluster={"insecure-skip-tls-verify": True, "tls-server-name": "api.internal"}
    )
    tls = load(path).tls
    assert (tls.insecure, tls.server_name, tls.ca) == (True, "api.internal", None)


def test_impersonation(tmp_path: Path) -> None:
    user = {"as": "jane", "as-uid": "7", "as-groups": ["dev", "ops"], "as-user-extra": {"scopes": ["view"]}}
    assert load(kubeconfig(tmp_path / "k", user=user)).impersonation == Impersonation(
        user="jane", uid="7", groups=("dev", "ops"), extra={"scopes": ("view",)}
    )
    assert load(kubeconfig(tmp_path / "none")).impersonation is None


def test_proxies(tmp_path: Path) -> None:
    own = kubeconfig(tmp_path / "1", cluster={"proxy-url": "http://user:pw@proxy:3128"})
    plain = kubeconfig(tmp_path / "2")
    assert load(own, HTTPS_PROXY="http://other:1", NO_PROXY="*").proxy == "http://user:pw@proxy:3128"
    assert load(plain, HTTPS_PROXY="other:1").proxy == "http://other:1"
    assert load(plain, HTTPS_PROXY="other:1", NO_PROXY=".example").proxy is None


def test_nulls_and_unknown_fields_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text(
        json.dumps(
            {
                "current-context": "c",
                "preferences": {"colors": True},
                "users": None,
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "", "extensions": []}}],
                "clusters": [
                    {"name": "k", "cluster": {"server": "https://k/", "certificate-authority": None}}
                ],
            }
        )
    )
    assert load(path).server == "https://k"


USER_ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "two ways": ({"token": SECRET, "username": "u"}, "more than one way to sign in (token, username)"),
    "half a certificate": ({"client-certificate-data": "QQ=="}, "users[one].user.client-key: is needed"),
    "half a key": ({"client-key-data": "QQ=="}, "users[one].user.client-certificate: is needed"),
    "no base64": (
        {"client-key-data": f"!{SECRET}", "client-certificate-data": "QQ=="},
        "users[one].user.client-key-data: not valid base64",
    ),
    "missing file": (
        {"client-certificate": "nope", "client-key": "nope"},
        "users[one].user.client-certificate: cannot read",
    ),
    "groups without user": ({"as-groups": ["g"]}, "users[one].user.as: is needed"),
    "wrong type": ({"token": ["x"]}, "$.users[0].user.token"),
    "unknown provider": ({"auth-provider": {"name": "gcp"}}, "auth-provider.name: 'gcp' is not supported"),
    "oidc without issuer": (
        {"auth-provider": {"name": "oidc", "config": {"client-id": "x"}}},
        "users[one].user.auth-provider.config.idp-issuer-url: is not set",
    ),
    "exec without command": (
        {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1"}},
        "users[one].user.exec.command: is not set",
    ),
    "exec of an unknown version": (
        {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v2"}},
        "users[one].user.exec.apiVersion: 'client.authentication.k8s.io/v2' is not supported",
    ),
    "v1 without a mode": (
        {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}},
        "users[one].user.exec.interactiveMode: '' is none of",
    ),
}
CLUSTER_ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "no url": ({"server": "k8s:6443"}, "clusters[one].cluster.server: 'k8s:6443' is not a URL"),
    "no server": ({"server": None}, "clusters[one].cluster.server: '' is not a URL"),
    "bad port": ({"server": "https://h:99999"}, "clusters[one].cluster.server: not a valid URL"),
    "secret in url": ({"server": f"https://u:{SECRET}@h"}, "server: must not hold a user name or password"),
    "insecure with ca": (
        {"insecure-skip-tls-verify": True, "certificate-authority-data": "QQ=="},
        "cannot be set together with insecure-skip-tls-verify",
    ),
    "socks": (
        {"proxy-url": f"socks5://u:{SECRET}@h"},
        "proxy-url: proxies of type 'socks5' are not supported",
    ),
    "bad proxy": (
        {"proxy-url": f"http://u:{SECRET}@h:port"},
        "clusters[one].cluster.proxy-url: not a valid URL",
    ),
}


@pytest.mark.parametrize(("user", "message"), USER_ERRORS.values(), ids=USER_ERRORS)
def test_a_wrong_user_is_named(tmp_path: Path, user: dict[str, Any], message: str) -> None:
    path = kubeconfig(tmp_path / "kubeconfig", user=user)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{PREFIX}{path}: ")
    assert message in str(caught.value)
    assert SECRET not in f"{caught.value!r}"


@pytest.mark.parametrize(("cluster", "message"), CLUSTER_ERRORS.values(), ids=CLUSTER_ERRORS)
def test_a_wrong_cluster_is_named(tmp_path: Path, cluster: dict[str, Any], message: str) -> None:
    path = kubeconfig(tmp_path / "kubeconfig", cluster=cluster)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{PREFIX}{path}: ")
    assert message in str(caught.value)
    assert SECRET not in f"{caught.value!r}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"contexts": []}, "context 'one' does not exist"),
        ({"clusters": []}, "contexts[one].context.cluster: there is no cluster 'one'"),
        ({"users": []}, "contexts[one].context.user: there is no user 'one'"),
    ],
)
def test_dangling_names_are_errors(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = kubeconfig(tmp_path / "k")
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | change))
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert message in str(caught.value)


def test_an_unknown_context_never_falls_back(tmp_path: Path, pod: Path) -> None:
    with pytest.raises(ConfigError, match="context 'other' does not exist"):
        load(kubeconfig(tmp_path / "k"), "other")
    with pytest.raises(ConfigError, match="context 'other' does not exist"):
        load_config(context="other", environ=POD_ENVIRON, service_account_dir=pod)


def test_broken_yaml_is_located_but_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text(f"users:\n- user:\n    token: {{{SECRET}\n")
    with pytest.raises(ConfigError, match=r"is not valid YAML \(line \d+\)") as caught:
        load(path)
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@pytest.mark.parametrize("content", ["[]", "just text"])
def test_a_file_that_is_no_kubeconfig(tmp_path: Path, content: str) -> None:
    path = tmp_path / "k"
    path.write_text(content)
    with pytest.raises(ConfigError, match="Expected `object`"):
        load(path)


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    encoded = base64.b64encode(SECRET.encode()).decode()
    sign_ins: list[dict[str, Any]] = [
        {"token": SECRET, "client-certificate-data": encoded, "client-key-data": encoded},
        {"username": "u", "password": SECRET},
        {
            "exec": {
                "command": "x",
                "args": [SECRET],
                "env": [{"name": "N", "value": SECRET}],
                "apiVersion": "client.authentication.k8s.io/v1beta1",
            }
        },
        {
            "auth-provider": {
                "name": "oidc",
                "config": {
                    "idp-issuer-url": "https://i",
                    "client-id": "c",
                    **dict.fromkeys(("client-secret", "id-token", "refresh-token"), SECRET),
                },
            }
        },
    ]
    for number, user in enumerate(sign_ins):
        path = kubeconfig(tmp_path / str(number), user=user, cluster={"proxy-url": f"http://u:{SECRET}@p"})
        shown = repr(load(path))
        assert SECRET not in shown
        assert encoded not in shown


def test_in_cluster(pod: Path) -> None:
    config = in_cluster_config(environ=POD_ENVIRON, service_account_dir=pod)
    assert config.server == "https://10.0.0.1:443"
    assert config.tls.ca == (pod / "ca.crt").read_bytes()
    ipv6 = in_cluster_config(
        environ=POD_ENVIRON | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, service_account_dir=pod
    )
    assert ipv6.server == "https://[fd00::1]:443"


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_a_pod_without_its_files_is_told_which(pod: Path, name: str) -> None:
    (pod / name).unlink()
    with pytest.raises(ConfigError, match=name):
        in_cluster_config(environ=POD_ENVIRON, service_account_dir=pod)
