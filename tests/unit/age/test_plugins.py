"""Recipients and identities of plugins, whose programs answer, ask, hang and fail."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from pinnace.age import bech32
from pinnace.age.errors import InvalidIdentity, InvalidRecipient, NoIdentityMatches, PluginFailed
from pinnace.age.header import Stanza, parse_header
from pinnace.age.identities import Identities
from pinnace.age.plugins import NobodyToAsk, unwrap_by_plugin, wrap_by_plugin
from pinnace.age.recipients import parse_recipients, wrap, wrap_for_all
from pinnace.age.x25519 import X25519Identity
from tests.support.age.plugin_program import identity_of, install_plugin, recipient_of

SECRET = b"what is wrapped"
AGE_KEY = X25519Identity.generate()


class User:
    """Answers what a test says, and keeps what it was shown."""

    def __init__(self, answer: str = "", *, confirms: bool = True) -> None:
        self.seen: list[str] = []
        self._answer, self._confirms = answer, confirms

    def show(self, text: str) -> None:
        self.seen.append(text)

    def confirm(self, text: str, yes: str, no: str) -> bool:
        self.seen.append(f"{text} {yes}/{no}")
        return self._confirms

    def ask(self, text: str, *, secret: bool) -> str:
        self.seen.append(f"{text} {secret}")
        return self._answer


@pytest.fixture(autouse=True)
def _plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugin(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def opened_by(*identities: str, user: User | None = None) -> Identities:
    return Identities.parse("\n".join(identities).encode(), dialog=user or NobodyToAsk())


async def test_each_of_several_recipients_opens_it_beside_a_plugins() -> None:
    recipients = parse_recipients(f"{AGE_KEY.recipient} {recipient_of('plain')}")
    for _ in range(20):  # pyrage adds stanzas of its own by chance
        wrapped = await wrap_for_all(SECRET, recipients)
        header = parse_header(wrapped)
        assert header is not None
        kinds = [stanza.arguments[0] for stanza in header.stanzas]
        assert (kinds.count("X25519"), kinds.count("test")) == (1, 1)
        assert await opened_by(AGE_KEY.secret_text()).open(wrapped) == SECRET
    assert await opened_by(identity_of("plain")).open(wrapped) == SECRET
    other = X25519Identity.generate().secret_text()
    assert await opened_by(other, identity_of("plain")).open(wrapped) == SECRET
    with pytest.raises(NoIdentityMatches):
        await opened_by(other).open(wrapped)


async def test_a_plugin_alone_is_enough_and_opens_nothing_of_others() -> None:
    wrapped = await wrap_for_all(SECRET, parse_recipients(recipient_of("plain")))
    header = parse_header(wrapped)
    assert header is not None
    assert "X25519" not in {stanza.arguments[0] for stanza in header.stanzas}
    assert await opened_by(identity_of("plain")).open(wrapped) == SECRET
    with pytest.raises(NoIdentityMatches):
        await opened_by(identity_of("plain")).open(wrap(SECRET, parse_recipients(str(AGE_KEY.recipient))))


@pytest.mark.parametrize(
    ("word", "user", "seen"),
    [
        ("say", User(), ["age-plugin-test: touch the key"]),
        ("confirm", User(), ["use the key? use it/stop"]),
        ("secret", User("1234"), ["PIN? True"]),
    ],
)
async def test_what_a_plugin_asks_reaches_the_user(word: str, user: User, seen: list[str]) -> None:
    wrapped = await wrap_for_all(SECRET, parse_recipients(recipient_of("plain")))
    assert await opened_by(identity_of(word), user=user).open(wrapped) == SECRET
    assert user.seen == seen


@pytest.mark.parametrize(
    ("word", "user", "text"),
    [
        ("confirm", User(confirms=False), "not confirmed"),
        ("confirm", None, r"it asks 'use the key\?', and there is nobody to answer"),
        ("secret", User("0"), "the PIN is wrong"),
        ("secret", None, r"it asks 'PIN\?', and there is nobody to answer; the PIN is wrong"),
        ("error", None, r"no key is\?\[2J plugged in"),
        ("die", None, "it has ended"),
        ("garbage", None, "does not speak the protocol"),
        ("long", None, "does not speak the protocol"),
        ("endless", None, "more than 1000 messages"),
    ],
)
async def test_what_a_plugin_cannot_do_is_an_error_with_its_words(
    word: str, user: User | None, text: str
) -> None:
    wrapped = await wrap_for_all(SECRET, parse_recipients(recipient_of("plain")))
    with pytest.raises(PluginFailed, match=f"age-plugin-test: .*{text}") as failed:
        await opened_by(identity_of(word), user=user).open(wrapped)
    assert "\x1b" not in str(failed.value)


async def test_a_plugin_that_hangs_is_ended_and_holds_nothing_up() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.create_task(tick())
    began = time.monotonic()
    for call in (
        wrap_by_plugin("test", [recipient_of("hang")], bytes(16), limit_seconds=0.3),
        unwrap_by_plugin("test", [identity_of("hang")], [], NobodyToAsk(), limit_seconds=0.3),
    ):
        with pytest.raises(PluginFailed, match="was silent for"):
            await call
    ticking.cancel()
    assert ticks > 100
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("recipients", "text"),
    [
        (recipient_of("error"), "no key is"),
        (recipient_of("secret"), "there is nobody to answer"),
        (recipient_of("scrypt"), "wraps by a passphrase"),
        (f"{recipient_of('label')} {AGE_KEY.recipient}", "cannot stand beside the others"),
        (bech32.encode("age1absent", b"x"), "no such program on PATH"),
    ],
)
async def test_a_recipient_whose_plugin_fails_is_not_left_out(recipients: str, text: str) -> None:
    with pytest.raises(PluginFailed, match=text):
        await wrap_for_all(SECRET, parse_recipients(recipients))


async def test_recipients_with_labels_may_stand_alone() -> None:
    wrapped = await wrap_for_all(SECRET, parse_recipients(recipient_of("label")))
    assert await opened_by(identity_of("plain")).open(wrapped) == SECRET


def test_a_file_key_of_a_wrong_size_or_file_is_not_taken() -> None:
    stanzas = [Stanza(("test", "argument"), bytes(17))]
    found = asyncio.run(unwrap_by_plugin("test", [identity_of("plain")], stanzas, NobodyToAsk()))
    assert found is None


@pytest.mark.parametrize("name", ["age1../../x", "age1/bin/x", "age1.x", "age1", "age1-x"])
def test_a_key_names_no_program_elsewhere(name: str) -> None:
    with pytest.raises(InvalidRecipient):
        parse_recipients(bech32.encode(name, b"x" * 8))
    identity = bech32.encode(f"age-plugin-{name.removeprefix('age1')}-", b"x").upper()
    if name != "age1-x":  # whose dash is the program's own
        with pytest.raises(InvalidIdentity):
            opened_by(identity)


def test_plugins_run_only_where_it_is_allowed() -> None:
    with pytest.raises(InvalidIdentity, match="age-plugin-test, and plugins are not run here"):
        Identities.parse(identity_of("plain").encode())
    for text in (recipient_of("plain"), bech32.encode("age1tag", bytes(33))):
        with pytest.raises(InvalidRecipient, match="for locations of administrators"):
            parse_recipients(text, simple_only=True)
