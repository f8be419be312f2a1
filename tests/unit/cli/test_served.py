"""Objects that `--object` names are compared with what the cluster serves before a restore is asked for."""

import pytest

from pinnace.api.chosen_objects import parse_object
from pinnace.api.velero.backup import BackupSpec
from pinnace.cli.common.served import check_names, check_namespaces_of
from pinnace.cli.errors import InvalidInput
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import NAMESPACES
from tests.unit.backup.fakes import discovery_of, two_a_page


@pytest.fixture(autouse=True)
def _served(monkeypatch: pytest.MonkeyPatch) -> None:
    async def load(_client: object) -> Discovery:
        return discovery_of()

    monkeypatch.setattr(Discovery, "load", load)


@pytest.mark.found("op-33")
@pytest.mark.parametrize(
    ("word", "refusal"),
    [
        ("configmaps/prices", "write configmaps/NAMESPACE/prices"),
        ("persistentvolumes/shop/data", "is in no namespace: write persistentvolumes/data"),
        ("configmaps/shop/prices", ""),
        ("persistentvolumes/data", ""),
    ],
)
async def test_the_form_of_an_object_is_that_of_its_kind(word: str, refusal: str) -> None:
    problem = ""
    try:
        await check_namespaces_of(None, [parse_object(word)])  # type: ignore[arg-type]
    except InvalidInput as error:
        problem = str(error)
    assert problem.endswith(refusal)
    assert bool(problem) == bool(refusal)


@pytest.mark.found("op-33")
async def test_a_kind_that_the_cluster_lacks_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    await check_namespaces_of(None, [parse_object("configmapz/shop/prices")])  # type: ignore[arg-type]
    assert capsys.readouterr().err.startswith("WARNING: the cluster serves no resource 'configmapz'; did you")


@pytest.mark.found("op-29")
@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        (
            BackupSpec(excluded_resources=["scerets"]),
            "the cluster serves no resource 'scerets'; did you mean",
        ),
        (BackupSpec(included_namespaces=["sohp"]), "there is no namespace sohp; did you mean shop?"),
        (BackupSpec(included_namespaces=["shop", "sh*"], excluded_resources=["secrets", "x*"]), ""),
    ],
    ids=["excluded kind", "namespace", "none"],
)
async def test_names_that_select_nothing_are_warned_of_before_a_backup_is_asked_for(
    spec: BackupSpec, warning: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = two_a_page().add_all(NAMESPACES, "shop")

    await check_names(cluster, spec)  # type: ignore[arg-type]

    said = capsys.readouterr().err
    assert said.startswith(f"WARNING: {warning}") if warning else not said
