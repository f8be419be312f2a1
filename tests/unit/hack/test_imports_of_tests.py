"""The check that test modules do not import from each other."""

from pathlib import Path

import pytest

from hack.checks.imports_of_tests import problems


@pytest.mark.parametrize(
    "line",
    [
        "from tests.conftest import Connect",
        "from tests.unit.kube.test_client import served",
        "import tests.e2e.conftest",
        "    from tests.e2e import conftest",
    ],
)
def test_an_import_from_a_test_is_found(tmp_path: Path, line: str) -> None:
    text = f"if True:\n{line}\n" if line.startswith(" ") else f"\n{line}\n"
    (tmp_path / "test_x.py").write_text(text)

    assert [each.split(" ", 1)[0] for each in problems(tmp_path)] == [f"{tmp_path}/test_x.py:2:"]


def test_importing_from_support_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text("from tests.support.clock import FakeClock\nimport tests.support\n")

    assert problems(tmp_path) == []
