"""How a parallel run deals files out to its processes."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from tests.support.dealing import LONGEST, SHARING, in_order, share_of

ROOT = Path(__file__).parents[3]


@dataclass
class Test:
    """What the order of tests is decided by."""

    __test__ = False

    nodeid: str


def test_every_file_that_is_named_exists() -> None:
    files = [*LONGEST, *(file for _, files in SHARING for file in files)]

    assert [file for file in files if not (ROOT / file).is_file()] == []
    assert len(set(files)) == len(files)


def test_files_that_share_a_cluster_are_one_share_and_come_first_without_others_between() -> None:
    names = [
        "tests/e2e/test_server.py::test_a",
        "tests/integration/hooks/test_hooks_on_node.py::test_b[x::y]",
        f"{LONGEST[0]}::test_c",
        "tests/integration/hooks/test_other.py::test_d",
        "tests/integration/node_agent/test_csi.py::test_e",
        "tests/e2e/deployment/test_ledger.py::test_f",
    ]
    ordered = in_order([cast(pytest.Item, Test(name)) for name in names])

    assert [item.nodeid for item in ordered] == [names[i] for i in (4, 1, 5, 2, 0, 3)]
    assert share_of(names[1]) == share_of(names[5]) != share_of(names[4])
    assert share_of(names[3]) == "tests/integration/hooks/test_other.py"
