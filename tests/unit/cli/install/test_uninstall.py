"""`uninstall`, by what is left in the cluster and what is said."""

import io
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from pinnace.cli.main import run
from pinnace.installing import removal
from pinnace.installing.finalizers import defined_by, release_objects
from pinnace.installing.removal import OLD_DEFINITIONS
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConnectionFailed, Forbidden, NotFound
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PODS,
    velero,
)
from tests.unit.cli.cluster import ServedCluster, connected

RESTORES = velero("restores")
DEFINITIONS = ("backups.velero.io", "restores.velero.io")
DOING = "Uninstalling from cluster https://127.0.0.1:6443 (context test).\n"
SUCCESS = "Pinnace is uninstalled.\n"
WAITING = (
    "Waiting until all is gone. You may safely press ctrl-c to stop waiting - "
    "uninstall will continue in the background.\n"
)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    """A cluster as it is today: definitions in version v1 only."""
    cluster = connected(monkeypatch, tmp_path)
    monkeypatch.setattr(removal, "POLL_SECONDS", 0)
    cluster.unserved = {("customresourcedefinitions", "v1beta1")}
    return cluster


def fill(cluster: ServedCluster, namespace: str = "velero", binding: str = "velero") -> None:
    cluster.add(NAMESPACES, namespace)
    cluster.add(CLUSTER_ROLE_BINDINGS, binding)
    cluster.add(CLUSTER_ROLE_BINDINGS, "cluster-admin")
    for name in DEFINITIONS:
        plural, _, group = name.partition(".")
        spec = {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": plural.capitalize()},
            "versions": [{"name": "v0", "served": False}, {"name": "v1", "served": True}],
        }
        cluster.add(CUSTOM_RESOURCE_DEFINITIONS, name, labels={"component": "velero"}, spec=spec)
    cluster.add(CUSTOM_RESOURCE_DEFINITIONS, "others.example.com")


def left(cluster: ServedCluster) -> set[str]:
    return {name for _, _, name in cluster.objects}


@pytest.mark.parametrize(
    ("words", "namespace", "binding"), [([], "velero", "velero"), (["-n", "foo"], "foo", "velero-foo")]
)
def test_all_labelled_objects_are_deleted_and_others_stay(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, words: list[str], namespace: str, binding: str
) -> None:
    fill(cluster, namespace, binding)

    assert run(["uninstall", "--force", *words]) == 0

    assert left(cluster) == {"cluster-admin", "others.example.com"}
    assert capsys.readouterr().out == SUCCESS


def test_pods_of_the_namespace_are_deleted_at_once(cluster: ServedCluster) -> None:
    """They would otherwise end five seconds later, and the namespace would wait for them."""
    fill(cluster)
    cluster.add(PODS, "velero-1")
    cluster.add(PODS, "theirs", "elsewhere")

    assert run(["uninstall", "--force"]) == 0

    assert cluster.names(PODS) == ["theirs"]


def test_pods_that_may_not_be_deleted_are_left_to_the_namespace_controller(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    fill(cluster)
    cluster.add(PODS, "velero-1")
    cluster.refuse("delete", "pods", Forbidden(403, message="no rights"))

    assert run(["uninstall", "--force"]) == 0

    assert cluster.names(NAMESPACES) == []
    assert capsys.readouterr().out == SUCCESS


def test_missing_objects_are_skipped_with_a_notice(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    assert run(["uninstall", "--force", "--wait"]) == 0
    assert capsys.readouterr().out == (
        'Namespace "velero" does not exist, skipping.\n'
        'ClusterRoleBinding "velero" does not exist, skipping.\n'
        "V1Beta1 custom resource definitions not found, skipping...\n" + SUCCESS
    )


def test_definitions_of_v1beta1_are_deleted_where_v1_is_not_served(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    cluster.unserved = {("customresourcedefinitions", "v1")}
    fill(cluster)

    assert run(["uninstall", "--force"]) == 0

    assert capsys.readouterr().out == "V1 custom resource definitions not found, skipping...\n" + SUCCESS
    assert cluster.names(OLD_DEFINITIONS) == ["others.example.com"]


def test_nothing_is_deleted_until_the_question_is_answered_with_yes(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster)
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))

    assert run(["uninstall"]) == 0

    assert cluster.writes() == []
    assert capsys.readouterr().out == (
        "You are about to uninstall Pinnace: namespace velero with all that is in it, its access rights, and "
        "the custom resource definitions. All Backup, Restore and Schedule objects of the cluster go with "
        "these, those of a Velero server too. What the backup locations hold stays.\n"
        "Are you sure you want to continue (Y/N)? "
    )
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert run(["uninstall"]) == 0
    assert "velero" not in left(cluster)


def test_the_question_says_what_goes_with_the_definitions(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster)
    for name, namespace in (("a", "velero"), ("b", "velero-of-others")):
        cluster.add(velero("backups"), name, namespace)
    cluster.add(velero("schedules"), "nightly")
    cluster.refuse("list", "restores", Forbidden(403, message="no"))
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))

    assert run(["uninstall"]) == 0

    said = "To be deleted with them: 2 backups, 1 schedule in velero, velero-of-others; "
    assert f"{said}restores that could not be counted (no).\n" in capsys.readouterr().out
    assert cluster.writes() == []


class Ending:
    """A namespace that is there for some more looks at it."""

    def __init__(self, cluster: ServedCluster, looks: int) -> None:
        self._get, self._delete, self._stored = cluster.get, cluster.delete, cluster.stored
        self.looks = looks

    async def get(self, resource: Any, name: str, namespace: str | None = None) -> dict[str, Any]:
        if resource is NAMESPACES and self.looks == 0:
            raise NotFound(404, reason="NotFound", message=f'namespaces "{name}" not found')
        self.looks -= resource is NAMESPACES
        return await self._get(resource, name, namespace)

    async def delete(self, resource: Any, name: str, namespace: str | None = None) -> dict[str, Any]:
        if resource is not NAMESPACES:
            return await self._delete(resource, name, namespace)
        self._stored(NAMESPACES, name, None)["metadata"]["deletionTimestamp"] = "2021-08-11T21:43:26Z"
        return {}


async def test_only_finalizers_of_velero_and_self_service_are_removed(cluster: ServedCluster) -> None:
    fill(cluster)
    ours = ["restores.velero.io/external-resources-finalizer", "velero.io/x"]
    cluster.add(RESTORES, "r1", finalizers=[ours[0], "example.com/keep", "notvelero.io/keep", ours[1]])
    cluster.add(RESTORES, "r2")
    defined = defined_by(cluster.stored(CUSTOM_RESOURCE_DEFINITIONS, "restores.velero.io", None))
    assert defined is not None

    await release_objects(cast("KubeClient", cluster), defined)

    left_on = cluster.stored(RESTORES, "r1")["metadata"]["finalizers"]
    assert left_on == ["example.com/keep", "notvelero.io/keep"]
    assert [name for verb, _, name in cluster.writes() if verb == "patch"] == ["r1"]


def test_the_role_is_deleted_only_if_install_created_it(cluster: ServedCluster) -> None:
    fill(cluster, "foo", "velero-foo")
    cluster.add(CLUSTER_ROLES, "velero-foo", labels={"component": "velero"})
    cluster.add(CLUSTER_ROLES, "velero-bar", labels={"component": "velero"})
    cluster.add(CLUSTER_ROLES, "velero")

    assert run(["uninstall", "--force", "-n", "foo"]) == 0

    assert cluster.names(CLUSTER_ROLES) == ["velero-bar", "velero"]


@pytest.mark.found("E-F3")
@pytest.mark.parametrize("words", [[], ["--wait"]], ids=["by default", "--wait"])
@pytest.mark.parametrize("terminating", [False, True])
def test_uninstall_lasts_until_the_namespace_is_gone(
    capsys: pytest.CaptureFixture[str],
    cluster: ServedCluster,
    monkeypatch: pytest.MonkeyPatch,
    terminating: bool,
    words: list[str],
) -> None:
    fill(cluster, "foo", "velero-foo")
    if terminating:
        cluster.add(NAMESPACES, "foo", deletionTimestamp="2021-08-11T21:43:26Z")
    ending = Ending(cluster, looks=3)
    monkeypatch.setattr(cluster, "get", ending.get)
    monkeypatch.setattr(cluster, "delete", ending.delete)

    assert run(["uninstall", "--force", *words, "-n", "foo"]) == 0

    first = 'Namespace "foo" is terminating.\n' if terminating else ""
    # One look was for the deletion, two found it still there.
    assert capsys.readouterr().out == f"{first}{WAITING}..\n{SUCCESS}"


@pytest.mark.found("E-F3")
def test_without_waiting_the_text_says_that_it_is_not_over(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster)
    ending = Ending(cluster, looks=3)
    monkeypatch.setattr(cluster, "get", ending.get)
    monkeypatch.setattr(cluster, "delete", ending.delete)

    assert run(["uninstall", "--force", "--wait=false"]) == 0

    assert capsys.readouterr().out.startswith(
        "Pinnace is being uninstalled: namespace velero and the custom "
    )
    assert ending.looks == 2


@pytest.mark.found("E-F3")
def test_a_namespace_that_was_made_again_is_not_waited_for(
    cluster: ServedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster)
    delete = cluster.delete

    async def deleted_and_made_again(
        resource: Any, name: str, namespace: str | None = None
    ) -> dict[str, Any]:
        gone = await delete(resource, name, namespace)
        if resource is NAMESPACES:
            cluster.add(NAMESPACES, name)
        return gone

    monkeypatch.setattr(cluster, "delete", deleted_and_made_again)

    assert run(["uninstall", "--force"]) == 0
    assert cluster.names(NAMESPACES) == ["velero"]


def test_a_long_wait_prints_what_holds_the_namespace(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster)
    message = "Some content in the namespace has finalizers remaining: example.com/x in 1 resource instances"
    conditions = [
        {"type": "NamespaceContentRemaining", "status": "False", "message": "no"},
        {"type": "NamespaceFinalizersRemaining", "status": "True", "message": message},
    ]
    cluster.stored(NAMESPACES, "velero", None)["status"] = {"conditions": conditions}
    ending = Ending(cluster, looks=40)
    monkeypatch.setattr(cluster, "get", ending.get)
    monkeypatch.setattr(cluster, "delete", ending.delete)

    assert run(["uninstall", "--force", "--wait"]) == 0

    assert capsys.readouterr().err == f"{DOING}\nStill there: Namespace velero: {message}\n"


def test_every_step_runs_and_errors_are_reported_at_the_end(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    fill(cluster)
    for resource in ("namespaces", "clusterrolebindings"):
        message = f"you may not delete {resource}"
        cluster.refuse("delete", resource, Forbidden(403, reason="Forbidden", message=message))

    # With --wait, too: what could not be deleted would be waited for without end.
    assert run(["uninstall", "--force", "--wait"]) == 1

    errors = "[you may not delete namespaces, you may not delete clusterrolebindings]"
    assert capsys.readouterr() == (
        f'Errors while attempting to uninstall Pinnace: "{errors}"',
        f"{DOING}An error occurred: {errors}\n",
    )
    assert set(DEFINITIONS).isdisjoint(left(cluster))


@pytest.mark.parametrize("verb", ["list", "delete"])
def test_definitions_that_cannot_be_deleted_are_an_error_that_is_named_once(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, verb: str
) -> None:
    fill(cluster)
    key = (verb, "customresourcedefinitions")
    cluster.refuse(*key, Forbidden(403, reason="Forbidden", message="you may not"))

    assert run(["uninstall", "--force"]) == 1
    assert capsys.readouterr().err == f"{DOING}An error occurred: you may not\n"


def test_an_unreachable_cluster_is_one_error_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> dict[str, Any]:
        raise ConnectionFailed("connection refused")

    monkeypatch.setattr(cluster, "get", refused)
    assert run(["uninstall", "--force"]) == 1
    assert capsys.readouterr() == ("", f"{DOING}An error occurred: connection refused\n")
    assert cluster.writes() == []


def test_uninstall_with_a_location_is_refused(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    assert run(["--location", "./backups", "uninstall", "--force"]) == 2
    assert "`uninstall` works on a server in the cluster" in capsys.readouterr().err
