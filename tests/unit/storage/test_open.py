"""Opening locations, and locations written as URLs."""

from pathlib import Path

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.storage_location import (
    BackupStorageLocation,
    BackupStorageLocationSpec,
    ObjectStorageLocation,
)
from pinnace.storage.errors import (
    InvalidLocation,
    ReadOnlyLocation,
    StorageError,
    StoreConfigError,
    StoreUnavailable,
)
from pinnace.storage.filesystem import FILESYSTEM_PROVIDER
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.location_url import location_from_url, location_title
from pinnace.storage.open import open_backup_store, open_object_store, store_config
from pinnace.storage.providers import qualified_provider
from pinnace.storage.s3.store import S3Store

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}


def location(
    *,
    provider: str = "aws",
    bucket: str = "bucket",
    prefix: str = "",
    ca_cert: bytes = b"",
    access_mode: str = "",
    **config: str,
) -> BackupStorageLocation:
    return BackupStorageLocation(
        metadata=ObjectMeta(name="default", namespace="velero"),
        spec=BackupStorageLocationSpec(
            provider=provider,
            config=config,
            access_mode=access_mode,
            object_storage=ObjectStorageLocation(bucket=bucket, prefix=prefix, ca_cert=ca_cert),
        ),
    )


@pytest.mark.spec("STO-003")
def test_the_configuration_of_a_store() -> None:
    assert store_config(location()) == {"bucket": "bucket", "prefix": ""}
    assert store_config(location(bucket="/bucket/", prefix="/prefix/")) == {
        "bucket": "bucket",
        "prefix": "prefix",
    }
    assert store_config(location(ca_cert=b"cacert-data"))["caCert"] == "cacert-data"
    assert store_config(location(), credentials_file=Path("/c"))["credentialsFile"] == "/c"


def test_a_location_stays_as_it_is_and_no_setting_of_restic_is_passed() -> None:
    given = location(bucket="real", region="r", prefix="p", resticRepoPrefix="s3:x")

    assert store_config(given) == {"bucket": "real", "prefix": "p", "region": "r"}
    assert given.spec.config == {"region": "r", "resticRepoPrefix": "s3:x"}


@pytest.mark.found("O28b")
@pytest.mark.parametrize(("key", "value"), [("prefix", "velero"), ("bucket", "users")])
def test_a_bucket_or_prefix_in_the_configuration_is_refused_unless_it_says_the_same(
    key: str, value: str
) -> None:
    given = location(provider="example.com/other", prefix="p")
    given.spec.config[key] = value
    with pytest.raises(
        StoreConfigError, match=rf"config\.{key} .* spec\.objectStorage\.{key}: move it there"
    ):
        store_config(given)

    same = location(bucket="users", prefix="velero/")
    same.spec.config[key] = f"/{value}/"
    assert store_config(same) == {"bucket": "users", "prefix": "velero"}


@pytest.mark.found("O28b")
@pytest.mark.parametrize("provider", ["aws", "gcp", "azure", FILESYSTEM_PROVIDER])
def test_the_valid_keys_of_a_provider_do_not_name_what_belongs_elsewhere(provider: str) -> None:
    with pytest.raises(StoreConfigError) as caught:
        open_object_store(provider, {"foo": "1", "bucket": "b", "prefix": ""})
    valid = str(caught.value).partition("valid keys are [")[2].split()
    assert valid
    assert not {"bucket", "prefix"} & set(valid)


@pytest.mark.found("L8")
@pytest.mark.spec("STO-002")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bucket": "invalid/bucket"}, "bucket name \"invalid/bucket\" must not contain a '/'"),
        ({"bucket": ""}, "backup storage location does not use object storage"),
        ({"provider": ""}, "object storage provider name must not be empty"),
        ({"bucket": "", "provider": ""}, "backup storage location does not use object storage"),
        ({"provider": "gone"}, "unable to locate ObjectStore plugin named velero.io/gone"),
        ({"provider": "filesystem"}, "named velero.io/filesystem; did you mean pinnace.io/filesystem?"),
        ({"provider": "azur"}, "named velero.io/azur; did you mean velero.io/azure?"),
        ({"ca_cert": b"\xff"}, "caCert is not a PEM certificate bundle"),
        ({"foo": "1"}, "config has invalid keys [foo]; valid keys are ["),
        ({"provider": FILESYSTEM_PROVIDER, "path": "relative"}, "must be an absolute path"),
        ({"provider": FILESYSTEM_PROVIDER, "path": "/x", "bucket": ".."}, "cannot be '..'"),
        ({"provider": FILESYSTEM_PROVIDER, "path": "/x", "region": "r"}, "config has invalid keys [region]"),
    ],
)
def test_locations_that_cannot_be_opened(changes: dict[str, str], message: str) -> None:
    with pytest.raises(StorageError) as caught:
        open_backup_store(location(**changes), environ=KEYS)  # type: ignore[arg-type]

    assert message in str(caught.value)


def test_providers() -> None:
    assert qualified_provider("aws") == "velero.io/aws"
    assert qualified_provider("example.com/x") == "example.com/x"
    assert isinstance(open_object_store("aws", {"bucket": "b", "region": "r"}, environ=KEYS), S3Store)
    assert isinstance(open_object_store("velero.io/aws", {"bucket": "b"}, environ=KEYS), S3Store)
    config = {"path": "/nowhere", "bucket": "b", "prefix": ""}
    store = open_object_store(FILESYSTEM_PROVIDER, config, create=True)
    assert isinstance(store, FilesystemStore)


async def test_a_directory_as_a_location(tmp_path: Path) -> None:
    given = location_from_url(f"{tmp_path}/backups")
    async with open_backup_store(given, create=True) as backups:
        assert await backups.list_backups() == []
        await backups.put_restore_results("r1", {})
        assert not backups.read_only

    files = await FilesystemStore(tmp_path).list_keys("")
    assert files == ["backups/restores/r1/restore-r1-results.gz"]


async def test_prefix_and_access_mode_are_kept(tmp_path: Path) -> None:
    given = location(provider=FILESYSTEM_PROVIDER, path=str(tmp_path), prefix="a//b", access_mode="ReadOnly")
    with pytest.raises(StoreUnavailable, match="mount it, or create it if the location is new"):
        open_backup_store(given)
    (tmp_path / "bucket").mkdir()
    async with open_backup_store(given) as backups:
        assert backups.read_only
        assert backups.object_key("BackupLog", "b1") == "a/b/backups/b1/b1-logs.gz"
        with pytest.raises(ReadOnlyLocation, match="location default is currently in read-only mode"):
            await backups.delete_backup("b1")
        await backups.put_restore_results("r1", {})


class TestURLs:
    @pytest.mark.parametrize(
        ("url", "directory"),
        [
            ("/mnt/backups", "/mnt/backups"),
            ("/mnt/backups/", "/mnt/backups"),
            ("file:///mnt/with%20space", "/mnt/with space"),
            ("file://localhost/mnt/b", "/mnt/b"),
            ("/mnt/a?b#c", "/mnt/a?b#c"),
        ],
    )
    def test_directories(self, url: str, directory: str) -> None:
        spec = location_from_url(url).spec

        assert spec.provider == FILESYSTEM_PROVIDER
        assert Path(spec.config["path"], spec.object_storage.bucket) == Path(directory)

    @pytest.mark.parametrize("url", ["./backups", "backups", "../x/backups"])
    def test_relative_directories_are_made_absolute(
        self, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "x").mkdir()
        monkeypatch.chdir(tmp_path / "x")
        spec = location_from_url(url).spec

        assert spec.config == {"path": str(tmp_path / "x")}
        assert spec.object_storage.bucket == "backups"

    def test_s3(self, tmp_path: Path) -> None:
        ca_file = tmp_path / "ca.pem"
        ca_file.write_bytes(b"pem")
        given = location_from_url(
            f"s3://bucket/a//b/?region=minio&s3Url=https%3A%2F%2Fh%3A9000&profile=p&caCertFile={ca_file}"
            "&credentialsFile=/c&s3ForcePathStyle=true",
            name="n",
        )

        assert given.metadata.name == "n"
        assert given.spec.provider == "velero.io/aws"
        assert given.spec.object_storage == ObjectStorageLocation(
            bucket="bucket", prefix="a/b", ca_cert=b"pem"
        )
        assert given.spec.config == {
            "region": "minio",
            "s3Url": "https://h:9000",
            "profile": "p",
            "credentialsFile": "/c",
            "s3ForcePathStyle": "true",
        }

    def test_s3_can_be_opened(self, tmp_path: Path) -> None:
        path = tmp_path / "credentials"
        path.write_text("[default]\naws_access_key_id=a\naws_secret_access_key=b\n")
        given = location_from_url(f"s3://bucket?region=x&credentialsFile={path}&resticRepoPrefix=s3:x")

        assert not open_backup_store(given, environ={}).read_only
        with pytest.raises(StoreConfigError, match="provided credentialsFile does not exist"):
            open_backup_store(location_from_url("s3://bucket?credentialsFile=/nowhere"), environ={})

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("", "must not be empty"),
            ("swift://bucket", "unknown scheme 'swift' in the location"),
            ("gs://", "a GCS URL names a bucket"),
            ("gs://bucket?region=x", r"unknown parameters \[region\] in the GCS URL"),
            ("azblob:///prefix", "an Azure URL names a container"),
            ("http://host/bucket", "unknown scheme 'http'"),
            ("s3://", "names a bucket"),
            ("s3:///prefix", "names a bucket"),
            (
                "s3://bucket?foo=1&region=x&bar=2",
                r"unknown parameters \[bar foo\] in the S3 URL; known are \[region",
            ),
            ("s3://bucket?region=a&region=b", "given twice"),
            ("s3://bucket?region", "must look like name=value"),
            ("s3://bucket/a#b", "no # part"),
            ("s3://bucket?caCertFile=/nowhere", "cannot read caCertFile '/nowhere': No such file"),
            ("file://host/x", "three slashes"),
            ("file:///x?region=y", r"unknown parameters \[region\] in the file URL"),
            ("/", "name a directory in it"),
        ],
    )
    def test_refused(self, url: str, message: str) -> None:
        with pytest.raises(InvalidLocation, match=message):
            location_from_url(url)

    @pytest.mark.parametrize(
        ("url", "provider", "config"),
        [
            ("gs://bucket/a/b?serviceAccount=x%40y", "velero.io/gcp", {"serviceAccount": "x@y"}),
            (
                "azblob://bucket/a/b?storageAccount=acc&storageAccountKeyEnvVar=KEY",
                "velero.io/azure",
                {"storageAccount": "acc", "storageAccountKeyEnvVar": "KEY"},
            ),
        ],
    )
    def test_other_clouds(self, url: str, provider: str, config: dict[str, str]) -> None:
        spec = location_from_url(url).spec

        assert (spec.provider, spec.config) == (provider, config)
        assert (spec.object_storage.bucket, spec.object_storage.prefix) == ("bucket", "a/b")

    def test_credentials_in_the_url_are_refused_and_not_repeated(self) -> None:
        with pytest.raises(InvalidLocation, match="must not contain credentials") as caught:
            location_from_url("s3://AKIA:hunter2@bucket/prefix")

        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "title"),
    [
        ("s3://b/a/b?region=r", "s3://b/a/b"),
        ("gs://b/a?serviceAccount=x@y", "gs://b/a"),
        ("azblob://c?storageAccount=acc&resourceGroup=g", "azblob://c"),
        ("/mnt/backups", "/mnt/backups"),
    ],
)
def test_a_location_is_shown_as_it_was_named(url: str, title: str) -> None:
    assert location_title(location_from_url(url)) == title
