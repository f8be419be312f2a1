"""How much a tenant's spec may ask for. (docs/spec: NAC 17 A32)"""

from typing import Any

import pytest

from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.nonadmin.specs.backup import StorageChoice, backup_problem
from pinnace.nonadmin.specs.restore import restore_problem

SERVER = "velero"
BACKUP = "NonAdminBackup spec.backupSpec"
RESTORE = "NonAdminRestore spec.restoreSpec"
LONG = [{"matchLabels": {f"k{number}": "v"}} for number in range(1000)]
HOOKS = [{"name": f"h{number}", "labelSelector": {"matchLabels": {"a": "b"}}} for number in range(101)]


def of_backup(spec: dict[str, Any]) -> str:
    request = {"metadata": {"name": "nightly", "namespace": "shop"}, "spec": {"backupSpec": spec}}
    return backup_problem(request, StorageChoice(), AdminSettings(), SERVER)


def of_restore(spec: dict[str, Any]) -> str:
    backup = {"metadata": {"name": "nightly", "namespace": "shop"}, "status": {"phase": "Created"}}
    request = {
        "metadata": {"name": "back", "namespace": "shop"},
        "spec": {"restoreSpec": {"backupName": "nightly", **spec}},
    }
    return restore_problem(request, backup, AdminSettings(), SERVER)


@pytest.mark.found("K-F3", "Z3")
@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"orLabelSelectors": LONG}, ".orLabelSelectors has 1000 entries, at most 100 are allowed"),
        (
            {"excludedResources": [f"r{number}" for number in range(20_000)]},
            " has 20000 values, at most 2000",
        ),
        (
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"] * 9000}]}},
            " has 9002 values, at most 2000 are allowed",
        ),
        ({"hooks": {"resources": HOOKS}}, ".hooks.resources has 101 entries, at most 100 are allowed"),
        (
            {"includedResources": ["{" + "a," * 3000 + "}"]},
            " has patterns of 6002 characters together, at most 4096 are allowed",
        ),
        ({"metadata": {"labels": {"a": "b" * 300_000}}}, " is larger than 262144 bytes"),
    ],
)
def test_a_spec_that_asks_for_too_much_is_refused(spec: dict[str, Any], problem: str) -> None:
    assert problem in of_backup(spec)
    assert of_backup(spec).startswith(BACKUP)
    assert problem in of_restore(spec).replace("9003", "9002").replace("20001", "20000")
    assert of_restore(spec).startswith(RESTORE)


@pytest.mark.found("Z3")
def test_an_order_of_too_many_objects_is_refused() -> None:
    names = ",".join(f"shop/p{number}" for number in range(2001))
    assert of_backup({"orderedResources": {"pods": names}}) == (
        f"{BACKUP}.orderedResources has 2001 objects, at most 2000 are allowed"
    )


@pytest.mark.found("Z3")
def test_a_spec_with_much_but_not_too_much_is_accepted() -> None:
    values = [f"v{number}" for number in range(500)]
    spec = {
        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": values}]},
        "excludedResources": [f"kind{number}.example.com" for number in range(300)],
        "hooks": {"resources": HOOKS[:100]},
        "orderedResources": {"pods": ",".join(f"shop/p{number}" for number in range(1000))},
    }
    assert of_backup(spec) == ""
    assert of_restore({"orLabelSelectors": LONG[:100], "excludedResources": ["{a,b}*"] * 600}) == ""
