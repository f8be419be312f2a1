"""One certificate authority a cluster, and the few certificates that its parts need.

Elliptic-curve keys, because making four RSA keys takes longer than starting etcd. For development only:
keys lie unencrypted (mode 0600) in the cluster's folder and go away with it.
"""

import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALIDITY = timedelta(days=365)
# Certificates are valid from a little before they are made: clocks step.
BACKDATE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM files; the certificate ends with no chain."""

    certificate: Path
    key: Path


class CertificateAuthority:
    """Issues certificates into one folder, which it makes.

    Args:
        directory: where all files go, named after what they are for.
        name: common name of the authority's own certificate.
    """

    def __init__(self, directory: Path, *, name: str) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(self._subject, self._subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.pair = self._write("ca", certificate, self._key)

    @property
    def certificate(self) -> Path:
        """The authority's certificate, for clients to trust."""
        return self.pair.certificate

    def issue_server(self, name: str, *, addresses: tuple[str, ...], names: tuple[str, ...]) -> KeyPair:
        """Issue a server certificate for IP addresses and DNS names."""
        alternatives: list[x509.GeneralName] = [x509.IPAddress(IPv4Address(text)) for text in addresses]
        alternatives += [x509.DNSName(text) for text in names]
        return self._issue(name, _subject(name), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def issue_client(self, name: str, *, user: str, groups: tuple[str, ...] = ()) -> KeyPair:
        """Issue a client certificate: Kubernetes reads CN as the user and each O as a group."""
        return self._issue(name, _subject(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def trust(self) -> ssl.SSLContext:
        """Return a client context that trusts only this authority."""
        return ssl.create_default_context(cafile=str(self.certificate))

    def _issue(
        self,
        name: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        alternatives: list[x509.GeneralName],
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        return self._write(name, builder.sign(self._key, hashes.SHA256()), key)

    def _write(self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
        pair = KeyPair(self.directory / f"{name}.crt", self.directory / f"{name}.key")
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_secret(pair.key, _private_pem(key))
        return pair


def issue_signing_key(directory: Path, name: str) -> KeyPair:
    """Make a bare key pair for the API server to sign the tokens of service accounts with.

    Returns:
        The pair; its `certificate` is the public key alone.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    pair = KeyPair(directory / f"{name}.pub", directory / f"{name}.key")
    pair.certificate.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    write_secret(pair.key, _private_pem(key))
    return pair


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only this user can read, at no moment more open than that."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # SEC 1 ("EC PRIVATE KEY"), which the API server reads as well as PKCS#8.
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _subject(common_name: str, organizations: tuple[str, ...] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, text) for text in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + VALIDITY)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
