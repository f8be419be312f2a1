"""What `install --non-admin` makes, and that `uninstall` takes it away."""

import json
from pathlib import Path
from typing import Any

import pytest

from pinnace.cli.main import run
from pinnace.installing import removal
from pinnace.kube.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, CUSTOM_RESOURCE_DEFINITIONS
from pinnace.nonadmin import manifests
from tests.unit.cli.cluster import connected

BASIC = ("--no-default-backup-location", "--use-volume-snapshots=false", "--no-secret")
IMAGE = ("--image", "example.com/pinnace:v1")
SERVER_ACCOUNT = {"kind": "ServiceAccount", "name": "velero", "namespace": "velero"}
OWN_ACCOUNT = {"kind": "ServiceAccount", "name": manifests.NAME, "namespace": "velero"}


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A function: the objects that a dry run prints, by kind and name."""
    connected(monkeypatch, tmp_path)

    def show(*words: str) -> dict[tuple[str, str], dict[str, Any]]:
        assert run(["install", "--dry-run", "-o", "json", *words]) == 0, capsys.readouterr().err
        items = json.loads(capsys.readouterr().out)["items"]
        assert all(item["metadata"]["labels"]["component"] == "velero" for item in items)
        return {(item["kind"], item["metadata"]["name"]): item for item in items}

    return show


def of_self_service(made: dict[tuple[str, str], Any]) -> set[tuple[str, str]]:
    return {(kind, name) for kind, name in made if "nonadmin" in name or "non-admin" in name}


def test_without_the_flag_no_object_of_self_service_is_made(printed: Any) -> None:
    assert of_self_service(printed(*BASIC, *IMAGE, "--features", "EnableCSI")) == set()


def test_crds_only_with_non_admin_has_the_definitions_of_self_service(printed: Any) -> None:
    made = printed("--crds-only", "--non-admin")

    assert len(made) == 14 + 5
    assert ("CustomResourceDefinition", "nonadminbackups.oadp.openshift.io") in made


def test_non_admin_deploys_a_controller_with_its_own_account(printed: Any) -> None:
    made = printed(*BASIC, *IMAGE, "--non-admin", "--minimal-rbac")

    pod = made["Deployment", manifests.DEPLOYMENT]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert (container["image"], container["imagePullPolicy"]) == ("example.com/pinnace:v1", "IfNotPresent")
    assert pod["serviceAccountName"] == manifests.NAME
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 65532)
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    assert made["ServiceAccount", manifests.NAME]["metadata"]["namespace"] == "velero"
    assert made["RoleBinding", manifests.NAME]["subjects"] == [OWN_ACCOUNT]
    assert made["ClusterRoleBinding", f"{manifests.NAME}-velero"]["subjects"] == [OWN_ACCOUNT]
    assert ("ClusterRole", "nonadminbackup-editor-role") in made


def test_without_an_image_no_controller_is_deployed(printed: Any) -> None:
    made = printed(*BASIC, "--non-admin")

    assert [name for kind, name in made if kind == "Deployment"] == []
    assert ("ServiceAccount", manifests.NAME) in made


@pytest.mark.parametrize("rights", [(), ("--minimal-rbac",)], ids=["all rights", "those it uses"])
@pytest.mark.parametrize("more", [(), ("--non-admin",)], ids=["feature alone", "both"])
def test_with_the_feature_the_server_is_the_only_controller(
    printed: Any, rights: tuple[str, ...], more: tuple[str, ...]
) -> None:
    """There may be one such controller only."""
    made = printed(*BASIC, *IMAGE, "--features", "EnableCSI,NonAdmin", *rights, *more)

    assert [name for kind, name in made if kind == "Deployment"] == ["velero"]
    arguments = made["Deployment", "velero"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--features=EnableCSI,NonAdmin" in arguments
    assert ("ServiceAccount", manifests.NAME) not in made
    assert made["RoleBinding", manifests.NAME]["subjects"] == [SERVER_ACCOUNT]
    assert made["ClusterRoleBinding", f"{manifests.NAME}-velero"]["subjects"] == [SERVER_ACCOUNT]


def test_uninstall_removes_self_service(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = connected(monkeypatch, tmp_path)
    monkeypatch.setattr(removal, "POLL_SECONDS", 0)
    cluster.unserved = {("customresourcedefinitions", "v1beta1")}
    marks = {"component": "velero"}
    for crd in manifests.crds():
        cluster.add(CUSTOM_RESOURCE_DEFINITIONS, crd["metadata"]["name"], labels=marks, spec=crd["spec"])
    for obj in manifests.resources("velero"):
        for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS):
            if obj["kind"] == resource.kind:
                cluster.add(resource, obj["metadata"]["name"], labels=marks)
    cluster.add(CLUSTER_ROLE_BINDINGS, "pinnace-nonadmin-elsewhere", labels=marks)
    cluster.add(CLUSTER_ROLES, "edit")

    assert run(["uninstall", "--force"]) == 0

    left = {name for _, _, name in cluster.objects}
    assert left == {"pinnace-nonadmin-elsewhere", "edit"}
