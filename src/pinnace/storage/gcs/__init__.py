"""Objects in Google Cloud Storage. (docs/spec: STO 14.2)

Not here: finding credentials (clouds.gcp).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pinnace.storage.provider import CredentialProblem, Opening, Provider, StoreURL, TenantRules

if TYPE_CHECKING:
    from pinnace.storage.interface import ObjectStore
    from pinnace.storage.uploader_store import UploaderStore

GCP_PROVIDER: Final = "velero.io/gcp"


def _open(config: Mapping[str, str], opening: Opening) -> "ObjectStore":
    # Imported here: only the library of the provider that is used is loaded.
    from pinnace.storage.gcs.config import parse_gcs_config
    from pinnace.storage.gcs.store import GCSStore

    return GCSStore(parse_gcs_config(config), environ=opening.environ, addresses=opening.addresses)


def _credentials_problem(content: str) -> str:
    from pinnace.storage.gcs.tenants import credentials_problem

    return credentials_problem(content)


def _uploaders() -> "UploaderStore":
    from pinnace.storage.gcs.uploaders import GCSUploaderStore

    return GCSUploaderStore()


PROVIDER: Final = Provider(
    name=GCP_PROVIDER,
    open=_open,
    uploaders=_uploaders,
    url=StoreURL(
        scheme="gs",
        title="GCS URL",
        instead="credentialsFile",
        others=dict.fromkeys(("gcs", "gcp", "google"), "gs://bucket/prefix"),
        parameters=("credentialsFile", "serviceAccount", "kmsKeyName", "storeEndpoint", "resticRepoPrefix"),
    ),
    tenants=TenantRules(settings=frozenset({"kmsKeyName"}), credentials_problem=_credentials_problem),
    credentials_variable="GOOGLE_APPLICATION_CREDENTIALS",
    credential_problems=(
        CredentialProblem(
            r"invalid_grant|Reauthentication is needed|Token has been expired or revoked",
            "its Google credentials have expired or were revoked",
            "make a new key of the service account, or run `gcloud auth application-default login`",
        ),
    ),
)
