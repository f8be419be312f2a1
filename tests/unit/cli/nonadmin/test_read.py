"""Downloads of tenants, who cannot see the server's namespace. (docs/spec: NAC 13)"""

from io import BytesIO

import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.cli.nonadmin.reading import TenantBackend
from pinnace.client import lease
from pinnace.client.errors import ClientError
from pinnace.client.interface import DownloadOptions, fetch
from tests.support.cluster.scripted_cluster import ScriptedCluster


async def test_a_tenant_is_not_told_to_look_for_a_server_in_its_own_namespace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lease, "FIRST_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(lease, "SHORT_LOOK_SECONDS", 0.0)
    backend = TenantBackend(ScriptedCluster().client, "shop")
    options = DownloadOptions(timeout_seconds=0.05)

    with pytest.raises(ClientError) as caught:
        await fetch(backend, DownloadTargetKind.BACKUP_LOG, "b", options, BytesIO())

    assert capsys.readouterr().err == ""
    assert str(caught.value) == (
        "timed out after 0.05s waiting for the log of b; can the server open the storage location "
        "(`pinnace nonadmin storage-location describe`)? Ask the administrator whether it is running."
    )


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (
            {"type": "NonAdminBackupStorageLocationNotUsed", "message": "recreate nadr to process"},
            "it is in the administrator's storage location, and tenants download nothing from there: ask the "
            "administrator for it. Logs can be read of backups into a storage location of your own "
            "(`pinnace nonadmin storage-location create --help`)",
        ),
        ({"type": "Other", "message": "cannot get nonadminbackup"}, "cannot get nonadminbackup"),
    ],
)
async def test_a_refused_download_says_why_and_what_to_do(condition: dict[str, str], text: str) -> None:
    def refuse(request: JSONObject) -> None:
        request["status"] = {"phase": "BackingOff", "conditions": [condition]}

    cluster = ScriptedCluster()
    cluster.on_create = refuse
    backend = TenantBackend(cluster.client, "shop")

    with pytest.raises(ClientError) as caught:
        await fetch(
            backend, DownloadTargetKind.BACKUP_LOG, "b", DownloadOptions(timeout_seconds=5.0), BytesIO()
        )

    assert str(caught.value) == f"the log of b cannot be downloaded: {text}"
