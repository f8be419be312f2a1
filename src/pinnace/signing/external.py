"""Keys in a KMS, in Vault or in an HSM, by the signers of securesystemslib: `pip install 'pinnace[signers]'`.

That brings the SDKs of the vendors, so it is imported here only, and only when a backup is signed. Each finds
its credentials in its own way: environment, files, role of the machine.
"""

import importlib
import os
from typing import Final

from pinnace.aio.blocking import in_thread
from pinnace.signing.errors import BadKey
from pinnace.signing.keys import PublicKey

SCHEMES: Final = ("awskms", "gcpkms", "azurekms", "hv", "hsm")
"""What stands before the colon of a signer's URI, as in `awskms:alias/backups` and `hsm:2?label=TOKEN`."""
PIN_VARIABLE: Final = "PINNACE_HSM_PIN"
"""The PIN of an HSM; PYKCS11LIB names the library of its vendor."""


class ExternalKey:
    """A private key that cannot be read."""

    def __init__(self, uri: str, public: PublicKey) -> None:
        """Args:
        uri: as securesystemslib has it.
        public: its public key; a signature that is not of it is refused.

        Raises:
            BadKey: no such kind of key is known.
        """
        if uri.partition(":")[0] not in SCHEMES:
            raise BadKey(f"a signer begins with one of {', '.join(f'{scheme}:' for scheme in SCHEMES)}")
        self._uri = uri
        self.public = public

    async def sign(self, data: bytes) -> bytes:
        """See SigningKey. The limits of the vendor's SDK decide how long it is waited for."""
        signature = await in_thread(self._sign, data)
        if not self.public.made(signature, data):
            raise BadKey(f"{self._uri} has signed with another key than the public key of the settings")
        return signature

    def _sign(self, data: bytes) -> bytes:
        try:
            vendors = importlib.import_module("securesystemslib.signer")  # without types where it is missing
        except ImportError:
            raise BadKey(f"{self._uri} needs more libraries: pip install 'pinnace[signers]'") from None
        keytype, scheme, public = self.public.named
        try:
            signer = vendors.Signer.from_priv_key_uri(
                self._uri, vendors.SSlibKey(self.public.id, keytype, scheme, {"public": public}), _pin
            )
            return bytes.fromhex(signer.sign(data).signature)
        except Exception as error:
            raise BadKey(f"{self._uri} did not sign: {type(error).__name__}: {error}") from error


def _pin(_name: str) -> str:
    pin = os.environ.get(PIN_VARIABLE)
    if pin is None:
        raise BadKey(f"{PIN_VARIABLE} is not set")
    return pin
