"""Claims that a restore creates and that stay Pending without their StorageClass."""

from pathlib import Path
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import Forbidden
from tests.unit.restore.preview.foreseeing import foreseer
from tests.unit.restore.world import Harness, claim, obj, volume

FAST = {"storageClassName": "fast"}
DATA = {"claimRef": {"namespace": "ns-1", "name": "data"}}
WARNING = (
    "persistentvolumeclaims/ns-1/data: its StorageClass fast does not exist: the claim stays Pending until"
    " the class is created"
)


def storage_class() -> JSONObject:
    return obj("StorageClass", "fast", api_version="storage.k8s.io/v1")


@pytest.mark.parametrize("is_dry_run", [False, True], ids=["restore", "dry run"])
async def test_a_claim_whose_class_is_missing_is_a_warning(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_dry_run: bool
) -> None:
    saved = claim("data", spec=FAST)

    if is_dry_run:
        results = (await foreseer(harness, tmp_path, monkeypatch)(saved)).results
    else:
        results = await harness.restore(saved)

    assert [str(each) for each in results.warnings.namespaces["ns-1"]] == [WARNING]


@pytest.mark.parametrize(
    ("items", "spec"),
    [
        ([storage_class()], FAST),
        ([], {}),
        ([], {"storageClassName": ""}),
        ([volume("free", spec=FAST)], FAST),
        ([volume("own", spec={**FAST, **DATA})], FAST),
    ],
    ids=["restored with it", "the default one", "none", "a free volume", "its volume"],
)
async def test_a_claim_that_can_be_bound_is_no_warning(
    harness: Harness, items: list[JSONObject], spec: dict[str, Any]
) -> None:
    results = await harness.restore(*items, claim("data", spec=spec))

    assert "ns-1" not in results.warnings.namespaces


async def test_a_class_that_may_not_be_read_and_a_claim_that_exists_are_no_warning(harness: Harness) -> None:
    harness.world.refuse("get", ("storageclasses.storage.k8s.io", "", "fast"), Forbidden(403, message="no"))
    assert "ns-1" not in (await harness.restore(claim("data", spec=FAST))).warnings.namespaces

    harness.world.relent()
    assert "ns-1" not in (await harness.restore(claim("data", spec=FAST))).warnings.namespaces
