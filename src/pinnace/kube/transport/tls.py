"""TLS settings for an API server: the trusted certificates, and a client certificate."""

import os
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Final

import msgspec

from pinnace.kube.errors import ConfigError
from pinnace.kube.transport.credentials import ClientCertificate

_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_END: Final = b"-----END CERTIFICATE-----"


class TLSSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The TLS settings of kubeconfig or of the pod.

    Attributes:
        ca: PEM certificates to trust instead of the system's.
        insecure: do not check the server's certificate; only on explicit request.
        server_name: the name to request and check, if it is not the host of the URL.
        certificate: our own certificate.
        origin: file and entry of the settings, for error texts.
    """

    ca: bytes | None = None
    insecure: bool = False
    server_name: str = ""
    certificate: ClientCertificate | None = None
    origin: str = ""

    def __repr__(self) -> str:
        return f"TLSSettings(insecure={self.insecure}, origin={self.origin!r})"


def build_ssl_context(tls: TLSSettings, certificate: ClientCertificate | None = None) -> ssl.SSLContext:
    """Return a context for these settings; `certificate` takes precedence over the configured one.

    Blocks on file access: call it in a thread. OpenSSL loads private keys only from files; it gets one
    without a name, so that none is left behind when the process is killed.

    Raises:
        ConfigError: if a certificate or key cannot be used; names the file and the field.
    """
    # Not create_default_context(): from Python 3.13 on it refuses the CAs of many existing clusters
    # (VERIFY_X509_STRICT wants extensions that kubeadm's older certificates lack).
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    _load(context, tls, certificate)
    return context


def check_certificates(tls: TLSSettings, certificate: ClientCertificate | None = None) -> None:
    """Check what is given, without reading the system's certificates. Raises as `build_ssl_context`."""
    _load(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), tls, certificate)


def _load(context: ssl.SSLContext, tls: TLSSettings, certificate: ClientCertificate | None) -> None:
    if tls.ca is not None and not tls.insecure:
        _trust(context, tls.ca, tls.origin)
    certificate = certificate or tls.certificate
    if certificate is not None:
        _load_certificate(context, certificate, tls.origin)


def pem_certificates(ca: bytes) -> bytes:
    """The PEM blocks alone, without the text that may stand between them."""
    found = []
    for part in ca.split(_BEGIN)[1:]:
        content, end, _ = part.partition(_END)
        if end and content and b"-" not in content:
            found.append(_BEGIN + content + end)
    return b"\n".join(found)


def _trust(context: ssl.SSLContext, ca: bytes, origin: str) -> None:
    # Only the PEM blocks: OpenSSL's text form between them may hold characters that cadata refuses.
    blocks = pem_certificates(ca)
    try:
        if not blocks:
            raise ConfigError(f"{origin}: certificate-authority holds no PEM certificate")
        context.load_verify_locations(cadata=blocks.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{origin}: certificate-authority holds no usable certificate") from error


def _load_certificate(context: ssl.SSLContext, certificate: ClientCertificate, origin: str) -> None:
    with (
        _nameless_file(certificate.certificate) as certificate_file,
        _nameless_file(certificate.key) as key_file,
    ):
        try:
            # The empty password keeps OpenSSL from asking for one on the terminal.
            context.load_cert_chain(certificate_file, key_file, password="")
        except OSError as error:  # SSLError is one
            reason = f"OpenSSL cannot read them: {error.strerror}"
            if isinstance(error, ssl.SSLError):
                reason = error.reason or "encrypted, or not a pair"
            raise ConfigError(f"{origin}: client-certificate and client-key: {reason}") from error


@contextmanager
def _nameless_file(content: bytes) -> Iterator[str]:
    """Yield a path with the content for this process to read; nothing remains afterwards.

    It is in memory on Linux, elsewhere a file without a name.
    """
    with _opened() as file:
        file.write(content)
        file.flush()
        file.seek(0)
        yield f"/dev/fd/{file.fileno()}"


def _opened() -> IO[bytes]:
    is_linux = sys.platform == "linux"
    if is_linux:
        return open(os.memfd_create("tls"), "w+b")
    import tempfile  # loads three compressors

    return tempfile.TemporaryFile()
