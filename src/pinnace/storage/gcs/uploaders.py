"""Google Cloud Storage, as restic and kopia reach it. (docs/spec: STO 15, 16, KOP 2)"""

from collections.abc import Mapping

from pinnace.api.velero.storage_location import BackupStorageLocationSpec
from pinnace.storage.uploader_store import KopiaSecrets, KopiaStorage, UploaderCall, UploaderStore


class GCSUploaderStore(UploaderStore):
    """See UploaderStore."""

    holds_for_good = True

    def restic_address(self, config: Mapping[str, str], bucket: str, directory: str, region: str) -> str:
        """`gs:bucket:/directory`."""
        return f"gs:{bucket}:/{directory}"

    async def restic_environment(self, call: UploaderCall) -> Mapping[str, str | None]:
        """The file of credentials, where the location has one."""
        file = call.settings.get("credentialsFile", "")
        return {"GOOGLE_APPLICATION_CREDENTIALS": file} if file else {}

    def kopia_storage(self, spec: BackupStorageLocationSpec, bucket: str, prefix: str) -> KopiaStorage:
        """The bucket."""
        return KopiaStorage(
            kind="gcs",
            options={"bucket": bucket, "prefix": prefix},
            flags=(f"--bucket={bucket}", f"--prefix={prefix}"),
        )

    async def kopia_secrets(self, call: UploaderCall) -> KopiaSecrets:
        """The file of credentials, where the location has one."""
        file = call.settings.get("credentialsFile", "")
        if not file:
            return KopiaSecrets()
        return KopiaSecrets(options={"credentialsFile": file}, flags=(f"--credentials-file={file}",))
