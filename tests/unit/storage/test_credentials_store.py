"""Credentials as private files."""

import asyncio
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.velero.storage_location import (
    BackupStorageLocation,
    BackupStorageLocationSpec,
    ObjectStorageLocation,
    SecretKeySelector,
)
from pinnace.storage.credentials_store import (
    CredentialsStore,
    resolve_credentials,
    with_ca_cert,
)
from pinnace.storage.errors import StoreConfigError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "credentials"


@pytest.fixture
def store(root: Path) -> CredentialsStore:
    return CredentialsStore(root, "ns1")


def location(name: str, key: str) -> BackupStorageLocation:
    credential = SecretKeySelector(name=name, key=key)
    return BackupStorageLocation(spec=BackupStorageLocationSpec(provider="aws", credential=credential))


def secrets(**data: Mapping[str, bytes]) -> "Secrets":
    return Secrets(data)


class Secrets:
    """The Secrets of one namespace."""

    def __init__(self, data: dict[str, Mapping[str, bytes]]) -> None:
        self._data = data

    async def __call__(self, name: str) -> Mapping[str, bytes] | None:
        return self._data.get(name)


@pytest.mark.spec("STO-024")
async def test_the_file_of_a_selector(store: CredentialsStore, root: Path) -> None:
    read = secrets(credential={"key1": b"one", "key2": b"two, and longer\n"})
    path = await resolve_credentials(location("credential", "key2"), store, read, namespace="ns1")

    assert path == root / "ns1" / "credential-key2"
    assert path.read_bytes() == b"two, and longer\n"
    shorter = secrets(credential={"key2": b"new"})
    await resolve_credentials(location("credential", "key2"), store, shorter, namespace="ns1")
    assert path.read_bytes() == b"new"


@pytest.mark.spec("STO-024", "STO-003")
async def test_what_is_missing(store: CredentialsStore) -> None:
    with pytest.raises(StoreConfigError) as caught:
        await resolve_credentials(location("absent", "k"), store, secrets(), namespace="ns1")
    assert str(caught.value) == (
        "unable to get credentials: unable to get key for secret: "
        'Secret "absent" not found in namespace "ns1"'
    )

    with pytest.raises(StoreConfigError) as caught:
        await resolve_credentials(location("s", "k"), store, secrets(s={"other": b""}), namespace="ns1")
    assert str(caught.value) == (
        'unable to get credentials: unable to get key for secret: "s" secret is missing data for key "k"'
    )

    async def failing(name: str) -> None:
        raise StoreConfigError("secret does not exist")

    with pytest.raises(StoreConfigError, match=r"^unable to get credentials: .*secret does not exist$"):
        await resolve_credentials(location("s", "k"), store, failing, namespace="ns1")


@pytest.mark.spec("STO-025")
async def test_a_selector_without_a_name_is_none(store: CredentialsStore, root: Path) -> None:
    assert await resolve_credentials(location("", ""), store, secrets(), namespace="ns1") is None
    assert await resolve_credentials(BackupStorageLocation(), store, secrets(), namespace="ns1") is None
    assert not await asyncio.to_thread(root.exists)


async def test_files_are_private(store: CredentialsStore, root: Path) -> None:
    await asyncio.to_thread(root.mkdir, mode=0o755)
    old = os.umask(0)
    try:
        path = await store.save("s", "k", b"x")
    finally:
        os.umask(old)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {stat.S_IMODE(directory.stat().st_mode) for directory in (root, path.parent)} == {0o700}
    assert os.listdir(path.parent) == ["s-k"]


def test_two_secrets_never_share_a_file(store: CredentialsStore) -> None:
    paths = {store.path("a-b", "c"), store.path("a", "b-c"), store.path("a", "b"), store.path("a-b-c", "d")}

    assert len(paths) == 4


@pytest.mark.parametrize(
    ("name", "key"), [("..", "k"), ("a/b", "k"), ("a", "../k"), ("a", ""), ("a", ".."), ("", "k")]
)
def test_names_cannot_lead_elsewhere(store: CredentialsStore, name: str, key: str) -> None:
    with pytest.raises(StoreConfigError, match="cannot be part of the name"):
        store.path(name, key)


@pytest.fixture
def theirs(root: Path, tmp_path: Path) -> Path:
    """A directory of another user, to which the root is a link."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    root.symlink_to(theirs, target_is_directory=True)
    return theirs


async def test_a_directory_that_leads_elsewhere_is_refused(store: CredentialsStore, theirs: Path) -> None:
    with pytest.raises(StoreConfigError, match="belongs to another user"):
        await store.save("s", "k", b"x")

    assert os.listdir(theirs) == []


async def test_a_directory_that_cannot_be_made() -> None:
    store = CredentialsStore(Path(os.devnull), "ns1")
    with pytest.raises(StoreConfigError, match="unable to open credentials file for writing: "):
        await store.save("s", "k", b"x")


async def test_removal(store: CredentialsStore) -> None:
    path = await store.save("s", "k", b"x")
    await store.remove(path)
    await store.remove(path)

    assert not path.exists()


def trusting(**storage: Any) -> BackupStorageLocation:
    return BackupStorageLocation(
        spec=BackupStorageLocationSpec(object_storage=ObjectStorageLocation(bucket="b", **storage))
    )


async def test_the_ca_bundle_of_a_secret_takes_the_place_of_the_reference() -> None:
    given = trusting(ca_cert_ref=SecretKeySelector(name="ca", key="ca.crt"))

    found = await with_ca_cert(given, secrets(ca={"ca.crt": b"PEM"}), namespace="ns1")

    assert found.spec.object_storage == ObjectStorageLocation(bucket="b", ca_cert=b"PEM")
    assert given.spec.object_storage.ca_cert == b"", "the location as it was read is left alone"
    plain = trusting(ca_cert=b"own", ca_cert_ref=SecretKeySelector())
    assert await with_ca_cert(plain, secrets(), namespace="ns1") is plain


@pytest.mark.spec("BEY-067")
@pytest.mark.parametrize(
    ("storage", "problem"),
    [
        ({"ca_cert": b"PEM"}, "^cannot specify both caCert and caCertRef in objectStorage$"),
        ({}, 'caCertRef: .*Secret "ca" not found in namespace "ns1"'),
    ],
)
async def test_a_reference_to_no_secret_or_beside_a_bundle_is_refused(
    storage: dict[str, bytes], problem: str
) -> None:
    given = trusting(ca_cert_ref=SecretKeySelector(name="ca", key="ca.crt"), **storage)

    with pytest.raises(StoreConfigError, match=problem):
        await with_ca_cert(given, secrets(), namespace="ns1")
