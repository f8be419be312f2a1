"""Objects that `--object` names are compared with what the cluster serves before a restore is asked for."""

import pytest

from pinnace.api.chosen_objects import parse_object
from pinnace.cli.common.served import check_namespaces_of
from pinnace.cli.errors import InvalidInput
from pinnace.kube.discovery import Discovery
from tests.unit.backup.fakes import discovery_of


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
