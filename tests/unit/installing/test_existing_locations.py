"""A location that exists with other settings than those of `install`: it stays, which is said."""

from typing import Any

import pytest

from pinnace.cli.install.report import Report
from pinnace.installing.outcomes import InstallOutcome
from pinnace.installing.sending import Installer
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS
from tests.support.cluster.scripted_cluster import ScriptedCluster

SPEC: dict[str, Any] = {"provider": "aws", "objectStorage": {"bucket": "b", "caCert": "c" * 300}}


def location(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "default", "namespace": "velero"}
    return {
        "apiVersion": "velero.io/v1",
        "kind": "BackupStorageLocation",
        "metadata": metadata,
        "spec": {**SPEC, **spec},
    }


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, ""),
        ({"provider": "gcp"}, "spec.provider (aws, not gcp);"),
        ({"config": {"region": "eu"}}, "spec.config.region (unset, not eu);"),
        ({"objectStorage": {"bucket": "b", "caCert": "d" * 300}}, "it is: spec.objectStorage.caCert;"),
    ],
    ids=["the same", "provider", "setting", "certificate"],
)
async def test_the_settings_that_are_not_those_of_the_flags_are_named(
    asked: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = ScriptedCluster()
    cluster.put(location(accessMode="ReadWrite"), BACKUP_STORAGE_LOCATIONS)  # the field is the API server's
    installer = Installer(cluster.client, Report(0), merge=False)

    assert await installer._create(location(**asked)) is InstallOutcome.LEFT

    said = capsys.readouterr().err
    assert bool(said) == bool(told)
    assert told in said
