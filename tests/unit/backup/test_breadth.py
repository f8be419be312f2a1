"""Many named namespaces: one list of the whole cluster where that costs less."""

from pathlib import Path
from typing import Any

import pytest

from pinnace.api.nonadmin.names import Origin
from pinnace.backup.breadth import FEW, is_cheaper
from pinnace.kube.errors import status_error
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, PODS
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.backup.fakes import a_backup, counted_ahead, run_backup

NAMED = [f"ns{number}" for number in range(FEW + 1)]
FORBIDDEN = status_error(403, {"kind": "Status", "message": "forbidden"})


def cluster(objects: int = 2) -> ScriptedCluster:
    """So many ConfigMaps and Pods in each of the named namespaces and in another one."""
    made = ScriptedCluster(page_size=50)
    for namespace in (*NAMED, "other"):
        made.add_all(NAMESPACES, namespace)
        made.add_all(CONFIGMAPS, *(f"{namespace}/c{number}" for number in range(objects)))
        made.add_all(PODS, f"{namespace}/p")
    return made


def lists(made: ScriptedCluster, kind: str) -> list[str]:
    return [call[2] for call in made.placed_calls if call[:2] == ("list", kind)]


def backup(**changes: Any) -> Any:
    return a_backup(
        included_namespaces=NAMED, included_resources=["configmaps", "pods", "namespaces"], **changes
    )


EXPECTED = sorted(
    [f"configmaps/{namespace}/c{number}" for namespace in NAMED for number in range(2)]
    + [f"pods/{namespace}/p" for namespace in NAMED]
    + [f"namespaces/{namespace}" for namespace in NAMED]
)


@pytest.mark.parametrize(
    ("total", "namespaces", "expected"),
    [(0, 5, True), (500, 5, True), (501, 5, False), (20_000, 40, False), (4_000, 40, True), (None, 5, False)],
)
def test_a_list_of_all_is_read_where_it_costs_less(
    total: int | None, namespaces: int, expected: bool
) -> None:
    assert is_cheaper(total, namespaces) is expected


@pytest.mark.found("row 97")
@pytest.mark.spec("AFT-171")
@pytest.mark.parametrize(
    ("included", "excluded"),
    [(NAMED, []), (["*"], ["other"]), ([], ["other"]), (["*"], ["oth*"])],
    ids=["named", "all but one", "empty but one", "all but a pattern"],
)
async def test_many_namespaces_are_one_list_without_the_objects_of_others(
    tmp_path: Path, included: list[str], excluded: list[str]
) -> None:
    made = cluster()
    of_these = a_backup(
        included_namespaces=included,
        excluded_namespaces=excluded,
        included_resources=["configmaps", "pods", "namespaces"],
    )
    outcome = await run_backup(tmp_path, made, of_these)

    assert (lists(made, "configmaps"), lists(made, "pods")) == ([""], [""])
    assert sorted(outcome.items) == EXPECTED
    assert outcome.errors == outcome.warnings == 0


async def test_a_kind_with_many_objects_is_listed_by_namespace(tmp_path: Path) -> None:
    made = cluster(objects=101)
    await run_backup(tmp_path, made, backup())

    assert (lists(made, "configmaps"), lists(made, "pods")) == (NAMED, [""])


async def test_few_namespaces_are_not_worth_a_question(tmp_path: Path) -> None:
    made = cluster()
    await run_backup(
        tmp_path, made, a_backup(included_namespaces=NAMED[:FEW], included_resources=["configmaps"])
    )

    assert lists(made, "configmaps") == NAMED[:FEW]
    assert counted_ahead(made) == []


@pytest.mark.parametrize("refused", ["the count", "the list"])
async def test_a_user_without_rights_to_all_gets_the_lists_of_the_namespaces(
    tmp_path: Path, refused: str
) -> None:
    made = cluster()
    if refused == "the count":
        made.refuse("count", "configmaps", FORBIDDEN)
    else:

        def check(verb: str, plural: str, _: str) -> None:
            if (verb, plural) == ("list", "configmaps") and not made.requests[-1].namespace:
                raise FORBIDDEN

        made.before = check
    outcome = await run_backup(tmp_path, made, backup())

    assert [each for each in lists(made, "configmaps") if each] == NAMED
    assert sorted(outcome.items) == EXPECTED
    assert outcome.errors == 0


async def test_a_list_of_all_that_breaks_off_is_replaced_and_nothing_is_there_twice(tmp_path: Path) -> None:
    made = cluster()
    made.page_size = 3

    def check(verb: str, plural: str, _: str) -> None:
        if (verb, plural) == ("page", "configmaps") and not lists(made, "configmaps")[1:]:
            raise status_error(500, {"message": "etcd is gone"})

    made.before = check
    outcome = await run_backup(tmp_path, made, backup())

    assert lists(made, "configmaps") == ["", *NAMED]
    assert sorted(outcome.items) == EXPECTED
    assert outcome.errors == 0


async def test_the_backup_of_a_tenant_reads_no_namespace_of_others(tmp_path: Path) -> None:
    made = cluster()
    of_tenant = backup()
    of_tenant.metadata.annotations = {Origin.BACKUP.namespace_annotation: NAMED[0]}

    outcome = await run_backup(tmp_path, made, of_tenant)

    assert (lists(made, "configmaps"), counted_ahead(made)) == (NAMED, [])
    assert sorted(outcome.items) == EXPECTED


async def test_a_namespace_that_appears_later_is_not_half_in_the_backup(tmp_path: Path) -> None:
    """A pattern stands for the namespaces that were there when the backup began."""
    made = cluster()

    def check(verb: str, plural: str, _: str) -> None:
        if (verb, plural) == ("list", "configmaps"):
            made.add_all(CONFIGMAPS, "ns-late/c")

    made.before = check
    outcome = await run_backup(
        tmp_path, made, a_backup(included_namespaces=["ns*"], included_resources=["configmaps", "namespaces"])
    )

    assert lists(made, "configmaps") == [""]
    assert not [item for item in outcome.items if "late" in item]
