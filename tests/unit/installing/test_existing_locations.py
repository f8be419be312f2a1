"""A location that exists with other settings than those of `install`: it stays, which is said."""

from typing import Any, cast

import pytest

from pinnace.cli.install.report import Report
from pinnace.installing.outcomes import InstallOutcome
from pinnace.installing.sending import Installer
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists
from pinnace.kube.resources import APIResource

SPEC: dict[str, Any] = {"provider": "aws", "objectStorage": {"bucket": "b", "caCert": "c" * 300}}


def location(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "default", "namespace": "velero"}
    return {"kind": "BackupStorageLocation", "metadata": metadata, "spec": {**SPEC, **spec}}


class Cluster:
    """A cluster that has the location already, with a field that its API server set."""

    async def create(self, *_: object, **__: object) -> None:
        raise AlreadyExists(409, reason="AlreadyExists", message="there")

    async def get(self, _resource: APIResource, name: str, _namespace: str) -> dict[str, Any]:
        assert name == "default"
        return location(accessMode="ReadWrite")


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
    installer = Installer(cast("KubeClient", Cluster()), Report(0), merge=False)

    assert await installer._create(location(**asked)) is InstallOutcome.LEFT

    said = capsys.readouterr().err
    assert bool(said) == bool(told)
    assert told in said
