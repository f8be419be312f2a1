"""`backup-location describe` and `snapshot-location describe`."""

from pinnace.api.objects import JSONObject, mapping
from pinnace.api.values.counts import counted
from pinnace.cli.common.describing import View
from pinnace.cli.output import cells, parts
from pinnace.cli.output.layout import Sheet
from pinnace.client.interface import Backend
from pinnace.storage.errors import StorageError
from pinnace.storage.own_settings import KMS_KEYS, RECIPIENTS


async def describe_stored_location(_backend: Backend, location: JSONObject, view: View) -> str:
    """The description of a backup location or snapshot location."""
    return describe_location(location, view)


def _encrypted_for(config: JSONObject) -> str:
    """Who can open the backups of a location; empty if these are plain."""
    if not (RECIPIENTS in config or KMS_KEYS in config):
        return ""
    from pinnace.storage.encryption import kms_keys_of, recipients_of  # few locations have recipients

    settings = {str(key): str(value) for key, value in config.items()}
    try:
        recipients, keys = len(recipients_of(settings)), len(kms_keys_of(settings))
    except StorageError as error:
        return f"<{error}>"
    parts = [counted(recipients, "recipient"), counted(keys, "key of a KMS", "keys of a KMS")]
    return ", ".join(part for part, number in zip(parts, (recipients, keys), strict=True) if number)


def describe_location(location: JSONObject, view: View) -> str:
    """The description as aligned text, without a newline at its end. Credentials are named, never shown."""
    sheet = Sheet(colour=view.colour)
    spec, status = cells.spec(location), cells.status(location)
    parts.metadata(sheet, location["metadata"])
    sheet.line()
    if location.get("kind") != "VolumeSnapshotLocation":
        sheet.field("Phase", parts.painted(sheet, status.get("phase") or "Unknown"))
        if status.get("message"):
            sheet.field("Message", " ".join(str(status["message"]).split()))
        sheet.field("Last validated", cells.local_time(status.get("lastValidationTime"), "<never>"))
        sheet.field("Last synced", cells.local_time(status.get("lastSyncedTime"), "<never>"))
        sheet.line()
        storage = mapping(spec, "objectStorage")
        sheet.field("Bucket", storage.get("bucket") or "<none>")
        sheet.field("Prefix", storage.get("prefix") or "<none>")
        sheet.field("CA certificate", "given" if storage.get("caCert") else "<none>")
        sheet.field("Access mode", spec.get("accessMode") or "ReadWrite")
        sheet.field("Default", "true" if spec.get("default") else "false")
        sheet.field("Backup sync period", spec.get("backupSyncPeriod") or "<the server's>")
        sheet.field("Validation frequency", spec.get("validationFrequency") or "<the server's>")
        if encrypted_for := _encrypted_for(mapping(spec, "config")):
            sheet.field("Encrypted for", encrypted_for)
    sheet.field("Provider", spec.get("provider") or "")
    config = mapping(spec, "config")
    sheet.mapping("Config", {str(key): str(value) for key, value in config.items()})
    credential = mapping(spec, "credential")
    secret = f"key {credential.get('key', '')} of Secret {credential.get('name', '')}"
    sheet.field("Credential", secret if credential.get("name") else "<the server's>")
    return sheet.render()
