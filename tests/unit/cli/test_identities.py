"""The identity file that the user names, and its passphrase."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pinnace.age.recipients import parse_recipients, wrap
from pinnace.age.x25519 import X25519Identity
from pinnace.cli.declaring.global_flags import GlobalFlags
from pinnace.cli.errors import InvalidInput
from pinnace.cli.identities import given_identities
from pinnace.cli.settings import Settings, resolve_settings

AGE_KEY, SSH_KEY = X25519Identity.generate(), Ed25519PrivateKey.generate()
SSH_RECIPIENT = SSH_KEY.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH).decode()


def settings(flag: Path | None, **environ: Any) -> Settings:
    flags = GlobalFlags(identity_file=str(flag) if flag is not None else None)
    return resolve_settings(flags, environ={key: str(value) for key, value in environ.items()})


@pytest.fixture
def protected(tmp_path: Path) -> Path:
    path = tmp_path / "id_ed25519"
    form, protection = forms.PrivateFormat.OpenSSH, forms.BestAvailableEncryption(b"secret")
    path.write_bytes(SSH_KEY.private_bytes(forms.Encoding.PEM, form, protection))
    return path


def test_the_flag_counts_before_the_variable(tmp_path: Path) -> None:
    path = tmp_path / "key.txt"
    path.write_text(AGE_KEY.secret_text())
    wrapped = wrap(b"x", parse_recipients(str(AGE_KEY.recipient)))
    for found in (settings(path, PINNACE_IDENTITY_FILE="/none"), settings(None, PINNACE_IDENTITY_FILE=path)):
        identities = given_identities(found)
        assert identities is not None
        assert identities.unwrap(wrapped) == b"x"
    assert given_identities(settings(None)) is None
    assert str(path) in settings(path).given  # commands to paste name the file, and nothing of what is in it


def test_a_passphrase_comes_from_its_file(
    tmp_path: Path, protected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "passphrase"
    monkeypatch.setenv("PINNACE_IDENTITY_PASSPHRASE_FILE", str(secret))
    with pytest.raises(InvalidInput, match="PINNACE_IDENTITY_PASSPHRASE_FILE names cannot be read"):
        given_identities(settings(protected))
    secret.write_text("secret\n")
    identities = given_identities(settings(protected))
    assert identities is not None
    assert identities.unwrap(wrap(b"x", parse_recipients(SSH_RECIPIENT))) == b"x"
    secret.write_text("wrong")
    with pytest.raises(InvalidInput, match="passphrase of the ssh key is wrong"):
        given_identities(settings(protected))


def test_a_passphrase_is_asked_for_on_a_terminal_only(
    protected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InvalidInput, match="run the command on a terminal"):
        given_identities(settings(protected))


@pytest.mark.parametrize("content", [None, "", "age1x", AGE_KEY.secret_text()[:-3]], ids=range(4))
def test_a_file_that_cannot_be_used_is_named_without_its_content(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "key.txt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidInput, match=r"identity file '.*key\.txt'") as refused:
        given_identities(settings(path))
    assert AGE_KEY.secret_text()[20:40] not in str(refused.value)
