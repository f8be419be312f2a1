"""The commands on a bucket: plain, by https with an authority of its own, and when the store fails."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hack.cluster.faults import s3_error
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import NAMESPACES, SECRETS
from tests.support.runs.without_server import ENCODED_PASSWORD, MakePinnace, s3_environ, s3_url, stored

FILES = {
    *("b1-csi-volumesnapshotcontents.json.gz", "b1-csi-volumesnapshots.json.gz", "b1-logs.gz"),
    *("b1-podvolumebackups.json.gz", "b1-resource-list.json.gz", "b1-volumesnapshots.json.gz"),
    *("b1.tar.gz", "b1-pinnace-index.json.gz", "velero-backup.json", "b1-results.gz"),
}


@pytest.mark.spec("STO-001", "STO-011", "STO-041")
async def test_every_command_on_a_bucket(
    bucket: Bucket, pinnace_for: MakePinnace, world: str, client: KubeClient
) -> None:
    pinnace = pinnace_for(s3_url(bucket, prefix="/a//b/"), environ=s3_environ(bucket.server))
    pinnace.secrets += (bucket.server.credentials.secret_access_key, bucket.server.credentials.access_key_id)
    target = f"{world}-s3"

    created = await pinnace("backup", "create", "b1", "--include-namespaces", world)
    assert (created.code, created.told) == (0, "")
    assert created.lines[0] == f"Backing up to s3://{bucket.name}/a/b as b1."
    assert stored(bucket) == {f"a/b/backups/b1/{name}" for name in FILES}
    again = await pinnace("backup", "create", "b1")
    assert again.code == 2

    restored = await pinnace(
        *("restore", "create", "r1", "--from-backup", "b1", "--namespace-mappings", f"{world}:{target}")
    )
    assert restored.code == 0
    assert (await client.get(SECRETS, "password", target))["data"] == {"password": ENCODED_PASSWORD}
    assert {key for key in stored(bucket) if "restores" in key} == {
        f"a/b/restores/r1/{name}"
        for name in (
            "r1-volumeinfo.json.gz",
            "restore-r1-logs.gz",
            "restore-r1-pinnace-outcomes.json.gz",
            "restore-r1-resource-list.json.gz",
            "restore-r1-results.gz",
            "velero-restore.json",
        )
    }
    assert (await pinnace("restore", "get", "r1", "-o", "name")).code == 0
    assert json.loads((await pinnace("backup", "get", "-o", "json")).out)["metadata"]["name"] == "b1"
    assert "Resource List:" in (await pinnace("backup", "describe", "--details")).out
    assert 'msg="Listing items"' in (await pinnace("backup", "logs", "b1")).out
    assert (await pinnace("backup", "download", "b1", "-o", "here")).code == 0
    root = bucket.server.directory / "buckets" / bucket.name
    assert (pinnace.folder / "here").read_bytes() == (root / "a/b/backups/b1/b1.tar.gz").read_bytes()
    assert (await pinnace("backup", "delete", "b1", "--confirm")).code == 0
    assert stored(bucket) == set()
    await client.delete(NAMESPACES, target)


async def test_a_store_with_its_own_authority_is_used_by_tls(
    s3_tls: S3Server, pinnace_for: MakePinnace, world: str, namespace: str, tmp_path: Path
) -> None:
    bucket = s3_tls.create_bucket(f"tls-{namespace}")
    environ = s3_environ(s3_tls)
    other_authority = tmp_path / "other.pem"
    other_authority.write_bytes((s3_tls.ca_file or Path()).read_bytes())
    flags = ("backup", "create", "b1", "--include-namespaces", world, "--include-resources", "configmaps")

    trusting = pinnace_for(s3_url(bucket, caCertFile=str(s3_tls.ca_file)), environ=environ)
    assert (await trusting(*flags)).code == 0
    assert (await trusting("backup", "get", "-o", "name")).out == "backup.velero.io/b1\n"
    skipping = pinnace_for(s3_url(bucket, insecureSkipTLSVerify="true"), environ=environ)
    assert (await skipping("backup", "get", "-o", "name")).out == "backup.velero.io/b1\n"


async def test_an_unknown_authority_is_refused(
    s3_tls: S3Server, pinnace_for: MakePinnace, world: str, namespace: str, control_plane_ca: Path,
    tmp_path: Path,
) -> None:  # fmt: skip
    bucket = s3_tls.create_bucket(f"wrong-{namespace}")
    for parameters in ({}, {"caCertFile": str(control_plane_ca)}):
        pinnace = pinnace_for(s3_url(bucket, **parameters), environ=s3_environ(s3_tls))
        refused = await pinnace("backup", "create", "b1", "--include-namespaces", world)
        assert (refused.code, refused.out) == (1, ""), refused
        assert "certificate" in refused.err.lower()
    no_file = pinnace_for(s3_url(bucket, caCertFile=str(tmp_path / "none")), environ=s3_environ(s3_tls))
    assert (await no_file("backup", "get")).code == 2
    assert stored(bucket) == set()


async def test_a_store_that_refuses_the_upload_fails_the_backup(
    bucket: Bucket, pinnace_for: MakePinnace, world: str,
    fault_proxy: Callable[..., Awaitable[FaultProxy]],
) -> None:  # fmt: skip
    proxy = await fault_proxy(bucket.server)
    rule = proxy.rules.add(s3_error(403, "AccessDenied"), method="PUT|POST", path=r"\.tar\.gz$")
    pinnace = pinnace_for(s3_url(bucket, server_url=proxy.url), environ=s3_environ(bucket.server))

    outcome = await pinnace(
        *("backup", "create", "b1", "--include-namespaces", world, "--include-resources", "configmaps")
    )

    assert rule.hits
    assert outcome.code == 4
    assert outcome.lines[1].startswith("Backup b1 Failed: ")
    assert outcome.told.startswith("Reason: error uploading backup: ")
    assert stored(bucket) == {"backups/b1/b1-logs.gz"}
    assert (await pinnace("backup", "get")).out == ""
    proxy.rules.clear()
    assert (await pinnace("backup", "delete", "b1", "--confirm")).code == 0  # what is left of it can go
    assert stored(bucket) == set()


async def test_wrong_credentials_and_a_missing_bucket_are_reported(
    bucket: Bucket, pinnace_for: MakePinnace, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong-credentials"
    secret = "a-secret-key-that-nobody-may-read"
    wrong.write_text(
        f"[default]\naws_access_key_id = {bucket.server.credentials.access_key_id}\n"
        f"aws_secret_access_key = {secret}\n"
    )
    pinnace = pinnace_for(s3_url(bucket), environ={"AWS_SHARED_CREDENTIALS_FILE": str(wrong)})
    denied = await pinnace("backup", "get")
    assert (denied.code, denied.out) == (1, "")
    assert secret not in denied.err
    nowhere = Bucket("there-is-no-such-bucket", bucket.server)
    pinnace = pinnace_for(s3_url(nowhere), environ=s3_environ(bucket.server))
    missing = await pinnace("backup", "get")
    assert (missing.code, missing.out, missing.err.count("\n")) == (1, "", 1)
    unset = pinnace_for(s3_url(bucket), environ={})
    none = await unset("backup", "get")
    assert none.code in (1, 2)
    assert none.err.count("\n") == 1
