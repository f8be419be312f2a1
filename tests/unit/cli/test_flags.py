"""Flags as the compatible command line reads them, through the real commands."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from pinnace import __version__
from pinnace.api.values.quantities import resource_requirements
from pinnace.cli.build import ordered_resources
from pinnace.cli.errors import InvalidInput
from pinnace.cli.main import run
from pinnace.kube.errors import ConnectionFailed, Forbidden
from tests.unit.cli.cluster import connected


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No config file, no location and no cluster of whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))
    for name in ("PINNACE_LOCATION", "VELERO_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(words) == 0
    result: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return result


def backup_spec(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    spec: dict[str, Any] = printed(capsys, "backup", "create", "b", *words, "-o", "yaml")["spec"]
    return spec


@pytest.mark.spec("CLI-004")
def test_lists_replace_and_maps_add(capsys: pytest.CaptureFixture[str]) -> None:
    spec = backup_spec(capsys, "--include-namespaces", "a,b", "--include-namespaces", "c")
    assert spec["includedNamespaces"] == ["c"]
    words = ["--volume-snapshot-locations", "a", "--volume-snapshot-locations", "b"]
    assert backup_spec(capsys, *words)["volumeSnapshotLocations"] == ["a", "b"]
    words = ["--annotations", "a=b=c", "--annotations", "d=e"]
    whole = printed(capsys, "backup", "create", "b", *words, "-o", "json")
    assert whole["metadata"]["annotations"] == {"a": "b=c", "d": "e"}
    assert run(["backup", "create", "b", "--labels", "x", "-o", "json"]) == 1
    assert 'error parsing "x"' in capsys.readouterr().err


@pytest.mark.parametrize("is_set", [False, True])
def test_an_empty_location_is_told_if_there_is_no_variable_to_undo(
    is_set: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script whose variable is unset would delete the backups of a server, not those of its folder."""
    if is_set:
        monkeypatch.setenv("PINNACE_LOCATION", str(tmp_path))

    assert run(["--location", "", "backup", "create", "b", "-o", "yaml"]) == 0

    told = "WARNING: --location is empty, so the command works on the server in the cluster\n"
    assert capsys.readouterr().err.count(told) == (0 if is_set else 1)


@pytest.mark.spec("CLI-005")
def test_optional_booleans(capsys: pytest.CaptureFixture[str]) -> None:
    assert backup_spec(capsys, "--snapshot-volumes")["snapshotVolumes"] is True
    assert backup_spec(capsys, "--snapshot-volumes=false")["snapshotVolumes"] is False
    assert "snapshotVolumes" not in backup_spec(capsys)
    assert "snapshotVolumes" not in backup_spec(capsys, "--snapshot-volumes=")
    assert run(["backup", "create", "b", "--snapshot-volumes", "false"]) == 1
    assert "accepts at most 1 arg(s), received 2" in capsys.readouterr().err


@pytest.mark.spec("CLI-006")
def test_namespace_mappings(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["restore", "create", "r", "--from-backup", "b1", "--namespace-mappings", "a:b,c:d"]
    whole = printed(capsys, "--location", "nowhere", *words, "-o", "yaml")
    assert whole["spec"]["namespaceMapping"] == {"a": "b", "c": "d"}


@pytest.mark.spec("CLI-007")
def test_ordered_resources() -> None:
    text = "pods= ns1/p1,ns1/p2 ; persistentvolumeclaims=ns2/pvc1,ns2/pvc2"
    assert ordered_resources(text) == {
        "pods": "ns1/p1,ns1/p2",
        "persistentvolumeclaims": "ns2/pvc1,ns2/pvc2",
    }
    assert ordered_resources("pods=p1,p2;persistentvolumes=pv1,pv2")["persistentvolumes"] == "pv1,pv2"
    with pytest.raises(InvalidInput, match=r"Invalid OrderedResources ' ns1/p2'\."):
        ordered_resources("pods= ns1/p1; ns1/p2;pods=x")


@pytest.mark.spec("CLI-008")
def test_create_without_a_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backup", "create"]) == 1
    assert "A backup name is required" in capsys.readouterr().err
    assert run(["--location", "x", "backup", "create"]) == 2


@pytest.mark.found("X2")
@pytest.mark.spec("CLI-009")
def test_a_backup_with_labels_and_order(capsys: pytest.CaptureFixture[str]) -> None:
    whole = printed(
        capsys, "backup", "create", "b", "--labels", "velero.io/test=true",
        "--ordered-resources", "pods=p1,p2;persistentvolumeclaims=pvc1,pvc2",
        "--csi-snapshot-timeout", "25m", "-o", "json",
    )  # fmt: skip
    assert whole["metadata"]["labels"] == {"velero.io/test": "true"}
    assert whole["spec"] == {
        "ttl": "0s",
        "hooks": {},
        "includedNamespaces": ["*"],
        "orderedResources": {"pods": "p1,p2", "persistentvolumeclaims": "pvc1,pvc2"},
        "csiSnapshotTimeout": "25m0s",
    }


@pytest.mark.spec("CLI-011")
def test_output_prints_without_sending(capsys: pytest.CaptureFixture[str]) -> None:
    # There is no cluster: a command that sent anything would fail.
    whole = printed(capsys, "backup", "create", "b1", "--include-namespaces", "nginx", "-o", "yaml")
    assert whole == {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"creationTimestamp": None, "name": "b1", "namespace": "velero"},
        "spec": {"hooks": {}, "includedNamespaces": ["nginx"], "ttl": "0s"},
        "status": {},
    }
    assert run(["backup", "create", "b1", "-o", "xml"]) == 1
    assert (
        "invalid output format \"xml\" - valid values are 'table', 'json', and 'yaml'"
        in capsys.readouterr().err
    )


@pytest.mark.spec("CLI-044")
def test_selectors(capsys: pytest.CaptureFixture[str]) -> None:
    assert backup_spec(capsys, "-l", "a=b,c in (y,x),!d")["labelSelector"] == {
        "matchLabels": {"a": "b"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["x", "y"]},
            {"key": "d", "operator": "DoesNotExist"},
        ],
    }
    for text, problem in (
        ("a!=b", '"!=" is not a valid label selector operator'),
        ("a>1", '"gt" isn\'t supported in label selectors'),
    ):
        assert run(["backup", "create", "b", "-l", text, "-o", "yaml"]) == 1
        assert f'invalid argument "{text}" for "-l, --selector" flag: {problem}' in capsys.readouterr().err


def test_filters_of_later_versions(capsys: pytest.CaptureFixture[str]) -> None:
    spec = backup_spec(
        capsys,
        *("--or-selector", "a=b or c in (d)", "--include-cluster-scoped-resources", "nodes"),
        *("--exclude-cluster-scoped-resources", "pv", "--include-namespace-scoped-resources", "pods,cm"),
        *("--exclude-namespace-scoped-resources", "secrets", "--resource-policies-configmap", "rules"),
        *("--parallel-files-upload", "4"),
    )
    assert spec["orLabelSelectors"] == [
        {"matchLabels": {"a": "b"}},
        {"matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}]},
    ]
    assert spec["includedClusterScopedResources"] == ["nodes"]
    assert spec["excludedClusterScopedResources"] == ["pv"]
    assert spec["includedNamespaceScopedResources"] == ["pods", "cm"]
    assert spec["excludedNamespaceScopedResources"] == ["secrets"]
    assert spec["resourcePolicy"] == {"kind": "configmap", "name": "rules"}
    assert spec["uploaderConfig"] == {"parallelFilesUpload": 4}


@pytest.mark.spec("AFT-059")
def test_settings_of_the_uploader_and_filters_of_a_restore(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--location", "nowhere", "restore", "create", "r", "--from-backup", "b", "-o", "yaml")
    settings = ("--write-sparse-files", "--parallel-files-download", "2")
    tuned = printed(capsys, *words, *settings, "--resource-policies-configmap", "p")

    assert tuned["spec"]["resourcePolicy"] == {"kind": "configmap", "name": "p"}
    assert tuned["spec"]["uploaderConfig"] == {"writeSparseFiles": True, "parallelFilesDownload": 2}
    assert "uploaderConfig" not in printed(capsys, *words)["spec"]


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (("-l", "a=b", "--or-selector", "c=d"), "'selector' or an 'or-selector' can be specified"),
        (
            ("--include-resources", "pods", "--exclude-cluster-scoped-resources", "pv"),
            "cannot be used together",
        ),
        (("--parallel-files-upload", "-1"), "--parallel-files-upload"),
    ],
)
def test_filters_that_contradict_each_other_are_refused_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], problem: str
) -> None:
    assert run(["backup", "create", "b", *flags, "-o", "yaml"]) != 0
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["backup", "create", "b", "--nope"], "unknown flag: --nope"),
        (["backup", "create", "b", "--ttl"], "flag needs an argument: --ttl"),
        (["backup", "create", "b", "-n"], "flag needs an argument: 'n' in -n"),
        (["backup", "create", "b", "-xw"], "unknown shorthand flag: 'x' in -xw"),
        (["backup", "create", "b", "--ttl", "1y"], 'invalid argument "1y" for "--ttl" flag: '),
        (["backup", "logs"], "accepts 1 arg(s), received 0"),
        (["bakup"], 'unknown command "bakup" for "pinnace"'),
        (["backup", "delete"], "you must specify exactly one of: specific backup name(s)"),
        (["backup", "delete", "b", "--all"], "you must specify exactly one of: specific backup name(s)"),
        (["restore", "create", "r"], "either a backup or schedule must be specified, but not both"),
    ],
)
def test_wrong_words_and_values_are_refused(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 1
    shown = capsys.readouterr().err
    assert text in shown
    assert "Traceback" not in shown
    assert run(["--location", "somewhere", *words]) == 2


def test_short_flags_take_their_value_with_a_sign(capsys: pytest.CaptureFixture[str]) -> None:
    whole = printed(capsys, "-n=x", "backup", "create", "b", "-o=json", "-l=app=web", "-w=false", "-v=4")
    assert whole["metadata"]["namespace"] == "x"
    assert whole["spec"]["labelSelector"] == {"matchLabels": {"app": "web"}}


def test_the_word_after_a_flag_is_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert backup_spec(capsys, "--storage-location", "--wait")["storageLocation"] == "--wait"
    assert backup_spec(capsys, "--storage-location", "-o=x")["storageLocation"] == "-o=x"
    assert run(["backup", "create", "-o", "name", "--dry-run=client", "--", "--wait"]) == 1
    assert 'metadata.name: invalid value "--wait"' in capsys.readouterr().err


IN_PLACE = ["--location", "nowhere", "restore", "create", "b", "--from-backup", "x", "--dry-run=client"]


def test_data_for_claims_that_exist_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--existing-volume-data-policy", "incremental", "--delete-extra-files", "-o", "json"]

    spec = printed(capsys, *IN_PLACE, *flags)["spec"]

    assert spec["existingVolumeDataPolicy"] == "incremental"
    assert spec["uploaderConfig"] == {"deleteExtraFiles": True}


@pytest.mark.spec("AFT-152")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--existing-volume-data-policy", "some"],
            "existing-volume-data-policy has invalid value, it accepts only none, full, incremental as value",
        ),
        (
            ["--delete-extra-files"],
            "--delete-extra-files needs --existing-volume-data-policy full or incremental",
        ),
    ],
    ids=["unknown", "alone"],
)
def test_a_wrong_wish_for_data_in_existing_claims_is_refused(
    capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    assert run([*IN_PLACE, *flags]) != 0
    assert said in capsys.readouterr().err


SERVER = ["restore", "create", "b", "--from-backup", "x"]
POLICY = ["--existing-volume-data-policy", "full"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*SERVER, *POLICY], "--compare-files is a part of a dry run"),
        ([*SERVER, *POLICY, "--dry-run=client"], "--compare-files is a part of a dry run"),
        ([*SERVER, "--dry-run"], "give --existing-volume-data-policy full or incremental as well"),
        (
            [*SERVER, "--dry-run", "--existing-volume-data-policy", "none"],
            "give --existing-volume-data-policy full or incremental as well",
        ),
        (["--location", "nowhere", *SERVER, *POLICY, "--dry-run"], "needs the node agents of a server"),
    ],
    ids=["no dry run", "dry run of the client", "no policy", "policy none", "location"],
)
def test_files_are_compared_only_where_there_is_something_to_compare(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert run([*words, "--compare-files"]) != 0
    assert said in capsys.readouterr().err


FROM_X = ["--location", "nowhere", "restore", "create", "b", "--from-backup", "x"]


@pytest.mark.found("R9")
@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["backup", "create", "b"], "--include-cluster-resources"),
        (["backup", "create", "b"], "--snapshot-volumes"),
        (FROM_X, "--include-cluster-resources"),
        (FROM_X, "--restore-volumes"),
        (FROM_X, "--preserve-nodeports"),
    ],
)
def test_a_bare_dry_run_takes_no_word_that_is_not_its_value(
    capsys: pytest.CaptureFixture[str], words: list[str], field: str
) -> None:
    others = ["--include-resources", "pods", "-o", "json"]
    bare = printed(capsys, *words, "--dry-run", field, *others, "--dry-run=client")
    assert bare == printed(capsys, *words, f"{field}=true", *others, "--dry-run", "client")
    assert bare["spec"]["includedResources"] == ["pods"]


@pytest.mark.found("R9")
def test_the_name_may_follow_a_bare_dry_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backup", "create", "--dry-run", "b", "-o", "name", "--dry-run", "client"]) == 0
    assert capsys.readouterr().out == "backup.velero.io/b\n"


def test_the_colour_flag_needs_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "backup", "create", "b", "--colorized", "false", "-o", "json")["kind"] == "Backup"
    assert run(["backup", "create", "b", "-o", "json", "--colorized"]) == 1
    assert "flag needs an argument: --colorized" in capsys.readouterr().err


def test_global_flags_are_accepted_before_and_after_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "-n", "x", "backup", "create", "b", "-o", "json")["metadata"]["namespace"] == "x"
    assert (
        printed(capsys, "create", "backup", "b", "-o", "json", "-n", "y", "-v", "4")["metadata"]["namespace"]
        == "y"
    )


@pytest.mark.spec("CLI-001", "SRV-004")
def test_namespace_precedence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def namespace(*words: str) -> str:
        found: str = printed(capsys, "backup", "create", "b", "-o", "json", *words)["metadata"]["namespace"]
        return found

    assert namespace() == "velero"
    monkeypatch.setenv("VELERO_NAMESPACE", "env")
    assert namespace() == "env"
    config = tmp_path / ".config" / "velero" / "config.json"
    config.parent.mkdir(parents=True)
    config.write_text(json.dumps({"namespace": "cfg"}))
    assert namespace() == "cfg"
    assert namespace("--namespace", "f") == "f"


@pytest.mark.spec("CLI-038")
def test_resource_requirements() -> None:
    assert resource_requirements("0", "0", "0", "0") == {"requests": {}, "limits": {}}
    assert resource_requirements("100m", "0", "0", "0") == {"requests": {"cpu": "100m"}, "limits": {}}
    assert resource_requirements("500m", "128Mi", "1000m", "512Mi") == {
        "requests": {"cpu": "500m", "memory": "128Mi"},
        "limits": {"cpu": "1", "memory": "512Mi"},
    }
    with pytest.raises(ValueError, match='CPU request "300m" must be less than or equal to CPU limit "200m"'):
        resource_requirements("300m", "0", "200m", "0")
    with pytest.raises(ValueError, match='couldn\'t parse CPU request "invalid"'):
        resource_requirements("invalid", "0", "0", "0")


@pytest.mark.spec("CLI-033", "CLI-048")
def test_version_of_the_client(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "--client-only"]) == 0
    assert capsys.readouterr().out == f"Client:\n\tVersion: v{__version__}\n\tGit commit: -\n"


@pytest.mark.spec("CLI-033")
@pytest.mark.parametrize(
    ("client", "more"),
    [
        ("1.6.3", ""),
        ("1.6.0", ""),
        ("1.7.0", "# WARNING: the client version does not match the server version. Please update server\n"),
        ("1.5.4", "# WARNING: the client version does not match the server version. Please update client\n"),
    ],
)
def test_version_of_a_server(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    client: str,
    more: str,
) -> None:
    cluster = connected(monkeypatch, tmp_path)  # its server says that it is v1.6.3
    cluster.plugins = [{"name": "pinnace.io/filesystem", "kind": "ObjectStore"}]
    monkeypatch.setattr("pinnace.cli.client.version.__version__", client)

    assert run(["version"]) == 0

    assert capsys.readouterr() == (
        f"Client:\n\tVersion: v{client}\n\tGit commit: -\nServer:\n\tVersion: v1.6.3\n{more}",
        "",
    )


@pytest.mark.spec("CLI-033")
def test_version_of_a_server_that_cannot_be_had(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster = connected(monkeypatch, tmp_path)
    error = Forbidden(403, reason="Forbidden", message="an error")
    cluster.refuse("create", "serverstatusrequests", error)

    assert run(["version"]) == 0

    assert capsys.readouterr().out.endswith("\tGit commit: -\n<error getting server version: an error>\n")


@pytest.mark.spec("CLI-048")
def test_version_without_a_cluster(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def refused(*_: object) -> None:
        raise ConnectionFailed("cannot connect to https://10.0.0.1:6443: Connection refused")

    assert run(["version"]) == 1
    nowhere = capsys.readouterr()
    monkeypatch.setattr(connected(monkeypatch, tmp_path), "create", refused)
    assert run(["version"]) == 1
    unreachable = capsys.readouterr()

    assert nowhere.out == unreachable.out == ""
    assert "error finding Kubernetes API server config" in nowhere.err
    assert unreachable.err == (
        "An error occurred: cannot connect to https://10.0.0.1:6443: Connection refused\n"
    )


@pytest.mark.parametrize(
    "words",
    [("backup", "create", "b"), ("schedule", "create", "s", "--schedule", "@daily")],
    ids=["backup", "schedule"],
)
def test_annotations_are_those_of_what_is_created(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    whole = printed(capsys, *words, "--annotations", "a=b", "-o", "yaml")
    assert whole["metadata"]["annotations"] == {"a": "b"}


def test_annotations_of_a_restore_stay_beside_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["restore", "create", "r", "--from-backup", "b", "--annotations", "a=b"]
    whole = printed(capsys, "--location", "nowhere", *words, "--without-volume-data", "-o", "yaml")
    assert whole["metadata"]["annotations"]["a"] == "b"
    assert len(whole["metadata"]["annotations"]) == 2
