"""Where repositories are, by provider; and that no name leads elsewhere."""

import pytest

from pinnace.api.velero.storage_location import (
    BackupStorageLocation,
)
from pinnace.storage.errors import InvalidLocation, StorageError
from pinnace.volumes.restic.identifiers import (
    belongs_to,
    find_region,
    needs_region,
    repository_identifier,
    repository_name,
    without_credentials,
)
from pinnace.volumes.uploader.errors import IdentifierError
from tests.support.stores.restic_locations import location


@pytest.mark.spec(
    *("PVL-023", "PVL-024", "PVL-025", "PVL-026", "PVL-027"),
    *("STO-026", "STO-027", "STO-028", "STO-029", "STO-030", "STO-031", "STO-032"),
)
@pytest.mark.parametrize(
    ("given", "region", "identifier"),
    [
        (location("aws"), "", "s3:s3.amazonaws.com/bucket/prefix/restic/repo-1"),
        (location("aws", prefix=""), "us-west-2", "s3:s3-us-west-2.amazonaws.com/bucket/restic/repo-1"),
        (location("aws"), "us-west-2", "s3:s3-us-west-2.amazonaws.com/bucket/prefix/restic/repo-1"),
        (location("aws", s3Url="alternate-url"), "", "s3:alternate-url/bucket/prefix/restic/repo-1"),
        (
            location("aws", s3Url="alternate-url-with-trailing-slash/"),
            "",
            "s3:alternate-url-with-trailing-slash/bucket/prefix/restic/repo-1",
        ),
        (
            location("velero.io/aws", prefix="", s3Url="http://minio:9000"),
            "",
            "s3:http://minio:9000/bucket/restic/repo-1",
        ),
        (location("azure"), "", "azure:bucket:/prefix/restic/repo-1"),
        (location("gcp", bucket="bucket-2", prefix="prefix-2"), "", "gs:bucket-2:/prefix-2/restic/repo-1"),
        (
            location("unsupported-provider", resticRepoPrefix="custom:prefix:/restic"),
            "",
            "custom:prefix:/restic/repo-1",
        ),
        (location("aws", resticRepoPrefix="custom:prefix:/restic/"), "", "custom:prefix:/restic/repo-1"),
        (location("azure", bucket="/b/", prefix="/p/"), "", "azure:b:/p/restic/repo-1"),
        (
            location("pinnace.io/filesystem", path="/srv/backups"),
            "",
            "/srv/backups/bucket/prefix/restic/repo-1",
        ),
        (location("pinnace.io/filesystem", path="/srv", prefix=""), "", "/srv/bucket/restic/repo-1"),
    ],
)
def test_the_identifiers_of_each_provider(given: BackupStorageLocation, region: str, identifier: str) -> None:
    assert repository_identifier(given, "repo-1", bucket_region=region) == identifier


@pytest.mark.spec("PVL-027", "STO-031")
def test_an_unknown_provider_needs_a_prefix() -> None:
    with pytest.raises(IdentifierError) as caught:
        repository_identifier(location("unsupported-provider"), "repo-1")

    assert str(caught.value) == (
        "restic repository prefix (resticRepoPrefix) not specified in backup storage location's config"
    )


@pytest.mark.parametrize("namespace", ["", "..", "../other", "a/b", "A", "-a", "a\n"])
def test_a_namespace_that_leads_elsewhere_is_refused(namespace: str) -> None:
    with pytest.raises(IdentifierError, match="cannot be the namespace"):
        repository_identifier(location("azure"), namespace)


def test_a_folder_has_an_absolute_path() -> None:
    with pytest.raises(IdentifierError, match="absolute path"):
        repository_identifier(location("pinnace.io/filesystem", path="srv"), "repo-1")


def test_a_bucket_with_a_slash_inside_is_refused() -> None:
    with pytest.raises(InvalidLocation):
        repository_identifier(location("azure", bucket="a/b"), "repo-1")


@pytest.mark.parametrize(
    ("given", "needed"),
    [
        (location("aws", region="eu-central-1"), True),
        (location("velero.io/aws"), True),
        (location("aws", s3Url="http://minio"), False),
        (location("aws", resticRepoPrefix="x"), False),
        (location("gcp"), False),
    ],
)
def test_only_a_bucket_of_aws_itself_needs_a_region(given: BackupStorageLocation, needed: bool) -> None:
    assert needs_region(given) is needed


@pytest.mark.parametrize(
    ("config", "identifier", "is_its_own"),
    [
        ({}, "s3:s3.amazonaws.com/bucket/prefix/restic/shop", True),
        ({}, "s3:s3-eu-central-1.amazonaws.com/bucket/prefix/restic/shop", True),
        ({}, "s3:s3.cn-north-1.amazonaws.com.cn/bucket/prefix/restic/shop", True),
        ({}, "s3:s3.amazonaws.com/bucket/prefix/restic/bank", False),
        ({}, "s3:s3.amazonaws.com/bucket/prefix/restic/shop/../bank", False),
        ({}, "s3:s3.amazonaws.com.example.org/bucket/prefix/restic/shop", False),
        ({}, "s3:s3-x.example.org/s3.amazonaws.com/bucket/prefix/restic/shop", False),
        ({}, "s3:http://minio/bucket/prefix/restic/shop", False),
        ({}, "/s3.amazonaws.com/bucket/prefix/restic/shop", False),
        ({}, "", False),
        ({"s3Url": "http://minio"}, "s3:http://minio/bucket/prefix/restic/shop", True),
        ({"s3Url": "http://minio"}, "s3:s3.amazonaws.com/bucket/prefix/restic/shop", False),
    ],
)
def test_which_repository_belongs_to_a_namespace(
    config: dict[str, str], identifier: str, is_its_own: bool
) -> None:
    """A forged PodVolumeBackup may name any; of AWS's hosts the region may be any, too."""
    assert belongs_to(identifier, location("aws", **config), "shop") is is_its_own


@pytest.mark.parametrize(
    ("answer", "region"),
    [("eu-central-1", "eu-central-1"), (StorageError("no such bucket"), ""), (TimeoutError(), "")],
    ids=["known", "refused", "late"],
)
async def test_a_region_that_cannot_be_found_is_left_out(
    monkeypatch: pytest.MonkeyPatch, answer: str | Exception, region: str
) -> None:
    asked: list[str] = []

    async def find(bucket: str, *_: object, **__: object) -> str:
        asked.append(bucket)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("pinnace.storage.s3.requests.find_bucket_region", find)

    assert await find_region(location("aws")) == region
    assert asked == ["bucket"]
    assert await find_region(location("gcp")) == ""


@pytest.mark.spec("PVL-022")
@pytest.mark.parametrize(
    ("identifier", "name"),
    [("s3:s3.amazonaws.com/bucket/prefix/repo", "repo"), ("azure:bucket:/repo", "repo"), ("", "")],
)
def test_repository_names(identifier: str, name: str) -> None:
    assert repository_name(identifier) == name


def test_credentials_in_urls_are_made_unreadable() -> None:
    text = "rest:https://me:secret@host:8000/x and s3:http://minio:9000/b"

    assert without_credentials(text) == "rest:https://***@host:8000/x and s3:http://minio:9000/b"
