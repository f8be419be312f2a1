# ruff: noqa: ASYNC240 - the files are tiny, and nothing else runs in the loop
"""Token files: rotation, failures, and what a 401 does."""

from pathlib import Path

import pytest

from pinnace.kube.errors import ConfigError, Unauthorized
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.credentials import StaticAuth, TokenFileAuth, basic, bearer
from tests.support.clock import FakeClock
from tests.unit.kube.scripted import ScriptedServer, Sleeps, answer_json, answer_status, connected

CALL = "GET /version"
VERSION = {"gitVersion": "v1.33.4"}


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


async def test_a_token_file_is_read_again_after_a_minute(token_file: Path, clock: FakeClock) -> None:
    auth = TokenFileAuth(token_file, clock=clock)
    assert await auth.credentials() == bearer("first")
    token_file.write_text("second")
    clock.turn(59)
    assert await auth.credentials() == bearer("first")
    clock.turn(1)
    assert await auth.credentials() == bearer("second")


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe"])
async def test_the_last_good_token_outlives_a_bad_file(
    token_file: Path, clock: FakeClock, content: bytes | None
) -> None:
    auth = TokenFileAuth(token_file, clock=clock)
    await auth.credentials()
    token_file.unlink()
    if content is not None:
        token_file.write_bytes(content)
    clock.turn(60)
    assert await auth.credentials() == bearer("first")
    token_file.write_text("third")
    clock.turn(60)
    assert await auth.credentials() == bearer("third")


async def test_a_file_that_never_had_a_token_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(ConfigError, match=f"{path}: cannot read the token: No such file"):
        await TokenFileAuth(path).credentials()
    path.write_text(" \n")
    with pytest.raises(ConfigError, match=f"{path}: holds no token"):
        await TokenFileAuth(path).credentials()
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8 text"):
        await TokenFileAuth(path).credentials()


async def test_a_fallback_token_serves_until_the_file_is_there(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "token"
    auth = TokenFileAuth(path, fallback="inline", clock=clock)
    assert await auth.credentials() == bearer("inline")
    path.write_text("from file")
    clock.turn(60)
    assert await auth.credentials() == bearer("from file")


async def test_a_401_reads_the_file_at_once(server: ScriptedServer, token_file: Path) -> None:
    server.on(CALL, answer_json(VERSION), answer_status(401, "Unauthorized"), answer_json(VERSION))
    config = ClusterConfig(server=server.url, auth=TokenFileAuth(token_file))
    async with connected(server, config=config) as client:
        await client.version()
        token_file.write_text("second")
        await client.version()
    assert [seen.headers["Authorization"] for seen in server.seen] == [
        "Bearer first",
        "Bearer first",
        "Bearer second",
    ]


async def test_a_401_with_nothing_newer_is_final(server: ScriptedServer, token_file: Path) -> None:
    server.on(CALL, answer_status(401, "Unauthorized", "Unauthorized"))
    for auth in (TokenFileAuth(token_file), StaticAuth(bearer("only"))):
        config = ClusterConfig(server=server.url, auth=auth)
        async with connected(server, config=config) as client:
            with pytest.raises(Unauthorized):
                await client.version()
    assert len(server.seen) == 2


@pytest.mark.parametrize("renewed_after", [1, 40, None], ids=["at once", "late", "never"])
async def test_a_token_that_was_accepted_is_waited_for_until_it_is_renewed(
    server: ScriptedServer, token_file: Path, renewed_after: int | None
) -> None:
    """The kubelet renews it some time after its service account was made again."""
    clock = Sleeps()

    def renew() -> None:
        if len(clock.delays) == renewed_after:
            token_file.write_text("second")

    clock.on_sleep = renew
    config = ClusterConfig(server=server.url, auth=TokenFileAuth(token_file))
    server.on(CALL, answer_json(VERSION), answer_status(401, "Unauthorized"))
    async with connected(server, config=config, clock=clock) as client:
        await client.version()
        if renewed_after is None:
            for _ in range(3):  # the minute is not waited for again
                with pytest.raises(Unauthorized):
                    await client.version()
            assert 60 <= sum(clock.delays) < 62
        else:
            refusals = [answer_status(401, "Unauthorized")] * (renewed_after + 1)
            server.on(CALL, *refusals, answer_json(VERSION))
            assert (await client.version()).git_version == "v1.33.4"
            assert server.seen[-1].headers["Authorization"] == "Bearer second"
            assert len(clock.delays) == renewed_after


async def test_a_401_after_another_task_renewed_is_sent_again(token_file: Path) -> None:
    auth = TokenFileAuth(token_file)
    old = await auth.credentials()
    token_file.write_text("second")
    assert await auth.rejected(old)
    token_file.write_text("third")
    # The second task was rejected with the first token too: the second is newer, no need to read.
    assert await auth.rejected(old)
    assert await auth.credentials() == bearer("second")


def test_basic_and_reprs() -> None:
    assert basic("jane", "pässword").authorization == "Basic amFuZTpww6Rzc3dvcmQ="
    assert "s3cret" not in repr(StaticAuth(bearer("s3cret")))
    assert "s3cret" not in repr(TokenFileAuth(Path("f"), fallback="s3cret"))
