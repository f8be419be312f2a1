"""What `install` prints and refuses; nothing is sent."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.definitions.crds import crd_manifests
from pinnace.cli.install import installing as install_run
from pinnace.cli.install.install import InstallFlags
from pinnace.cli.main import run
from pinnace.cli.output.printing import OutputOptions
from pinnace.cli.process import server_run
from pinnace.installing import sending
from pinnace.installing.live import LiveWorkloads
from pinnace.installing.workloads import pull_policy
from pinnace.kube.errors import Forbidden, KubeError
from pinnace.runtime.durable import INTERRUPTED_SECONDS
from pinnace.runtime.manager import GRACE_PERIOD_SECONDS
from pinnace.storage.location_url import location_from_url
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.large_yaml import read_large_yaml

AWS = ("--provider", "aws", "--bucket", "b")
SERVER = ("--image", "i:1")
NOTHING = ("--no-default-backup-location", "--use-volume-snapshots=false", "--no-secret")
SECRET = "[default]\naws_access_key_id = id\n"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))
    for name in ("PINNACE_LOCATION", "VELERO_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    path = tmp_path / "credentials"
    path.write_text(SECRET)
    return str(path)


def printed(
    capsys: pytest.CaptureFixture[str],
    *words: str,
    read: Callable[[str], Any] = json.loads,
    form: str = "json",
) -> list[dict[str, Any]]:
    """The items that a dry run prints; as JSON, which is read and written in a hundredth of the time."""
    assert run(["install", "--dry-run", "-o", form, *words]) == 0, capsys.readouterr().err
    listing = read(capsys.readouterr().out)
    assert (listing["apiVersion"], listing["kind"]) == ("v1", "List")
    items: list[dict[str, Any]] = listing["items"]
    return items


def by_kind(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, Any]]:
    """The same by kind, without the definitions."""
    items = printed(capsys, *words)
    return {item["kind"]: item for item in items if item["kind"] != "CustomResourceDefinition"}


def test_crds_version_v1beta1_prints_definitions_of_v1_with_a_notice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["install", "--dry-run", "-o", "yaml", "--crds-only", "--crds-version", "v1beta1"]) == 0

    shown = capsys.readouterr()
    assert "version v1, not v1beta1" in shown.err
    items = read_large_yaml(shown.out)["items"]
    assert {item["apiVersion"] for item in items} == {"apiextensions.k8s.io/v1"}


@pytest.mark.spec("CLI-040")
def test_crds_only_prints_only_definitions(capsys: pytest.CaptureFixture[str]) -> None:
    items = printed(capsys, "--crds-only", read=read_large_yaml, form="yaml")

    names = [item["metadata"]["name"] for item in items]
    assert names == sorted(manifest["metadata"]["name"] for manifest in crd_manifests())
    assert len(names) == 14
    for item in items:
        assert item["kind"] == "CustomResourceDefinition"
        assert item["metadata"]["labels"] == {"component": "velero"}
        assert "status" not in item


def test_all_objects_are_printed_in_order_with_the_label(
    capsys: pytest.CaptureFixture[str], secret_file: str
) -> None:
    items = printed(capsys, *AWS, "--secret-file", secret_file, "--image", "i:1")

    assert [item["kind"] for item in items[14:]] == [
        "Namespace",
        "ClusterRoleBinding",
        "ServiceAccount",
        "Secret",
        "BackupStorageLocation",
        "VolumeSnapshotLocation",
        "Deployment",
    ]
    for item in items:
        assert item["metadata"]["labels"]["component"] == "velero"
        assert item["metadata"]["creationTimestamp"] is None
        assert "status" not in item


@pytest.mark.spec("CLI-034")
@pytest.mark.parametrize(
    ("words", "name", "namespace"), [((), "velero", "velero"), (("-n", "foo"), "velero-foo", "foo")]
)
def test_the_role_binding_is_named_after_the_namespace(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], name: str, namespace: str
) -> None:
    binding = by_kind(capsys, *NOTHING, *words)["ClusterRoleBinding"]

    assert binding["metadata"]["name"] == name
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "velero", "namespace": namespace}]


def test_the_flags_of_a_bucket_become_the_backup_location(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text("PEM")
    words = ["--prefix", "p", "--backup-location-config", "region=r,s3Url=http://h:1", "--no-secret"]
    spec = by_kind(capsys, *AWS, *words, "--cacert", str(tmp_path / "ca.pem"))["BackupStorageLocation"][
        "spec"
    ]

    assert spec == {
        "provider": "aws",
        "default": True,
        "objectStorage": {"bucket": "b", "prefix": "p", "caCert": "UEVN"},
        "config": {"region": "r", "s3Url": "http://h:1"},
    }


@pytest.mark.parametrize("provider", ["filesystem", "pinnace.io/filesystem"])
def test_a_folder_means_the_same_location_as_without_a_server(
    capsys: pytest.CaptureFixture[str], provider: str
) -> None:
    made = by_kind(capsys, "--provider", provider, "--backup-location-config", "path=/srv/backups/")

    same = location_from_url("/srv/backups").spec
    assert made["BackupStorageLocation"]["spec"] == {
        "provider": same.provider,
        "config": same.config,
        "objectStorage": {"bucket": same.object_storage.bucket},
        "default": True,
    }
    assert "VolumeSnapshotLocation" not in made


def test_a_bucket_with_a_folder_is_a_folder_inside_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--provider", "filesystem", "--bucket", "b", "--backup-location-config", "path=/srv/backups"]
    spec = by_kind(capsys, *words)["BackupStorageLocation"]["spec"]

    assert spec["config"] == {"path": "/srv/backups"}
    assert spec["objectStorage"] == {"bucket": "b"}


def pod(made: dict[str, dict[str, Any]], kind: str = "Deployment") -> dict[str, Any]:
    found: dict[str, Any] = made[kind]["spec"]["template"]["spec"]
    return found


def container(made: dict[str, dict[str, Any]], kind: str = "Deployment") -> dict[str, Any]:
    found: dict[str, Any] = pod(made, kind)["containers"][0]
    return found


@pytest.mark.spec("CLI-035")
def test_credentials_are_mounted_only_with_a_secret(
    capsys: pytest.CaptureFixture[str], secret_file: str
) -> None:
    without = by_kind(capsys, *AWS, "--no-secret", *SERVER, "--use-restic")
    with_one = by_kind(capsys, *AWS, "--secret-file", secret_file, *SERVER, "--use-restic")

    for made, variables, volumes in ((without, 3, 2), (with_one, 7, 3)):
        for kind in ("Deployment", "DaemonSet"):
            assert len(container(made, kind)["env"]) == variables
            assert len(pod(made, kind)["volumes"]) == volumes
    assert container(without)["args"] == ["server", "--uploader-type=kopia"]
    assert "Secret" not in without


@pytest.mark.found("X3")
@pytest.mark.spec("CLI-037")
def test_flags_become_arguments_of_server_and_node_agent(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*AWS, "--no-secret", *SERVER, "--use-restic"]
    bare = by_kind(capsys, *words)
    assert container(bare)["args"] == ["server", "--uploader-type=kopia"]
    assert container(bare, "DaemonSet")["args"] == ["node-agent", "server"]

    more = ["--features", "EnableCSI,foo", "--default-restic-prune-frequency", "24h", "--restore-only"]
    made = by_kind(capsys, *words, *more, "--default-volumes-to-restic")
    assert container(made)["args"] == [
        "server",
        "--features=EnableCSI,foo",
        "--default-volumes-to-fs-backup=true",
        "--uploader-type=kopia",
        "--restore-only",
        "--default-repo-maintain-frequency=24h0m0s",
    ]
    assert container(made, "DaemonSet")["args"] == ["node-agent", "server", "--features=EnableCSI,foo"]


def test_the_server_accepts_the_arguments_it_is_installed_with(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr(server_run, "serve", lambda _ctx, flags, _warnings: started.append(flags))
    words = ["--features", "foo", "--default-restic-prune-frequency", "24h", "--restore-only"]
    made = by_kind(
        capsys, *AWS, "--no-secret", *SERVER, "--use-restic", *words, "--default-volumes-to-restic"
    )

    assert run(container(made)["args"]) == 0

    assert len(started) == 1


def test_the_node_agent_is_a_daemon_set_that_mounts_the_pods_directory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = by_kind(capsys, *AWS, "--no-secret", *SERVER, "--use-restic", "--pod-annotations", "a=b")
    spec, template = made["DaemonSet"]["spec"], made["DaemonSet"]["spec"]["template"]

    assert made["DaemonSet"]["metadata"]["name"] == "node-agent"
    assert (spec["selector"], spec["updateStrategy"]) == ({"matchLabels": {"name": "node-agent"}}, {})
    assert template["metadata"]["labels"] == {
        "component": "velero",
        "name": "node-agent",
        "role": "node-agent",
    }
    assert template["metadata"]["annotations"] == {"a": "b"}
    assert pod(made, "DaemonSet")["securityContext"] == {"runAsUser": 0}
    assert pod(made, "DaemonSet")["serviceAccountName"] == "velero"
    agent = container(made, "DaemonSet")
    assert agent["env"][0] == {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    host_pods = {"name": "host-pods", "mountPath": "/host_pods", "mountPropagation": "HostToContainer"}
    assert host_pods in agent["volumeMounts"]
    assert {"name": "host-pods", "hostPath": {"path": "/var/lib/kubelet/pods"}} in pod(made, "DaemonSet")[
        "volumes"
    ]
    assert agent["resources"] == {
        "requests": {"cpu": "500m", "memory": "512Mi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }


@pytest.mark.found("X10")
def test_no_pod_is_put_on_a_windows_node(capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(capsys, *AWS, "--no-secret", *SERVER, "--use-node-agent", "--non-admin")
    workloads = [item for item in made if item["kind"] in ("Deployment", "DaemonSet")]

    assert len(workloads) == 3
    for each in workloads:
        spec = each["spec"]["template"]["spec"]
        required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        (term,) = required["nodeSelectorTerms"]
        assert term["matchExpressions"] == [
            {"key": "kubernetes.io/os", "operator": "NotIn", "values": ["windows"]}
        ]
        assert spec["os"] == {"name": "linux"}


@pytest.mark.found("X4")
def test_the_namespace_admits_node_agents_and_is_not_labelled_without_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    levels = {"enforce", "audit", "warn"}
    with_agents = by_kind(capsys, *AWS, "--no-secret", *SERVER, "--use-node-agent")["Namespace"]
    without = by_kind(capsys, *AWS, "--no-secret", *SERVER)["Namespace"]

    assert with_agents["metadata"]["labels"] == {
        "component": "velero",
        **{f"pod-security.kubernetes.io/{level}": "privileged" for level in levels},
        **{f"pod-security.kubernetes.io/{level}-version": "latest" for level in levels},
    }
    assert without["metadata"]["labels"] == {"component": "velero"}


@pytest.mark.found("L10")
def test_plugins_are_init_containers_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--plugins", " velero/velero-plugin-for-gcp:v1.2.0, my-image "]
    made = by_kind(capsys, "--provider", "gcp", "--bucket", "b", "--no-secret", *SERVER, *words)

    plugins = pod(made)["initContainers"]
    assert [plugin["name"] for plugin in plugins] == ["velero-velero-plugin-for-gcp", "my-image"]
    for plugin in plugins:
        assert plugin["volumeMounts"] == [{"name": "plugins", "mountPath": "/target"}]
        assert plugin["imagePullPolicy"] == "IfNotPresent"  # the server's, whatever its own tag
        # Without both, a namespace of Pod Security `restricted` refuses the pod.
        assert plugin["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
    assert {"name": "plugins", "mountPath": "/plugins"} in container(made)["volumeMounts"]


def test_the_server_runs_unprivileged_with_a_read_only_root(capsys: pytest.CaptureFixture[str]) -> None:
    made = by_kind(capsys, *AWS, "--no-secret", *SERVER, "--use-restic")

    assert pod(made)["securityContext"]["runAsNonRoot"] is True
    assert container(made)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    for kind in ("Deployment", "DaemonSet"):
        assert container(made, kind)["securityContext"]["readOnlyRootFilesystem"] is True
        paths = {mount["mountPath"] for mount in container(made, kind)["volumeMounts"]}
        assert {"/scratch", "/tmp"} <= paths
    assert container(made)["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
    # A restart fails what runs, so a moment without an answer is no reason for one; nor is a slow start.
    seconds = {
        name: container(made)[name]["periodSeconds"] * container(made)[name]["failureThreshold"]
        for name in ("livenessProbe", "startupProbe", "readinessProbe")
    }
    assert seconds == {"livenessProbe": 60, "startupProbe": 300, "readinessProbe": 30}
    readiness = container(made)["readinessProbe"]
    assert readiness["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert readiness["periodSeconds"] == 2, "a rollout waits for it"
    assert pod(made)["terminationGracePeriodSeconds"] > GRACE_PERIOD_SECONDS + INTERRUPTED_SECONDS


def test_minimal_rbac_gives_only_the_rights_that_are_used(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*NOTHING, "-n", "foo", "--minimal-rbac"]
    made = by_kind(capsys, *words)

    assert list(made) == [
        "Namespace", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount",
    ]  # fmt: skip
    assert made["ClusterRoleBinding"]["roleRef"]["name"] == made["ClusterRole"]["metadata"]["name"]
    assert made["ClusterRole"]["metadata"]["name"] == "velero-foo"
    assert made["Role"]["metadata"]["namespace"] == made["RoleBinding"]["metadata"]["namespace"] == "foo"
    everywhere = [rule for rule in made["ClusterRole"]["rules"] if "*" in rule.get("resources", ())]
    assert [rule["verbs"] for rule in everywhere] == [["get", "list", "create", "patch"]]
    verbs = {
        verb for kind in ("ClusterRole", "Role") for rule in made[kind]["rules"] for verb in rule["verbs"]
    }
    assert verbs.isdisjoint({"*", "escalate", "bind", "impersonate"})

    snapshots = by_kind(capsys, *words, "--features", "EnableCSI")["ClusterRole"]["rules"]
    assert any(rule.get("apiGroups") == ["snapshot.storage.k8s.io"] for rule in snapshots)


def test_node_agents_may_delete_what_they_move_data_through(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*NOTHING, "--minimal-rbac", "--image", "i:1"]
    kinds = ["pods", "persistentvolumeclaims", "secrets", "configmaps"]
    moved = {"apiGroups": [""], "resources": kinds, "verbs": ["delete"]}

    assert moved not in by_kind(capsys, *words)["Role"]["rules"]
    assert moved in by_kind(capsys, *words, "--use-node-agent")["Role"]["rules"]


def test_features_and_annotations_reach_the_objects(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--features", "EnableCSI,foo", "--pod-annotations", "a=b,prometheus.io/port=1"]
    made = by_kind(capsys, *AWS, "--no-secret", "--image", "i:1", *words, "--sa-annotations", "c=d")

    assert container(made)["args"] == ["server", "--features=EnableCSI,foo"]
    assert made["Deployment"]["spec"]["template"]["metadata"]["annotations"] == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "1",
        "prometheus.io/path": "/metrics",
        "a": "b",
    }
    assert made["ServiceAccount"]["metadata"]["annotations"] == {"c": "d"}


@pytest.mark.spec("CLI-036")
@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("velero/velero:v0.11", "IfNotPresent"),
        ("velero/velero", "Always"),
        ("velero/velero:latest", "Always"),
        ("host:5000/velero:v1", "Always"),
        ("host:5000/velero", "IfNotPresent"),
    ],
)
def test_the_pull_policy_depends_on_the_tag(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_requests_and_limits_of_the_server_have_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    made = by_kind(capsys, *AWS, "--no-secret", "--image", "i:1")

    assert container(made)["resources"] == {
        "requests": {"cpu": "500m", "memory": "128Mi"},
        "limits": {"cpu": "1", "memory": "512Mi"},
    }


FOLDER = ("--provider", "filesystem", "--backup-location-config", "path=/srv/backups")
REFUSED = [
    (["--bucket", "-b"], "Bucket names cannot begin with a dash. Bucket name was: -b"),
    *(
        (
            ["--no-default-backup-location", f"--{flag}", value],
            f"Cannot use both --{flag} and --no-default-backup-location at the same time",
        )
        for flag, value in (("bucket", "b"), ("prefix", "p"), ("backup-location-config", "a=b"))
    ),
    ([], "--provider is required"),
    (["--provider", "aws"], "--bucket is required"),
    (
        ["--no-default-backup-location"],
        "--provider is required when --use-volume-snapshots is set to true, as it is by default: "
        "to take no native snapshots of volumes, add --use-volume-snapshots=false",
    ),
    (
        [*AWS, "--use-volume-snapshots=false", "--snapshot-location-config", "a=b"],
        "--snapshot-location-config must be empty when --use-volume-snapshots=false",
    ),
    (
        ["--no-default-backup-location", "--use-volume-snapshots=false", "--provider", "aws"],
        "--provider must be empty when using --no-default-backup-location "
        "and --use-volume-snapshots=false",
    ),
    (list(AWS), "One of --secret-file or --no-secret is required"),
    (["--provider", "alibabacloud", "--bucket", "b", "--no-secret"], "--plugins flag is required"),
    (
        [*AWS, "--no-secret", *SERVER, "--default-volumes-to-restic"],
        "--use-node-agent is required when using --default-volumes-to-restic",
    ),
    (
        [*AWS, "--no-secret", *SERVER, "--default-volumes-to-fs-backup=true"],
        "--use-node-agent is required when using --default-volumes-to-fs-backup",
    ),
    (
        [*AWS, "--no-secret", *SERVER, "--default-repo-maintain-frequency=-1h"],
        "--default-repo-maintain-frequency must be non-negative",
    ),
    (
        [*AWS, "--no-secret", *SERVER, "--default-restic-prune-frequency", "-1h"],
        "--default-restic-prune-frequency must be non-negative",
    ),
    (["--crds-only", "--crds-version", "v2"], "CRD version must be v1beta1 or v1"),
    *(
        ([*AWS, "--no-secret", *words], f"--image is required when using {words[0]}")
        for words in (["--use-restic"], ["--plugins", "i"], ["--restore-only"], ["--wait"],
                      ["--default-restic-prune-frequency", "1h"])
    ),
    (
        [*AWS, "--no-secret", "--restic-pod-mem-request", "2Gi"],
        'Memory request "2Gi" must be less than or equal to Memory limit "1Gi"',
    ),
    ([*AWS, "--no-secret", "--restic-pod-cpu-limit", "x"], "couldn't parse CPU limit \"x\""),
    ([*AWS, "--no-secret", "--velero-pod-cpu-request", "2"], "CPU request"),
    (["--provider", "filesystem"], "--backup-location-config path=/absolute/folder is required"),
    ([*FOLDER[:2], "--backup-location-config", "path=backups"], "path=/absolute/folder is required"),
    ([*FOLDER[:2], "--backup-location-config", "path=/"], "path=/absolute/folder is required"),
    ([*FOLDER, "--no-default-backup-location"], "--provider filesystem and --no-default-backup-location"),
    ([*FOLDER, "--snapshot-location-config", "a=b"], "--provider filesystem and --snapshot-location-config"),
    ([*FOLDER, "--use-restic"], "Cannot use both --provider filesystem and --use-restic at the same time"),
    ([*FOLDER, "--image", "i"], "Cannot use both --provider filesystem and --image at the same time"),
    (["--location", "./backups", *NOTHING], "`install` works on a server in the cluster"),
]  # fmt: skip


@pytest.mark.found("X9")
@pytest.mark.spec("CLI-039")
@pytest.mark.parametrize(("words", "text"), REFUSED, ids=[" ".join(words) or "none" for words, _ in REFUSED])
def test_contradictory_or_missing_flags_are_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    assert run(["install", "--dry-run", *words]) in (1, 2)

    assert text in capsys.readouterr().err


@pytest.mark.spec("CLI-039")
@pytest.mark.parametrize(
    ("words", "is_warned"),
    [
        pytest.param(AWS, True, id="no-region"),
        pytest.param((*AWS, "--snapshot-location-config", "region=eu-central-1"), False, id="region"),
        pytest.param((*AWS, "--use-volume-snapshots=false"), False, id="no-snapshots"),
        pytest.param(("--provider", "gcp", "--bucket", "b"), False, id="provider-without-regions"),
    ],
)
def test_a_snapshot_location_of_aws_without_a_region_is_warned_of(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], is_warned: bool
) -> None:
    assert run(["install", "--dry-run", "--no-secret", *SERVER, *words]) == 0
    warned = capsys.readouterr().err
    assert ("the volume snapshot location has no region" in warned) is is_warned
    assert ("--use-volume-snapshots=false" in warned) is is_warned


def test_a_password_for_restic_becomes_a_secret(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("my own")

    items = printed(capsys, *NOTHING, "--restic-password-file", str(path))

    [secret] = [item for item in items if item["kind"] == "Secret"]
    assert secret["metadata"]["name"] == "velero-restic-credentials"
    assert secret["data"] == {"repository-password": base64.b64encode(b"my own").decode()}


def test_an_empty_password_for_restic_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("\n")

    assert run(["install", "--dry-run", "-o", "yaml", *NOTHING, "--restic-password-file", str(path)]) == 1
    assert "--restic-password-file is empty" in capsys.readouterr().err


def test_a_contradictory_or_missing_secret_file_is_refused(
    capsys: pytest.CaptureFixture[str], secret_file: str
) -> None:
    assert run(["install", "--dry-run", *AWS, "--secret-file", secret_file, "--no-secret"]) == 1
    assert "Cannot use both --secret-file and --no-secret" in capsys.readouterr().err
    assert run(["install", "--dry-run", *FOLDER, "--secret-file", secret_file]) == 1
    assert "--provider filesystem and --secret-file" in capsys.readouterr().err
    assert run(["install", "--dry-run", *AWS, "--secret-file", f"{secret_file}-missing"]) == 1
    assert "No such file or directory" in capsys.readouterr().err


@pytest.mark.spec("CLI-039")
def test_without_optional_flags_only_namespace_and_account_are_created(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert list(by_kind(capsys, *NOTHING)) == ["Namespace", "ClusterRoleBinding", "ServiceAccount"]
    assert run(["install", "--dry-run", *NOTHING]) == 0
    summary, hint = capsys.readouterr().out.splitlines()
    assert summary == (
        "Pinnace in namespace velero. Would create, or leave as they are where they exist: "
        "14 custom resource definitions, Namespace/velero, ClusterRoleBinding/velero, ServiceAccount/velero"
    )
    assert hint.startswith("Nothing was sent.")


@pytest.mark.found("E-F9")
@pytest.mark.parametrize("form", ["table", "wide", "name", "jsonpath={.items}", "custom-columns=A:.kind"])
def test_formats_other_than_json_and_yaml_are_refused(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["install", "--dry-run", "-o", form, *NOTHING]) == 1
    said = capsys.readouterr()
    assert f"'{form.partition('=')[0]}' format is not supported with 'install' command" in said.err
    assert said.out == ""


class NeverReady:
    """A cluster that takes definitions and never serves them."""

    def __init__(self, error: KubeError | None = None) -> None:
        self.error = error
        self.server, self.context = "https://c", "test"

    async def create(self, *_what: object, **_how: object) -> dict[str, Any]:
        return {}

    async def get(self, *_what: object) -> dict[str, Any]:
        if self.error:
            raise self.error
        return {"status": {"conditions": [{"type": "Established", "status": "False"}]}}


@pytest.mark.parametrize(
    ("password", "said"),
    [
        (None, "Without it their data is lost with this cluster"),
        (b"static-passw0rd", "WARNING: volumes are saved under Velero's public default password"),
        (b"own", ""),
    ],
    ids=["new", "public", "own"],
)
def test_the_password_of_repositories_is_spoken_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], password: bytes | None, said: str
) -> None:
    cluster = ScriptedCluster()
    if password is not None:
        data = {"repository-password": base64.b64encode(password).decode()}
        cluster.add("secrets", "velero-repo-credentials", data=data)

    @asynccontextmanager
    async def opened(_settings: object) -> AsyncIterator[ScriptedCluster]:
        yield cluster

    async def installed(*_what: object, **_how: object) -> LiveWorkloads:
        return LiveWorkloads()

    monkeypatch.setattr(install_run, "open_cluster", opened)
    monkeypatch.setattr(sending.Installer, "install", installed)

    assert run(["install", "-n", "velero", *NOTHING]) == 0

    printed_text = "".join(capsys.readouterr())
    for text in ("their data is lost with this cluster", "public default password"):
        assert (text in printed_text) is (text in said)
    assert "static-passw0rd" not in printed_text


@pytest.mark.spec("CLI-049")
@pytest.mark.parametrize(
    ("error", "text"),
    [(None, "timed out waiting for the condition"), (Forbidden(403, message="you may not"), "you may not")],
    ids=["never", "refused"],
)
def test_definitions_that_are_never_established_are_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: KubeError | None, text: str
) -> None:
    @asynccontextmanager
    async def opened(_settings: object) -> AsyncIterator[NeverReady]:
        yield NeverReady(error)

    monkeypatch.setattr(install_run, "open_cluster", opened)
    monkeypatch.setattr(sending, "CRD_TIMEOUT_SECONDS", 0.01)

    assert run(["install", "-n", "foo", *NOTHING]) == 1

    assert capsys.readouterr().err == (
        "Installing into cluster https://c (context test).\n"
        f"An error occurred: Error installing Pinnace: Error polling for CRDs: {text}\n"
    )


def test_each_flag_is_an_option_of_the_installer_or_one_of_the_command_alone() -> None:
    of_pods = {
        f"{pod}_pod_{what}"
        for pod in ("velero", "restic")
        for what in ("cpu_request", "mem_request", "cpu_limit", "mem_limit")
    }
    of_files = {"secret_file", "cacert", "restic_password_file"}
    of_the_command = {"dry_run", "crds_only", "crds_version", "no_default_backup_location"}
    of_output = set(OutputOptions.__struct_fields__)

    assert set(InstallFlags.__struct_fields__) - install_run._SAME == (
        of_pods | of_files | of_the_command | of_output
    )
