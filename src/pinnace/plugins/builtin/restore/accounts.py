"""ServiceAccounts and their tokens: the cluster makes new tokens, the old ones are not valid here.

The rule for ServiceAccounts is that of v1.6.3 with all matching tokens removed instead of one. Created as it
is in the backup, a token Secret carries the uid of an account that no longer exists, and the cluster deletes
it at once. (docs/spec: RST 16, BEY 5.10)
"""

import re
from typing import Final

from pinnace.api.kinds import SECRETS, SERVICE_ACCOUNTS
from pinnace.api.objects import mapping, objects, text
from pinnace.plugins.protocols import (
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemInput,
    RestoreItemOutput,
)

_TOKEN_TYPE: Final = "kubernetes.io/service-account-token"  # noqa: S105 - a type
_ACCOUNT_ANNOTATION: Final = "kubernetes.io/service-account.name"
_UID_ANNOTATION: Final = "kubernetes.io/service-account.uid"
_MADE_BY_THE_CLUSTER: Final = re.compile(r"-token-[a-z0-9]{5}", re.ASCII)
"""The end of the names of token Secrets that clusters before 1.24 made for each account."""
_GENERATED_KEYS: Final = ("token", "ca.crt", "namespace")


class ForgetAccountTokens:
    """Removes the references to generated token Secrets from ServiceAccounts."""

    name = "velero.io/service-account"

    async def applies_to(self) -> ResourceSelector:
        """ServiceAccounts."""
        return ResourceSelector(included_resources=(SERVICE_ACCOUNTS.group_resource,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Drop every entry of `secrets` whose name starts with `<account>-token-`."""
        prefix = text(given.item, "metadata", "name") + "-token-"
        if objects(given.item, "secrets"):
            given.item["secrets"] = [
                entry
                for entry in given.item["secrets"]
                if not (isinstance(entry, dict) and text(entry, "name").startswith(prefix))
            ]
        return RestoreItemOutput(item=given.item)


class RenewTokenSecret:
    """Empties token Secrets that users made, so that the cluster fills them for the account as it is here.

    One that an old cluster made by itself is left out: nothing refers to it any more, and the cluster would
    fill it with a token that never expires.
    """

    name = "velero.io/secret"

    async def applies_to(self) -> ResourceSelector:
        """Secrets."""
        return ResourceSelector(included_resources=(SECRETS.group_resource,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Have the account restored first: a token Secret without its account is deleted by the cluster."""
        item, name = given.item, text(given.item, "metadata", "name")
        account = mapping(item, "metadata", "annotations").get(_ACCOUNT_ANNOTATION)
        if item.get("type") != _TOKEN_TYPE or not isinstance(account, str) or not account:
            return RestoreItemOutput(item=item)
        if name.startswith(account) and _MADE_BY_THE_CLUSTER.fullmatch(name.removeprefix(account)):
            return RestoreItemOutput(item=item, skip=True)
        mapping(item, "metadata", "annotations").pop(_UID_ANNOTATION, None)
        for key in _GENERATED_KEYS:
            mapping(item, "data").pop(key, None)
        identifier = ResourceIdentifier(
            group="",
            resource=SERVICE_ACCOUNTS.group_resource,
            namespace=text(given.item_from_backup, "metadata", "namespace"),
            name=account,
        )
        return RestoreItemOutput(item=item, additional_items=(identifier,))
