"""Implements `backup-location sign-key`."""

import base64
import os
from pathlib import Path

import click

from pinnace.api.objects import JSONObject, mapping
from pinnace.cli.common.get import server_settings
from pinnace.cli.connect import caller, open_cluster, run_async
from pinnace.cli.errors import CommandError, InvalidInput
from pinnace.cli.guard import complain
from pinnace.cli.kinds import BACKUP_LOCATION
from pinnace.cli.location.sign_key import SignKeyOptions
from pinnace.cli.settings import Settings
from pinnace.client.server import ServerBackend
from pinnace.kube.errors import AlreadyExists
from pinnace.kube.resources import SECRETS, velero
from pinnace.signing.errors import BadKey
from pinnace.signing.keys import MOST_KEYS, Ed25519Signer, parse_keys
from pinnace.storage.own_settings import DEFAULT_SECRET_KEY, KEY_FILE, KEY_SECRET, TRUSTED_KEYS

_RESOURCE = velero(BACKUP_LOCATION.plural)


def make_key(ctx: click.Context, options: SignKeyOptions) -> None:
    """Make a key, put its halves where they belong, and print the public one."""
    name = options.names[0] if options.names else ""
    if not name and not options.file:
        raise InvalidInput("name the location whose backups the server is to sign, or give --file")
    if options.file and options.secret:
        raise InvalidInput("the private key goes into a Secret or into a file: give --secret or --file")
    if name:
        settings = server_settings(ctx, "backup-location sign-key NAME")
        key = run_async(_configured(settings, name, options))
    else:
        key = _made(options)
    click.echo(str(key.public))
    if options.file:
        complain(
            f"The private key is in {options.file}: whoever has it can sign. Sign with"
            f" PINNACE_SIGNING_KEY_FILE={options.file}, or ?{KEY_FILE}=... in the URL of a location."
        )
    if not name:
        complain(f"Readers trust the printed key by PINNACE_TRUSTED_KEYS, or {TRUSTED_KEYS} of the location.")


def _write(path: Path, pem: bytes) -> None:
    """Write a new private file. Raises CommandError: it exists, or cannot be written."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
    except FileExistsError:
        raise CommandError(f"{path} exists: a key is never overwritten, as its backups need it") from None
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from error


def _made(options: SignKeyOptions) -> Ed25519Signer:
    """A new key, written to the file if there is to be one."""
    key = Ed25519Signer.generate()
    if options.file:
        _write(Path(options.file), key.pem())
    return key


async def _configured(settings: Settings, name: str, options: SignKeyOptions) -> Ed25519Signer:
    """Make a key that a location trusts, and that its server signs with unless it is in a file."""
    namespace, secret = settings.namespace, options.secret or f"{name}-signing-key"
    async with open_cluster(settings) as client:
        # Read first: with a wrong name nothing is written.
        location = await ServerBackend(client, namespace, caller()).object(_RESOURCE.name, name)
        key = _made(options)
        config = mapping(location, "spec", "config")
        changed: JSONObject = {TRUSTED_KEYS: _with_key(str(config.get(TRUSTED_KEYS, "")), key, name)}
        if not options.file:
            try:
                await client.create(SECRETS, _secret(secret, namespace, key), namespace)
            except AlreadyExists:
                raise CommandError(
                    f"Secret {secret} exists in namespace {namespace}: name another one with --secret; the"
                    " location goes on trusting the key of the old one if its public half is in"
                    f" config.{TRUSTED_KEYS}"
                ) from None
            changed[KEY_SECRET] = secret
        await client.patch(_RESOURCE, name, {"spec": {"config": changed}}, namespace)
    complain(
        f'Backup storage location "{name}" trusts the key.'
        + ("" if options.file else f" The server signs with it, from Secret {secret}: keep a copy of that.")
    )
    return key


def _with_key(trusted: str, key: Ed25519Signer, location: str) -> str:
    """The setting with a further key. Raises CommandError: what is there cannot be read, or is full."""
    try:
        keys = [*parse_keys(trusted), key.public]
    except BadKey as error:
        raise CommandError(f"config.{TRUSTED_KEYS} of location {location}: {error}") from error
    if len(keys) > MOST_KEYS:
        raise CommandError(f"location {location} trusts {len(keys) - 1} keys already: remove one first")
    return " ".join(map(str, keys))


def _secret(name: str, namespace: str, key: Ed25519Signer) -> JSONObject:
    data = {DEFAULT_SECRET_KEY: base64.b64encode(key.pem()).decode()}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": data}
