"""Namespaces of `--namespace-mappings` that the backup does not have, told before anything is created."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pinnace.cli.errors import InvalidInput
from pinnace.cli.restore.mapped import check_mapping
from pinnace.client.errors import ServerAbsent

NAMES = {"v1/Namespace": ["empty"], "v1/ConfigMap": ["shop/prices", "bank/ledger"], "v1/Node": ["n"]}


class Files:
    """A backend with the resource list of one backup, or without a server that would get it."""

    def __init__(self, names: dict[str, list[str]] | None) -> None:
        self._names = names

    @asynccontextmanager
    async def stored_file(self, *_: object) -> AsyncIterator[AsyncIterator[bytes]]:
        if self._names is None:
            raise ServerAbsent("no server runs")

        async def chunks(content: bytes) -> AsyncIterator[bytes]:
            yield content

        yield chunks(json.dumps(self._names).encode())


async def check(mapping: dict[str, str], names: dict[str, list[str]] | None = NAMES) -> None:
    backend: Any = Files(names)
    await check_mapping(backend, "nightly", mapping)


async def test_a_misspelt_namespace_is_refused() -> None:
    with pytest.raises(InvalidInput, match="has no object of namespace shpo; did you mean shop"):
        await check({"bank": "b", "shpo": "shop-copy"})


async def test_another_namespace_that_is_missing_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    # `shops` is as similar, but `shop` has a new name already.
    await check({"staging": "copy", "shop": "x", "shops": "y"})

    shown = capsys.readouterr().err.splitlines()
    assert [line.partition(": backup")[0] for line in shown] == [
        "WARNING: --namespace-mappings shops:y",
        "WARNING: --namespace-mappings staging:copy",
    ]
    assert shown[1].endswith("no object of namespace staging; it has those of bank, empty, shop")


@pytest.mark.parametrize(
    "names", [NAMES, None, {"v1/Node": ["n"], "bad": [1]}], ids=["known", "absent", "bad"]
)
async def test_nothing_is_said_of_what_is_there_or_unknown(
    names: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    await check({"shop": "shop-copy", "empty": "full"}, names)
    assert capsys.readouterr().err == ""
