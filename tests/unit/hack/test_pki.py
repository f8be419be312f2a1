"""Certificates, as clients and servers see them."""

import ssl
import stat
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from hack.cluster.pki import CertificateAuthority, issue_signing_key


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, hostname: str) -> ssl.SSLObject:
    """Shake hands in memory and return the server's side."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        server.wrap_bio(up, down, server_side=True),
        client.wrap_bio(down, up, server_hostname=hostname),
    ]
    open_sides = set(sides)
    while open_sides:
        for side in sides:
            try:
                side.do_handshake()
                open_sides.discard(side)
            except ssl.SSLWantReadError:
                continue
    return sides[0]


def test_both_sides_verify_each_other(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path / "pki", name="test CA")
    serving = authority.issue_server("server", addresses=("127.0.0.1",), names=("localhost",))
    admin = authority.issue_client("admin", user="alice", groups=("system:masters",))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(serving.certificate, serving.key)
    client = authority.trust()
    client.load_cert_chain(admin.certificate, admin.key)

    for name in ("127.0.0.1", "localhost"):
        peer = handshake(server, client, name).getpeercert(binary_form=True)
        assert peer is not None
        subject = x509.load_der_x509_certificate(peer).subject
        assert [each.value for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["alice"]
        assert [each.value for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == [
            "system:masters"
        ]


def test_private_files_are_private(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path / "pki", name="test CA")
    pairs = [authority.pair, issue_signing_key(tmp_path / "pki", "tokens")]

    for pair in pairs:
        assert stat.S_IMODE(pair.key.stat().st_mode) == 0o600
        serialization.load_pem_private_key(pair.key.read_bytes(), password=None)
    serialization.load_pem_public_key(pairs[1].certificate.read_bytes())
