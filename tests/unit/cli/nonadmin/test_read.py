"""Downloads of tenants, who cannot see the server's namespace. (docs/spec: NAC 13)"""

from io import BytesIO
from typing import Any, cast

import pytest

from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.cli.backend import lease
from pinnace.cli.backend.interface import DownloadOptions, fetch
from pinnace.cli.errors import CommandError
from pinnace.cli.nonadmin.read import TenantBackend
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import APIResource


class SilentCluster:
    """Keeps download requests and never answers them; has no Lease."""

    async def create(self, _resource: object, body: dict[str, Any], _namespace: str) -> dict[str, Any]:
        return body

    async def get(self, resource: APIResource, name: str, _namespace: str = "") -> dict[str, Any]:
        if resource.name == "leases":
            raise NotFound(404, reason="NotFound", message=f'leases "{name}" not found')
        return {}

    async def delete(self, *_: object) -> None:
        pass


async def test_a_tenant_is_not_told_to_look_for_a_server_in_its_own_namespace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lease, "FIRST_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(lease, "SECOND_LOOK_SECONDS", 0.0)
    backend = TenantBackend(cast("KubeClient", SilentCluster()), "shop")
    options = DownloadOptions(timeout_seconds=0.05)

    with pytest.raises(CommandError) as caught:
        await fetch(backend, DownloadTargetKind.BACKUP_LOG, "b", options, BytesIO())

    assert capsys.readouterr().err == ""
    assert str(caught.value) == (
        "timed out after 0.05s waiting for the log of b; can the server open the storage location "
        "(`pinnace nonadmin storage-location describe`)? Ask the administrator whether it is running. "
        "(--timeout gives it longer)"
    )
