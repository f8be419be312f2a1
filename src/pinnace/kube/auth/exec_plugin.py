"""Credentials from an exec plugin: a program that prints an ExecCredential object.

Speaks `client.authentication.k8s.io` in v1, v1beta1 and v1alpha1. The plugin runs when credentials are
first needed, when they have expired, and once after a 401. Its standard error goes to ours, as it may
tell the user what to do; its standard output is only read here.
"""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.values.times import parse_time
from pinnace.kube.errors import ConfigError
from pinnace.kube.transport.credentials import ClientCertificate, Credentials

GROUP = "client.authentication.k8s.io"
VERSIONS = ("v1", "v1beta1", "v1alpha1")
PLUGIN_DEADLINE_SECONDS = 60.0
INTERACTIVE_DEADLINE_SECONDS = 600.0
"""A plugin that may ask the user something gets enough time for the user to answer."""


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The description of the cluster that an exec plugin with provideClusterInfo gets."""

    server: str
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority_data: bytes | None = None
    proxy_url: str = ""
    disable_compression: bool = False
    config: Any = None

    def __repr__(self) -> str:
        return f"ClusterInfo(server={self.server!r})"

    def document(self) -> dict[str, Any]:
        """The `spec.cluster` of an ExecCredential."""
        document: dict[str, Any] = {"server": self.server}
        if self.tls_server_name:
            document["tls-server-name"] = self.tls_server_name
        if self.insecure_skip_tls_verify:
            document["insecure-skip-tls-verify"] = True
        if self.certificate_authority_data:
            document["certificate-authority-data"] = base64.b64encode(
                self.certificate_authority_data
            ).decode()
        if self.proxy_url:
            document["proxy-url"] = self.proxy_url
        if self.disable_compression:
            document["disable-compression"] = True
        if self.config is not None:
            document["config"] = self.config
        return document


class ExecPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """How to run the plugin. `cluster` is set only with provideClusterInfo."""

    command: str
    version: str
    origin: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    cluster: ClusterInfo | None = None

    def __repr__(self) -> str:
        return f"ExecPlugin(command={self.command!r}, origin={self.origin!r})"


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _ExecStatus | None = None


def _stdin_is_terminal() -> bool:
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


class ExecAuth:
    """An `Authenticator` that asks an exec plugin.

    Args:
        plugin: what to run.
        clock: the wall clock that expiry is compared with.
        is_terminal: whether standard input is a terminal, so that the plugin can ask a user.
        deadline_seconds: how long the plugin may take; None for the default of its mode.
    """

    def __init__(
        self,
        plugin: ExecPlugin,
        *,
        clock: Clock = SYSTEM_CLOCK,
        is_terminal: Callable[[], bool] = _stdin_is_terminal,
        deadline_seconds: float | None = None,
    ) -> None:
        self._plugin = plugin
        self._clock = clock
        self._is_terminal = is_terminal
        self._deadline_seconds = deadline_seconds
        self._current: Credentials | None = None
        self._expires: datetime | None = None
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"ExecAuth({self._plugin.command!r})"

    async def credentials(self) -> Credentials:
        """The plugin's credentials; runs it if there are none yet or they have expired.

        Raises:
            ConfigError: if it cannot be run, fails, or prints no usable credentials.
        """
        async with self._lock:
            if self._current is None or self._has_expired():
                await self._renew()
            assert self._current is not None
            return self._current

    async def rejected(self, used: Credentials) -> bool:
        """Run the plugin again, unless another task did; return True if it printed new credentials."""
        async with self._lock:
            if self._current == used:
                await self._renew()
            return self._current != used

    def _has_expired(self) -> bool:
        return self._expires is not None and self._clock.now() >= self._expires

    async def _renew(self) -> None:
        output = await self._run()
        self._current, self._expires = _parse(output, self._plugin)

    async def _run(self) -> bytes:
        plugin = self._plugin
        interactive = self._choose_interactive()
        environment = os.environ | dict(plugin.env)
        environment["KUBERNETES_EXEC_INFO"] = _request(plugin, interactive=interactive)
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "cannot be started"
            raise ConfigError(_failure(plugin, reason, hint=isinstance(error, FileNotFoundError))) from error
        default = INTERACTIVE_DEADLINE_SECONDS if interactive else PLUGIN_DEADLINE_SECONDS
        deadline_seconds = self._deadline_seconds or default
        try:
            async with asyncio.timeout(deadline_seconds):
                output, _ = await process.communicate()
        except TimeoutError as error:
            raise ConfigError(
                _failure(plugin, f"did not finish within {deadline_seconds:g} seconds")
            ) from error
        finally:
            await _end(process)
        if process.returncode != 0:
            raise ConfigError(_failure(plugin, f"failed with exit code {process.returncode}", hint=True))
        return output

    def _choose_interactive(self) -> bool:
        mode = self._plugin.interactive_mode
        if mode == "Never":
            return False
        available = self._is_terminal()
        if mode == "Always" and not available:
            raise ConfigError(_failure(self._plugin, "needs a terminal (interactiveMode: Always)"))
        return available


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _request(plugin: ExecPlugin, *, interactive: bool) -> str:
    spec: dict[str, Any] = {"interactive": interactive}
    # v1alpha1 has no field for it.
    if plugin.cluster is not None and plugin.version != "v1alpha1":
        spec["cluster"] = plugin.cluster.document()
    document = {"kind": "ExecCredential", "apiVersion": f"{GROUP}/{plugin.version}", "spec": spec}
    # The cluster's `config` is free YAML, which may hold dates.
    return json.dumps(document, default=str)


def _parse(output: bytes, plugin: ExecPlugin) -> tuple[Credentials, datetime | None]:
    # No cause is chained here and below: the texts of decoding errors can quote the output.
    try:
        credential = msgspec.json.decode(output, type=_ExecCredential)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ConfigError(_failure(plugin, "printed no valid ExecCredential")) from None
    expected = f"{GROUP}/{plugin.version}"
    if credential.kind != "ExecCredential" or credential.api_version != expected:
        raise ConfigError(_failure(plugin, f"printed something other than an ExecCredential of {expected}"))
    status = credential.status or _ExecStatus()
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise ConfigError(_failure(plugin, "printed a certificate without its key, or a key alone"))
    if not status.token and not status.client_certificate_data:
        raise ConfigError(_failure(plugin, "printed neither a token nor a certificate"))
    certificate = None
    if status.client_certificate_data and status.client_key_data:
        certificate = ClientCertificate(
            status.client_certificate_data.encode(), status.client_key_data.encode()
        )
    expires = None
    if status.expiration_timestamp:
        try:
            expires = parse_time(status.expiration_timestamp)
        except ValueError:
            raise ConfigError(_failure(plugin, "printed an expirationTimestamp that is no time")) from None
    return Credentials(f"Bearer {status.token}" if status.token else "", certificate), expires


def _failure(plugin: ExecPlugin, reason: str, *, hint: bool = False) -> str:
    text = f"{plugin.origin}: the exec plugin {plugin.command!r}: {reason}"
    if hint and plugin.install_hint:
        text += f"\n\n{plugin.install_hint.strip()}"
    return text
