"""What `install` prints and refuses; nothing is sent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pinnace.api.crds import crd_manifests
from pinnace.cli import install_run
from pinnace.cli.install_resources import pull_policy
from pinnace.cli.main import run
from pinnace.kube.errors import Forbidden, KubeError
from pinnace.storage.location_url import location_from_url

AWS = ("--provider", "aws", "--bucket", "b")
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


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """The items that a dry run prints."""
    assert run(["install", "--dry-run", "-o", "yaml", *words]) == 0, capsys.readouterr().err
    listing = yaml.safe_load(capsys.readouterr().out)
    assert (listing["apiVersion"], listing["kind"]) == ("v1", "List")
    items: list[dict[str, Any]] = listing["items"]
    return items


def by_kind(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, Any]]:
    """The same by kind, without the definitions."""
    items = printed(capsys, *words)
    return {item["kind"]: item for item in items if item["kind"] != "CustomResourceDefinition"}


@pytest.mark.spec("CLI-040")
def test_definitions_alone(capsys: pytest.CaptureFixture[str]) -> None:
    items = printed(capsys, "--crds-only")

    names = [item["metadata"]["name"] for item in items]
    assert names == sorted(manifest["metadata"]["name"] for manifest in crd_manifests())
    assert len(names) == 11
    for item in items:
        assert item["kind"] == "CustomResourceDefinition"
        assert item["metadata"]["labels"] == {"component": "velero"}
        assert "status" not in item


def test_everything_is_in_its_order_and_labelled(
    capsys: pytest.CaptureFixture[str], secret_file: str
) -> None:
    items = printed(capsys, *AWS, "--secret-file", secret_file, "--image", "i:1")

    assert [item["kind"] for item in items[11:]] == [
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
def test_access_rights(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], name: str, namespace: str
) -> None:
    binding = by_kind(capsys, *NOTHING, *words)["ClusterRoleBinding"]

    assert binding["metadata"]["name"] == name
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "velero", "namespace": namespace}]


def test_the_location_of_a_bucket(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
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
def test_a_folder_is_the_one_that_works_without_a_server(
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


def test_a_bucket_of_a_folder_is_a_folder_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--provider", "filesystem", "--bucket", "b", "--backup-location-config", "path=/srv/backups"]
    spec = by_kind(capsys, *words)["BackupStorageLocation"]["spec"]

    assert spec["config"] == {"path": "/srv/backups"}
    assert spec["objectStorage"] == {"bucket": "b"}


def container(made: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = made["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    return found


def test_the_deployment_with_and_without_a_secret(
    capsys: pytest.CaptureFixture[str], secret_file: str
) -> None:
    without = by_kind(capsys, *AWS, "--no-secret", "--image", "i:1")
    with_one = by_kind(capsys, *AWS, "--secret-file", secret_file, "--image", "i:1")

    for made, variables, volumes in ((without, 3, 2), (with_one, 7, 3)):
        assert len(container(made)["env"]) == variables
        assert len(made["Deployment"]["spec"]["template"]["spec"]["volumes"]) == volumes
    assert container(without)["args"] == ["server"]
    assert "Secret" not in without


def test_features_and_annotations(capsys: pytest.CaptureFixture[str]) -> None:
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
def test_when_an_image_is_pulled(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_resources_of_the_pod(capsys: pytest.CaptureFixture[str]) -> None:
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
        "--provider is required when --use-volume-snapshots is set to true",
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
    ([*AWS, "--no-secret", "--velero-pod-cpu-request", "2"], "CPU request"),
    (["--provider", "filesystem"], "--backup-location-config path=/absolute/folder is required"),
    ([*FOLDER[:2], "--backup-location-config", "path=backups"], "path=/absolute/folder is required"),
    ([*FOLDER[:2], "--backup-location-config", "path=/"], "path=/absolute/folder is required"),
    ([*FOLDER, "--no-default-backup-location"], "--provider filesystem and --no-default-backup-location"),
    ([*FOLDER, "--snapshot-location-config", "a=b"], "--provider filesystem and --snapshot-location-config"),
    ([*FOLDER, "--image", "i"], "Cannot use both --provider filesystem and --image at the same time"),
    (["--location", "./backups", *NOTHING], "`install` works on a server in the cluster"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "text"), REFUSED, ids=[" ".join(words) or "none" for words, _ in REFUSED])
def test_what_is_refused(capsys: pytest.CaptureFixture[str], words: list[str], text: str) -> None:
    assert run(["install", "--dry-run", *words]) in (1, 2)

    assert text in capsys.readouterr().err


def test_a_secret_and_no_secret(capsys: pytest.CaptureFixture[str], secret_file: str) -> None:
    assert run(["install", "--dry-run", *AWS, "--secret-file", secret_file, "--no-secret"]) == 1
    assert "Cannot use both --secret-file and --no-secret" in capsys.readouterr().err
    assert run(["install", "--dry-run", *FOLDER, "--secret-file", secret_file]) == 1
    assert "--provider filesystem and --secret-file" in capsys.readouterr().err
    assert run(["install", "--dry-run", *AWS, "--secret-file", f"{secret_file}-missing"]) == 1
    assert "No such file or directory" in capsys.readouterr().err


def test_the_least_that_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(by_kind(capsys, *NOTHING)) == ["Namespace", "ClusterRoleBinding", "ServiceAccount"]
    assert run(["install", "--dry-run", *NOTHING]) == 0
    assert capsys.readouterr().out == ""


def test_a_table_is_no_form_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["install", "-o", "table", *NOTHING]) == 1
    assert "'table' format is not supported with 'install' command" in capsys.readouterr().err


class NeverReady:
    """A cluster that takes definitions and never serves them."""

    def __init__(self, error: KubeError | None = None) -> None:
        self.error = error

    async def create(self, *_what: object) -> dict[str, Any]:
        return {}

    async def get(self, *_what: object) -> dict[str, Any]:
        if self.error:
            raise self.error
        return {"status": {"conditions": [{"type": "Established", "status": "False"}]}}


@pytest.mark.spec("CLI-049")
@pytest.mark.parametrize(
    ("error", "text"),
    [(None, "timed out waiting for the condition"), (Forbidden(403, message="you may not"), "you may not")],
    ids=["never", "refused"],
)
def test_definitions_that_never_come(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: KubeError | None, text: str
) -> None:
    @asynccontextmanager
    async def opened(_settings: object) -> AsyncIterator[NeverReady]:
        yield NeverReady(error)

    monkeypatch.setattr(install_run, "open_cluster", opened)
    monkeypatch.setattr(install_run, "CRD_TIMEOUT_SECONDS", 0.01)

    assert run(["install", "-n", "foo", *NOTHING]) == 1

    assert capsys.readouterr().err == (
        "An error occurred: \n\nError installing Velero. Use `kubectl logs deploy/velero -n foo` "
        f"to check the deploy logs: Error polling for CRDs: {text}\n"
    )
