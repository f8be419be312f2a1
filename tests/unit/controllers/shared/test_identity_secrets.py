"""Secrets that a Restore names: what is taken as an identity, and what is said of the rest."""

import base64

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pyrage import passphrase

from pinnace.age.errors import NoIdentityMatches
from pinnace.age.recipients import parse_recipients, wrap
from pinnace.age.x25519 import X25519Identity
from pinnace.api.labels import IDENTITY_SECRET
from pinnace.api.meta import ObjectMeta
from pinnace.api.nonadmin.names import Origin
from pinnace.api.velero.restore import Restore
from pinnace.controllers.shared.identity_secrets import IdentitySecretUnusable, identities_of
from pinnace.kube.resources import SECRETS
from tests.support.age.plugin_program import identity_of
from tests.unit.controllers.fakes import NAMESPACE, World

ALICE, BOB = X25519Identity.generate(), X25519Identity.generate()
PASSWORD = "a passphrase that nobody is asked for"


def ssh_key(password: str = "") -> tuple[str, bytes]:
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        protection = serialization.BestAvailableEncryption(password.encode())
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, protection)
    return public.decode(), private


def named(name: str = "keys") -> Restore:
    return Restore(metadata=ObjectMeta(name="r1", annotations={IDENTITY_SECRET: name}))


def add_secret(world: World, **values: bytes) -> None:
    data = {key: base64.b64encode(value).decode() for key, value in values.items()}
    world.cluster.add("secrets", "keys", data=data)


async def test_each_value_is_a_file_of_identities(world: World) -> None:
    recipient, private = ssh_key()
    add_secret(world, age=f"# two\n{ALICE.secret_text()}\n{BOB.secret_text()}\n".encode(), ssh=private)

    identities = await identities_of(world.scope.client, NAMESPACE, named())

    assert identities is not None
    for text in (str(ALICE.recipient), str(BOB.recipient), recipient):
        assert identities.unwrap(wrap(b"secret", parse_recipients(text))) == b"secret"
    stranger = str(X25519Identity.generate().recipient)
    with pytest.raises(NoIdentityMatches):
        identities.unwrap(wrap(b"secret", parse_recipients(stranger)))


async def test_a_restore_that_names_none_reads_none(world: World) -> None:
    assert await identities_of(world.scope.client, NAMESPACE, Restore()) is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "it has no identity"),
        ({"a": b"a password"}, "key 'a': line 1 is no identity"),
        ({"a": b"\xff\x00"}, "key 'a': it has no identity"),
        ({"a": str(ALICE.recipient).encode()}, "key 'a': line 1 is a recipient"),
        ({"a": ALICE.secret_text().encode(), "b": b"token"}, "key 'b': line 1 is no identity"),
        ({"a": b"x" * 9_000}, "key 'a': it has more than 8192 bytes"),
        ({"a": identity_of("plain").encode()}, "key 'a': it names the plugin age-plugin-test, and plugins"),
        ({"a": passphrase.encrypt(ALICE.secret_text().encode(), PASSWORD)}, "protected by a passphrase"),
        ({"a": ssh_key(PASSWORD)[1]}, "the ssh key is protected by a passphrase"),
        ({f"k{n}": ALICE.secret_text().encode() for n in range(65)}, "more than 64 identities"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_secret_that_cannot_be_used_is_named_and_its_content_is_not(
    world: World, values: dict[str, bytes], said: str
) -> None:
    add_secret(world, **values)

    with pytest.raises(IdentitySecretUnusable) as caught:
        await identities_of(world.scope.client, NAMESPACE, named())

    text = str(caught.value)
    assert text.startswith(f"the annotation {IDENTITY_SECRET} names Secret 'keys', which cannot be used: ")
    assert said in text
    assert not any(secret in text for secret in ("a password", "token", "AGE-SECRET-KEY-1Q", PASSWORD))


async def test_a_restore_of_a_tenant_reads_the_secret_of_its_own_namespace_only(world: World) -> None:
    add_secret(world, age=ALICE.secret_text().encode())
    restore = named()
    restore.metadata.annotations[Origin.RESTORE.namespace_annotation] = "tenant"

    with pytest.raises(IdentitySecretUnusable, match="'keys', which is not in namespace tenant"):
        await identities_of(world.scope.client, NAMESPACE, restore)

    data = {"age": base64.b64encode(BOB.secret_text().encode()).decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "data": data}
    world.cluster.put(secret, SECRETS, "tenant")
    identities = await identities_of(world.scope.client, NAMESPACE, restore)
    assert identities is not None
    with pytest.raises(NoIdentityMatches):
        identities.unwrap(wrap(b"secret", parse_recipients(str(ALICE.recipient))))
    assert identities.unwrap(wrap(b"secret", parse_recipients(str(BOB.recipient)))) == b"secret"


@pytest.mark.parametrize("name", ["../x", "a/b", "..", "x?y", "X", "a" * 254])
async def test_what_is_not_the_name_of_a_secret_is_not_asked_for(world: World, name: str) -> None:
    with pytest.raises(IdentitySecretUnusable, match="which is not the name of a Secret"):
        await identities_of(world.scope.client, NAMESPACE, named(name))


async def test_a_secret_that_is_missing_or_no_base64_is_said(world: World) -> None:
    with pytest.raises(IdentitySecretUnusable, match="'keys', which is not in namespace"):
        await identities_of(world.scope.client, NAMESPACE, named())
    world.cluster.add("secrets", "keys", data={"a": "?"})
    with pytest.raises(IdentitySecretUnusable, match="key 'a': it is not base64"):
        await identities_of(world.scope.client, NAMESPACE, named())
