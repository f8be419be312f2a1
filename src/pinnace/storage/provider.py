"""Describes a provider of stores: its name, how it is opened, its URLs, what tenants may do with it.

Each has a folder, whose `__init__` holds one `Provider`; `providers` has them all.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import msgspec

from pinnace.store_access.addresses import Addresses

if TYPE_CHECKING:
    from pinnace.storage.interface import ObjectStore
    from pinnace.storage.uploader_store import UploaderStore


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """How a store is opened; see `open.open_object_store`."""

    create: bool
    environ: Mapping[str, str]
    addresses: Addresses | None


class StoreURL(msgspec.Struct, frozen=True, kw_only=True):
    """How a location of the provider is written as a URL; the texts are for messages.

    Attributes:
        scheme: before `://`.
        holder: what holds the objects: `bucket`, `container`.
        parameters: keys of the location's configuration, besides `caCertFile`. (STO 14)
        shown: those that a printed URL has.
        title: such as `S3 URL`, with its article.
        instead: the parameters that stand for credentials, which no URL may contain.
        others: what users of other programs write as the scheme, and the URL that they mean.
    """

    scheme: str
    holder: str = "bucket"
    parameters: tuple[str, ...]
    shown: tuple[str, ...] = ()
    article: str = "a"
    title: str
    instead: str
    others: Mapping[str, str]

    @property
    def example(self) -> str:
        """`s3://bucket/prefix`."""
        return f"{self.scheme}://{self.holder}/prefix"


class TenantRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rights of tenants to a provider. (docs/spec: NAC 17)

    Attributes:
        settings: keys of the configuration that affect only the tenant's own store.
        credentials_problem: why the content of a credentials file is refused, as it has more than keys; empty
            if it is not. Pure; no value is shown.
    """

    settings: Collection[str]
    credentials_problem: Callable[[str], str]


class CredentialProblem(msgspec.Struct, frozen=True):
    """A problem of credentials that a cloud reports.

    Attributes:
        pattern: a regular expression of its messages, whatever their case.
    """

    pattern: str
    text: str
    remedy: str


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One provider.

    Attributes:
        name: its full name, such as `velero.io/aws`.
        open: opens a store of it by a configuration; loads its library. Raises StoreConfigError.
        uploaders: gives what restic and kopia need to know of its stores; None if they do not know them.
        url: None if it is a folder.
        tenants: None if tenants may not use it.
        credentials_variable: the environment variable that names the file of credentials; may be empty.
        credential_problems: for the doctor.
    """

    name: str
    open: "Callable[[Mapping[str, str], Opening], ObjectStore]"
    uploaders: "Callable[[], UploaderStore] | None" = None
    url: StoreURL | None = None
    tenants: TenantRules | None = None
    credentials_variable: str = ""
    credential_problems: tuple[CredentialProblem, ...] = ()

    @property
    def short_name(self) -> str:
        """The name without its domain: `aws`."""
        return self.name.rpartition("/")[2]
