"""The steps of the Secrets while the password of repositories is changed, and where a change continues."""

import base64
from collections.abc import Mapping

import pytest

from pinnace.operations.changing_password import PasswordRefused, StoredPasswords, check_new
from pinnace.volumes.uploader.errors import PasswordMissing
from pinnace.volumes.uploader.passwords import LEGACY_FIRST
from tests.support.cluster.scripted_cluster import ScriptedCluster

OLD, NEW, OTHER = b"the old one", b"the new one", b"another one"
CURRENT, NEXT, FORMER = "repository-password", "next-repository-password", "former-repository-password"


def made() -> bytes:
    return b"made at random"


def with_secrets(*secrets: Mapping[str, bytes]) -> ScriptedCluster:
    cluster = ScriptedCluster()
    for name, data in zip(LEGACY_FIRST, secrets, strict=False):
        cluster.add(
            "secrets", name, data={key: base64.b64encode(each).decode() for key, each in data.items()}
        )
    return cluster


def stored(cluster: ScriptedCluster) -> StoredPasswords:
    return StoredPasswords(cluster.client, "velero", LEGACY_FIRST)


def content(cluster: ScriptedCluster) -> list[dict[str, bytes]]:
    return [
        {key: base64.b64decode(each) for key, each in secret["data"].items()}
        for secret in cluster.of("secrets")
    ]


@pytest.mark.parametrize(
    ("secrets", "given", "expected"),
    [
        ([{CURRENT: OLD}], None, made()),
        ([{CURRENT: OLD}], NEW, NEW),
        ([{CURRENT: OLD, NEXT: NEW}, {CURRENT: OLD}], None, NEW),
        ([{CURRENT: NEW, FORMER: OLD}, {CURRENT: OLD, NEXT: NEW}], NEW, NEW),
        ([{CURRENT: NEW, FORMER: OLD}, {CURRENT: NEW}], None, NEW),
    ],
    ids=["random", "given", "staged", "half switched", "not finished"],
)
async def test_a_change_leads_to_the_password_that_it_began_with(
    secrets: list[dict[str, bytes]], given: bytes | None, expected: bytes
) -> None:
    assert await stored(with_secrets(*secrets)).new(given, made) == expected


@pytest.mark.parametrize(
    ("secrets", "said"),
    [
        ([{CURRENT: OLD, NEXT: NEW}], "a change to another password is not complete"),
        ([{CURRENT: NEW, FORMER: OLD}], "a change to another password is not complete"),
        ([{CURRENT: OLD, NEXT: NEW}, {CURRENT: OLD, NEXT: OTHER}], "two different new passwords"),
    ],
)
async def test_another_password_waits_for_the_end_of_the_change(
    secrets: list[dict[str, bytes]], said: str
) -> None:
    cluster = with_secrets(*secrets)
    with pytest.raises(PasswordRefused, match=said):
        await stored(cluster).new(b"a third one", made)
    assert not cluster.writes()


async def test_without_a_password_there_is_nothing_to_change() -> None:
    with pytest.raises(PasswordMissing):
        await stored(with_secrets()).new(None, made)


@pytest.mark.parametrize(
    "before",
    [
        [{CURRENT: OLD}, {CURRENT: OLD}],
        [{CURRENT: OLD}, {CURRENT: OTHER}],
        [{CURRENT: OLD, NEXT: NEW}, {CURRENT: OLD}],
        [{CURRENT: NEW, FORMER: OLD}, {CURRENT: OLD, NEXT: NEW}],
        [{CURRENT: NEW}, {CURRENT: NEW, FORMER: OLD}],
    ],
)
async def test_no_step_loses_a_password_and_each_can_be_repeated(before: list[dict[str, bytes]]) -> None:
    cluster = with_secrets(*before)
    passwords = stored(cluster)
    former = {each[CURRENT] for each in before} - {NEW}
    for step in (passwords.stage, passwords.switch):
        for _ in range(2):
            await step(NEW)
            known = set(await passwords.known())
            assert known >= {NEW, *former}
    for _ in range(2):
        await passwords.finish()
    assert content(cluster) == [{CURRENT: NEW}, {CURRENT: NEW}]


@pytest.mark.parametrize(
    ("password", "said"),
    [
        (b"static-passw0rd\n", "everybody knows"),
        (b"short", "8 printable"),
        (b"two lines\nof text", "in one line"),
        (b"\xff" * 10, "not UTF-8"),
    ],
)
def test_a_password_that_cannot_be_used_is_refused(password: bytes, said: str) -> None:
    with pytest.raises(PasswordRefused, match=said):
        check_new(password)
    assert check_new(b" as it is \n") == b"as it is"
