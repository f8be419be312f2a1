"""Objects as blobs in Azure. (docs/spec: STO 14.3)

Not here: finding credentials (clouds.azure).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pinnace.storage.provider import CredentialProblem, Opening, Provider, StoreURL, TenantRules

if TYPE_CHECKING:
    from pinnace.storage.interface import ObjectStore
    from pinnace.storage.uploader_store import UploaderStore

AZURE_PROVIDER: Final = "velero.io/azure"


def _open(config: Mapping[str, str], opening: Opening) -> "ObjectStore":
    # Imported here: only the library of the provider that is used is loaded.
    from pinnace.storage.azure.config import parse_azure_config
    from pinnace.storage.azure.store import AzureStore

    return AzureStore(parse_azure_config(config), environ=opening.environ, addresses=opening.addresses)


def _credentials_problem(content: str) -> str:
    from pinnace.storage.azure.tenants import credentials_problem

    return credentials_problem(content)


def _uploaders() -> "UploaderStore":
    from pinnace.storage.azure.uploaders import AzureUploaderStore

    return AzureUploaderStore()


PROVIDER: Final = Provider(
    name=AZURE_PROVIDER,
    open=_open,
    uploaders=_uploaders,
    url=StoreURL(
        scheme="azblob",
        holder="container",
        shown=("storageAccount", "resourceGroup"),
        article="an",
        title="Azure URL",
        instead="credentialsFile or storageAccountKeyEnvVar",
        others=dict.fromkeys(("azure", "az", "wasb", "wasbs", "abfs", "abfss"), "azblob://container/prefix"),
        parameters=(
            "storageAccount",
            "resourceGroup",
            "subscriptionId",
            "storageAccountKeyEnvVar",
            "storageAccountURI",
            "blockSizeInBytes",
            "credentialsFile",
            "resticRepoPrefix",
        ),
    ),
    tenants=TenantRules(
        settings=frozenset({"resourceGroup", "storageAccount", "subscriptionId", "blockSizeInBytes"}),
        credentials_problem=_credentials_problem,
    ),
    credentials_variable="AZURE_CREDENTIALS_FILE",
    credential_problems=(
        CredentialProblem(
            r"AADSTS7000222|client secret keys? .*expired",
            "its Azure client secret has expired",
            "make a new client secret of the application, and write it into the credentials",
        ),
        CredentialProblem(
            r"AADSTS7000215|AADSTS700016|invalid_client",
            "its Azure client id or client secret is wrong",
            "compare AZURE_CLIENT_ID and AZURE_CLIENT_SECRET with the application",
        ),
        CredentialProblem(
            r"Signature not valid in the specified time frame|Signed expiry time",
            "its Azure key or signed access is no longer valid",
            "make a new key or token of the storage account, or use a client of its own",
        ),
    ),
)
