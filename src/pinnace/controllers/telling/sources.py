"""Reads the settings of messages from the Secrets with the label `pinnace.io/messages: "true"`."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pinnace.api import labels
from pinnace.api.objects import JSONObject, text
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import SECRETS
from pinnace.messages.errors import MessageSettingsError
from pinnace.messages.settings import (
    MOST_SINKS,
    MessageSettings,
    SinkSettings,
    document_of,
    parse_messages,
)
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

SELECTOR: Final = f"{labels.MESSAGES}=true"


class FoundSink(Struct, frozen=True, kw_only=True):
    """One sink, as some Secret has it.

    Attributes:
        tenant: the namespace of the tenant whose it is; empty for the administrator's.
        cluster: the name of the cluster that the Secret gives; empty for none.
        allowed: the endpoints that the administrator allows; of no meaning without a tenant.
    """

    settings: SinkSettings
    tenant: str = ""
    cluster: str = ""
    allowed: Sequence[str] = ()


class MessageSources:
    """Reads the Secrets. What cannot be read is logged, once for each content, and left out."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._complaints: dict[Key, str] = {}

    async def read(self) -> dict[Key, FoundSink]:
        """All sinks, by namespace and name. Raises KubeError."""
        own = self._scope.namespace
        listed = await self._scope.client.list_all(SECRETS, own, label_selector=SELECTOR)
        documents = self._documents(listed, of_tenant=False)
        found: dict[Key, FoundSink] = {}
        for key, settings in documents.items():
            self._add(found, key, settings, cluster=settings.cluster)
        rules = [each.tenants for each in documents.values() if each.tenants is not None]
        if not rules:
            return found
        allowed = tuple(entry for each in rules for entry in each.allowed_endpoints)
        cluster = next((each.cluster for each in documents.values() if each.cluster), "")
        try:
            everywhere = await self._scope.client.list_all(SECRETS, label_selector=SELECTOR)
        except Forbidden as error:
            log.warning("Secrets of tenants cannot be read: tenants get no messages", error=error)
            return found
        of_tenants = [each for each in everywhere if text(each, "metadata", "namespace") != own]
        for key, settings in self._documents(of_tenants, of_tenant=True).items():
            self._add(found, key, settings, cluster=cluster, tenant=key.namespace, allowed=allowed)
        return found

    def _documents(self, secrets: Sequence[JSONObject], *, of_tenant: bool) -> dict[Key, MessageSettings]:
        found = {}
        for secret in sorted(secrets, key=Key.of):
            key = Key.of(secret)
            try:
                found[key] = parse_messages(document_of(secret), of_tenant=of_tenant)
                self._complaints.pop(key, None)
            except MessageSettingsError as error:
                self._complain(key, str(error))
        return found

    def _add(
        self,
        found: dict[Key, FoundSink],
        secret: Key,
        settings: MessageSettings,
        *,
        cluster: str,
        tenant: str = "",
        allowed: Sequence[str] = (),
    ) -> None:
        for sink in settings.sinks:
            key = Key(secret.namespace, sink.name)
            if key in found:
                self._complain(secret, f"another Secret of the namespace has a sink {sink.name}")
            elif tenant and sum(each.namespace == tenant for each in found) >= MOST_SINKS:
                self._complain(secret, f"the namespace has more than {MOST_SINKS} sinks")
            else:
                found[key] = FoundSink(settings=sink, tenant=tenant, cluster=cluster, allowed=allowed)

    def _complain(self, key: Key, why: str) -> None:
        if self._complaints.get(key) != why:
            self._complaints[key] = why
            log.error("The settings of messages cannot be used", secret=str(key), error=why)
