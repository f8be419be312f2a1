"""Deleting what a backup has outside of its files: obstacles first, all parts alike."""

from collections.abc import Sequence
from typing import cast

import pytest

from pinnace.api.velero.storage_location import BackupStorageLocation, BackupStorageLocationSpec
from pinnace.catalogue.pod_volumes import pod_volumes
from pinnace.catalogue.volumes import SavedVolume
from pinnace.operations.deletion import DeleteOperation, summary
from pinnace.operations.local_deletion import LocationRepositories, find_password
from pinnace.storage.backup_store import BackupStore
from pinnace.volumes.uploader.errors import UploaderError


class Part:
    def __init__(self, name: str, calls: list[str]) -> None:
        self._name = name
        self._calls = calls

    async def obstacles(self) -> list[str]:
        self._calls.append(f"ask {self._name}")
        return [self._name]

    async def delete(self) -> list[str]:
        self._calls.append(f"delete {self._name}")
        return [f"{self._name} failed"]


async def test_all_parts_are_asked_and_deleted_in_their_order() -> None:
    calls: list[str] = []
    operation = DeleteOperation(Part("a", calls), Part("b", calls))

    assert await operation.obstacles() == ["a", "b"]
    assert calls == ["ask a", "ask b"]
    assert await operation.delete() == ["a failed", "b failed"]
    assert calls[2:] == ["delete a", "delete b"]


@pytest.mark.parametrize(
    ("count", "text"), [(0, ""), (2, "0, 1"), (10, ", ".join(map(str, range(10)))), (12, " and 2 more")]
)
def test_a_summary_names_ten_at_most(count: int, text: str) -> None:
    assert summary([str(number) for number in range(count)]).endswith(text)


def saved(*uploaders: str) -> Sequence[SavedVolume]:
    return list(
        pod_volumes(
            {
                "spec": {"uploaderType": uploader, "pod": {"namespace": "shop"}},
                "status": {"snapshotID": f"s{number}"},
            }
            for number, uploader in enumerate(uploaders)
        )
    )


def repositories(volumes: Sequence[SavedVolume], asked: list[str]) -> LocationRepositories:
    async def password() -> bytes:
        asked.append("password")
        raise UploaderError("the password is not known")

    location = BackupStorageLocation(spec=BackupStorageLocationSpec(provider="aws"))
    store = cast(BackupStore, None)  # nothing is looked for
    return LocationRepositories(location, store, volumes, password=password, warn=asked.append)


async def test_snapshots_of_another_uploader_are_obstacles_and_nothing_is_touched() -> None:
    asked: list[str] = []

    assert await repositories(saved("restic", "kopia", "other"), asked).obstacles() == ["other snapshot s2"]
    assert asked == []


async def test_without_a_password_the_snapshots_are_named_as_errors() -> None:
    (error,) = await repositories(saved("restic", "other", "kopia"), []).delete()

    assert error == "restic snapshot s0, kopia snapshot s2 cannot be forgotten: the password is not known"


async def test_no_password_is_asked_for_without_snapshots_of_ours() -> None:
    asked: list[str] = []

    assert await repositories(saved("other"), asked).delete() == []
    assert asked == []


async def test_the_password_is_looked_for_in_file_environment_and_cluster(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, named = (tmp_path_factory.mktemp("p") / "password" for _ in range(2))
    given.write_text("of the option\n")
    named.write_text("of the variable\n")
    monkeypatch.setenv("RESTIC_PASSWORD_FILE", str(named))
    monkeypatch.setenv("RESTIC_PASSWORD", "in the variable")

    assert await find_password(str(given), None, "velero") == b"of the option"
    assert await find_password("", None, "velero") == b"of the variable"
    monkeypatch.delenv("RESTIC_PASSWORD_FILE")
    assert await find_password("", None, "velero") == b"in the variable"
    monkeypatch.delenv("RESTIC_PASSWORD")
    with pytest.raises(UploaderError, match="give --restic-password-file"):
        await find_password("", None, "velero")
