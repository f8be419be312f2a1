"""The settings of maintenance Jobs: each has an effect, or is refused by its name."""

import json
from typing import Any

import pytest

from pinnace.api.maintenance_config import (
    KEEP,
    MaintenanceConfig,
    check_maintenance_config,
    read_maintenance_config,
    repository_key,
)
from pinnace.api.meta import LabelSelector

OWN = repository_key("shop", "default", "kopia")
BLUE, GREEN = ({"nodeSelector": {"matchLabels": {"pool": name}}} for name in ("blue", "green"))


def read(**keys: dict[str, Any]) -> MaintenanceConfig:
    data = {key.replace("own", OWN): json.dumps(value) for key, value in keys.items()}
    return read_maintenance_config(data, OWN)


def test_without_settings_a_job_has_the_defaults() -> None:
    assert read_maintenance_config({}, OWN) == MaintenanceConfig(keep=KEEP)
    assert KEEP == 3
    assert OWN == "shop-default-kopia"


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"loadAffinity": [BLUE]}, {"nodes": LabelSelector(match_labels={"pool": "blue"})}),
        ({"keepLatestMaintenanceJobs": 0}, {"keep": 0}),
        (
            {"podResources": {"cpuRequest": "100m", "memoryLimit": "1Gi", "cpuLimit": "0"}},
            {"resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}},
        ),
        (
            {"podResources": {"ephemeralStorageRequest": "1Gi", "ephemeralStorageLimit": "2Gi"}},
            {
                "resources": {
                    "requests": {"ephemeral-storage": "1Gi"},
                    "limits": {"ephemeral-storage": "2Gi"},
                }
            },
        ),
    ],
    ids=["affinity", "keep", "resources", "ephemeral storage"],
)
@pytest.mark.parametrize("key", ["global", "own"])
def test_a_setting_counts_for_all_repositories_or_for_one(
    key: str, settings: dict[str, Any], found: dict[str, Any]
) -> None:
    assert read(**{key: settings}) == MaintenanceConfig(**found)


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"priorityClassName": "low"}, {"priority_class": "low"}),
        ({"podAnnotations": {"a": "b"}}, {"annotations": {"a": "b"}}),
        ({"podLabels": {"team": "blue"}}, {"labels": {"team": "blue"}}),
    ],
)
def test_some_settings_are_for_all_repositories_only(settings: dict[str, Any], found: dict[str, Any]) -> None:
    assert read(**{"global": settings}) == MaintenanceConfig(**found)
    (name,) = settings
    with pytest.raises(
        ValueError, match=f"^{OWN}: {name} has no effect here: only the key global may have it"
    ):
        read(own=settings)


def test_what_a_repository_has_counts_more_and_the_rest_stays() -> None:
    found = read(
        **{
            "global": {
                "loadAffinity": [BLUE],
                "keepLatestMaintenanceJobs": 1,
                "podResources": {"cpuRequest": "1"},
                "priorityClassName": "low",
            }
        },
        own={"loadAffinity": [GREEN], "keepLatestMaintenanceJobs": 2},
    )

    assert found == MaintenanceConfig(
        nodes=LabelSelector(match_labels={"pool": "green"}),
        keep=2,
        resources={"requests": {"cpu": "1"}},
        priority_class="low",
    )


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"podResource": {}}, "unknown field `podResource`"),
        ({"podResources": {"gpuRequest": "1"}}, "unknown field `gpuRequest`"),
        ({"podResources": {"cpuRequest": "much"}}, 'couldn\'t parse CPU request "much"'),
        ({"podResources": {"memoryRequest": "2Gi", "memoryLimit": "1Gi"}}, "must be less than or equal"),
        (
            {"podResources": {"ephemeralStorageRequest": "2Gi", "ephemeralStorageLimit": "1Gi"}},
            "ephemeral storage request",
        ),
        ({"loadAffinity": [BLUE, GREEN]}, "loadAffinity must have one element"),
        ({"loadAffinity": [{**BLUE, "storageClass": "fast"}]}, "unknown field `storageClass`"),
        (
            {"loadAffinity": [{"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}]},
            "Near",
        ),
        ({"keepLatestMaintenanceJobs": -1}, "keepLatestMaintenanceJobs must be a number from 0"),
        ({"keepLatestMaintenanceJobs": "2"}, "keepLatestMaintenanceJobs"),
        ({"podLabels": {"velero.io/repo-name": "x"}}, "velero.io/repo-name has no effect"),
        ({"podLabels": {"batch.kubernetes.io/job-name": "x"}}, "batch.kubernetes.io/job-name has no effect"),
    ],
)
def test_what_cannot_be_done_is_refused_by_its_name(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        read(**{"global": settings})

    assert str(refused.value).startswith("global: ")


def test_all_keys_are_checked_at_once() -> None:
    with pytest.raises(ValueError, match=r"^bank-default-restic: "):
        check_maintenance_config({"global": "{}", "bank-default-restic": "{"})
