"""A tenant's own location whose backups are encrypted, on a real S3 server. (docs/adr/124)"""

from io import BytesIO
from pathlib import Path

import pytest

from hack.cluster.stores.s3 import Bucket
from pinnace.age.identities import Identities
from pinnace.age.x25519 import X25519Identity
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.cli.nonadmin.reading import TenantBackend
from pinnace.client.interface import DownloadOptions, fetch
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS, SECRETS, APIResource
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_LOCATIONS, NON_ADMIN_RESTORES
from pinnace.storage.encryption import Encryption
from pinnace.storage.key_errors import IdentityMissing
from tests.integration.nonadmin.buckets import OwnBucket
from tests.support.servers.self_service import Serve, Server, Tenant
from tests.support.servers.sites import running as running_server

AGE = b"age-encryption.org/v1\n"
YUBIKEY = "age1yubikey1qwt50d05nh5vutpdzmlg5wn80xq5negm4uj9ghv0snvdd3yysf5yw3rhl3t"
ALICE = X25519Identity.generate()
ENDED = {"Completed", "PartiallyFailed", "Failed", "FailedValidation"}


async def ended(tenant: Tenant, resource: APIResource, name: str, member: str) -> JSONObject:
    def has_ended(obj: JSONObject) -> bool:
        status = ((obj.get("status") or {}).get(member) or {}).get("status") or {}
        return status.get("phase") in ENDED

    found = await tenant.until(resource, name, has_ended)
    return dict(found["status"][member]["status"])


def key_secret() -> JSONObject:
    data = {"key.txt": ALICE.secret_text()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "restore-key"}, "stringData": data}


async def restored(tenant: Tenant, name: str, secret: str) -> JSONObject:
    notes = {"pinnace.io/identity-secret": secret} if secret else {}
    spec = {"restoreSpec": {"backupName": "whole"}}
    await tenant.create(NON_ADMIN_RESTORES, name, spec, annotations=notes)
    return await ended(tenant, NON_ADMIN_RESTORES, name, "veleroRestore")


async def test_a_tenant_restores_by_a_secret_of_its_own_namespace_only(
    serve: Serve, server: Server, tenant: Tenant, bucket: Bucket, tmp_path: Path
) -> None:
    await serve(sync_period=Duration.seconds(1), velero_sync_period=Duration.seconds(0.5))
    own = OwnBucket(server, tenant, bucket)
    await own.create(**{"encryption.recipients": str(ALICE.recipient)})
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices"}, "data": {"tea": "3"}}
    await tenant.client.create(CONFIGMAPS, body, tenant.namespace)
    async with running_server(server.client, server.namespace, tmp_path, log_level="info"):
        await tenant.until(NON_ADMIN_LOCATIONS, "mine", lambda obj: "'Available'" in str(obj.get("status")))
        await tenant.back_up("whole", storageLocation="mine")
        assert (await ended(tenant, NON_ADMIN_BACKUPS, "whole", "veleroBackup"))["phase"] == "Completed"
        folder = bucket.server.directory / "buckets" / bucket.name
        sealed = [path.read_bytes().startswith(AGE) for path in folder.rglob("*.gz")]
        assert sealed
        assert all(sealed)

        # The log, by the tenant's own request.
        options = DownloadOptions(timeout_seconds=60)
        log = BytesIO()
        for identities in (None, Identities.parse(ALICE.secret_text().encode())):
            backend = TenantBackend(
                tenant.client,
                tenant.namespace,
                encryption=lambda given=identities: Encryption(identities=given),  # type: ignore[misc]
            )
            if identities is None:
                with pytest.raises(IdentityMissing, match="log of whole"):
                    await fetch(backend, DownloadTargetKind.BACKUP_LOG, "whole", options, log)
                assert log.getvalue() == b""
            else:
                await fetch(backend, DownloadTargetKind.BACKUP_LOG, "whole", options, log)
        assert b"level=info" in log.getvalue()

        # Secrets of the server's namespace are not the tenant's, whatever their names are.
        await server.client.create(SECRETS, key_secret(), server.namespace)
        await tenant.client.delete(CONFIGMAPS, "prices", tenant.namespace)
        for name, secret, text in (
            ("r1", "", "of the NonAdminRestore (`nonadmin restore create --identity-secret NAME`)"),
            ("r2", "restore-key", f"'restore-key', which is not in namespace {tenant.namespace}"),
        ):
            status = await restored(tenant, name, secret)
            assert status["phase"] in ("Failed", "FailedValidation")
            said = " ".join([status.get("failureReason", ""), *status.get("validationErrors", ())])
            assert text in said, status
        with pytest.raises(NotFound):
            await tenant.get(CONFIGMAPS, "prices")

        await tenant.client.create(SECRETS, key_secret(), tenant.namespace)
        status = await restored(tenant, "r3", "restore-key")
        assert status["phase"] == "Completed", status
        assert (await tenant.get(CONFIGMAPS, "prices"))["data"] == {"tea": "3"}
        assert all(path.read_bytes().startswith(AGE) for path in folder.rglob("*.gz"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"encryption.recipients": YUBIKEY}, "which is for locations of administrators"),
        ({"encryption.kms": "hashivault://main"}, "a tenant's location uses keys of its own cloud only"),
        ({"encryption.kms": "gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/k"}, "its own cloud only"),
    ],
)
async def test_plugins_and_rights_of_the_server_make_a_tenants_location_unavailable(
    serve: Serve,
    server: Server,
    tenant: Tenant,
    bucket: Bucket,
    tmp_path: Path,
    settings: dict[str, str],
    said: str,
) -> None:
    await serve(sync_period=Duration.seconds(1), velero_sync_period=Duration.seconds(0.5))
    own = OwnBucket(server, tenant, bucket)
    await own.create(**settings)
    async with running_server(server.client, server.namespace, tmp_path):
        found = await tenant.until(
            NON_ADMIN_LOCATIONS, "mine", lambda obj: "'Unavailable'" in str(obj.get("status"))
        )
    assert said in str(found["status"])
