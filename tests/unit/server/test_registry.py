"""What follows from the line of a controller: its name can be disabled, and its rights are given."""

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pinnace.api.objects import JSONObject
from pinnace.controllers.registry import CONTROLLERS, NAMES, enabled
from pinnace.controllers.shared.parts import Informers, Parts
from pinnace.csi.snapshots import FEATURE
from pinnace.doctor.rights import BACKUP_VERBS, RESTORE_VERBS
from pinnace.installing.access import used_rights
from pinnace.kube import resources as all_kinds
from pinnace.kube.resources import BACKUPS, RESTORES, APIResource
from pinnace.nonadmin.caches import CACHED
from pinnace.nonadmin.manifests import NAME as NONADMIN_ROLE
from pinnace.nonadmin.manifests import resources
from pinnace.runtime.informer import Informer
from pinnace.server.options import ServerOptions
from tests.unit.controllers.fakes import NAMESPACE, World

CHART = Path("deploy/helm/pinnace/templates/access.yaml")
BASE = frozenset({"get", "list", "create", "patch"})
"""What every server may do with all objects."""


class Watched(Informers):
    """Notes which kinds are asked for."""

    def __init__(self, world: World) -> None:
        super().__init__(world.cluster.client, NAMESPACE, lambda informer: informer)
        self.kinds: set[APIResource] = set()

    def of(self, resource: APIResource) -> Informer:
        self.kinds.add(resource)
        return super().of(resource)


def rules_of(objects: Iterable[JSONObject]) -> list[JSONObject]:
    kinds = ("ClusterRole", "Role")
    return [rule for obj in objects if obj["kind"] in kinds for rule in obj["rules"] if "resources" in rule]


RULES = rules_of(used_rights(NAMESPACE, features=FEATURE, node_agent=True))


def allowed(verb: str, group_resource: str, rules: Iterable[JSONObject] = RULES) -> bool:
    plural, _, group = group_resource.partition(".")
    return any(
        verb in rule["verbs"]
        and {group, "*"} & set(rule["apiGroups"])
        and {plural, "*"} & set(rule["resources"])
        for rule in rules
    )


@pytest.mark.parametrize("name", sorted(NAMES))
def test_each_controller_can_be_disabled_by_its_name(name: str) -> None:
    left = {each.name for each in enabled({name}, leads=True)}

    assert NAMES - left == {name, *(each.name for each in CONTROLLERS if each.part_of == name)}


def test_what_only_a_leader_may_do_is_left_out_without_a_lease() -> None:
    assert NAMES - {each.name for each in enabled((), leads=False)} == {"foreign-runs"}


def test_the_account_with_few_rights_may_watch_and_delete_what_the_controllers_do(tmp_path: Path) -> None:
    world = World(tmp_path)
    watched = Watched(world)
    parts = Parts.of(world.scope, ServerOptions(namespace=NAMESPACE), watched)

    names = [each.make(parts).name for each in CONTROLLERS]

    assert names == [each.name for each in CONTROLLERS]
    assert {BACKUPS, RESTORES} < watched.kinds
    for kind in watched.kinds:
        assert allowed("list", kind.group_resource)
        assert allowed("watch", kind.group_resource), kind
    for each in CONTROLLERS:
        for deleted in each.deletes:
            assert allowed("delete", deleted), (each.name, deleted)


def test_the_lines_name_what_the_modules_of_controllers_delete() -> None:
    found = {
        kind.group_resource
        for path in Path("src/pinnace/controllers").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and "delete" in ast.unparse(call.func).rpartition(".")[2]
        for given in call.args
        if isinstance(given, ast.Name) and isinstance(kind := vars(all_kinds).get(given.id), APIResource)
    }

    assert len(found) > 6
    # A preparation moves the former kind of repositories.
    lines = {deleted for each in CONTROLLERS for deleted in each.deletes}
    assert found - lines == {all_kinds.RESTIC_REPOSITORIES.group_resource}


def test_no_kind_may_be_deleted_that_no_controller_deletes() -> None:
    given = {
        f"{plural}.{group}".rstrip(".")
        for rule in RULES
        if "delete" in rule["verbs"] and rule["resources"] != ["*"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }

    assert given <= {deleted for each in CONTROLLERS for deleted in each.deletes}


def test_the_chart_gives_the_same_rights() -> None:
    # Without its conditions, the template has the rules for all features.
    plain = [line for line in CHART.read_text().splitlines() if "{{" not in line]
    in_chart = rules_of(yaml.safe_load_all("\n".join(plain)))

    def shown(rules: Iterable[JSONObject]) -> set[Any]:
        return {tuple(tuple(sorted(rule[name])) for name in sorted(rule)) for rule in rules}

    assert shown(in_chart) == shown(RULES)


def test_the_doctor_asks_for_what_every_server_may_do() -> None:
    assert {*BACKUP_VERBS, *RESTORE_VERBS} == BASE
    assert all(allowed(verb, "anything.example.com") for verb in BASE)


def test_self_service_may_watch_its_caches_where_they_are() -> None:
    roles = {
        obj["kind"]: obj["rules"]
        for obj in resources(NAMESPACE)
        if obj["metadata"]["name"] == NONADMIN_ROLE and "rules" in obj
    }

    for cached in CACHED:
        rules = roles["ClusterRole" if cached.everywhere else "Role"]
        for verb in ("list", "watch"):
            assert allowed(verb, cached.resource.group_resource, rules), cached.resource
