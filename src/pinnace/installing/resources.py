"""The resources that `install` creates, in their order. Pure. (docs/spec: CLI 11.2)"""

import base64

from pinnace.api.definitions.crds import crd_manifests
from pinnace.api.objects import JSONObject
from pinnace.installing.access import ACCOUNT, all_rights, used_rights
from pinnace.installing.options import InstallOptions
from pinnace.installing.workloads import daemon_set, deployment, non_admin_deployment
from pinnace.nonadmin import manifests
from pinnace.volumes.uploader.passwords import SECRET_KEY, SECRET_NAME

COMPONENT = {"component": "velero"}
NODE_AGENT_LEVEL = {
    f"pod-security.kubernetes.io/{mode}{name}": value
    for mode in ("enforce", "audit", "warn")
    for name, value in (("", "privileged"), ("-version", "latest"))
}
"""The Pod Security level of a namespace with node agents: they mount a path of the host, which no other level
admits."""


def crds(*, non_admin: bool = False) -> list[JSONObject]:
    """The definitions of all kinds, and those of self-service, with the label that uninstall looks for."""
    more = manifests.crds() if non_admin else []
    return [_labelled(crd) for crd in (*crd_manifests(), *more)]


def resources(options: InstallOptions) -> list[JSONObject]:
    """Everything but the definitions, in the order of creation."""
    made = [_namespace(options)]
    if not options.service_account:
        made += [*_access(options), _service_account(options)]
    if options.secret:
        made.append(_secret(options))
    if options.restic_password:
        made.append(_restic_secret(options))
    if options.backup_location:
        made.append(_backup_location(options))
    if options.snapshot_location and not options.on_filesystem:
        made.append(_snapshot_location(options))
    if options.image:
        made.append(deployment(options))
    if options.node_agent:
        made.append(daemon_set(options))
    if options.non_admin:
        made += _self_service(options)
    return [_labelled(obj) for obj in made]


def _self_service(options: InstallOptions) -> list[JSONObject]:
    if options.server_is_non_admin:
        return manifests.resources(options.namespace, account=options.service_account or ACCOUNT)
    made = manifests.resources(options.namespace)
    return [*made, non_admin_deployment(options)] if options.image else made


def _labelled(obj: JSONObject) -> JSONObject:
    meta = dict(obj["metadata"])
    meta["labels"] = {**meta.get("labels", {}), **COMPONENT}
    meta.setdefault("creationTimestamp", None)
    return {**{k: v for k, v in obj.items() if k != "status"}, "metadata": meta}


def _namespace(options: InstallOptions) -> JSONObject:
    meta: JSONObject = {"name": options.namespace}
    if options.node_agent:
        meta["labels"] = dict(NODE_AGENT_LEVEL)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": {}}


def _access(options: InstallOptions) -> list[JSONObject]:
    if options.used_rights_only:
        return used_rights(options.namespace, features=options.features, node_agent=options.node_agent)
    return all_rights(options.namespace)


def _service_account(options: InstallOptions) -> JSONObject:
    meta: JSONObject = {"name": "velero", "namespace": options.namespace}
    if options.service_account_annotations:
        meta["annotations"] = dict(options.service_account_annotations)
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}


def _secret(options: InstallOptions) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "cloud-credentials", "namespace": options.namespace},
        "type": "Opaque",
        "data": {"cloud": base64.b64encode(options.secret).decode()},
    }


def _restic_secret(options: InstallOptions) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET_NAME, "namespace": options.namespace},
        "type": "Opaque",
        "data": {SECRET_KEY: base64.b64encode(options.restic_password).decode()},
    }


def _backup_location(options: InstallOptions) -> JSONObject:
    storage: JSONObject = {"bucket": options.bucket}
    if options.prefix:
        storage["prefix"] = options.prefix
    if options.ca_cert:
        storage["caCert"] = base64.b64encode(options.ca_cert).decode()
    spec: JSONObject = {"provider": options.provider, "objectStorage": storage, "default": True}
    if options.backup_location_config:
        spec["config"] = dict(options.backup_location_config)
    return _velero("BackupStorageLocation", options.namespace, spec)


def _snapshot_location(options: InstallOptions) -> JSONObject:
    spec: JSONObject = {"provider": options.provider}
    if options.snapshot_location_config:
        spec["config"] = dict(options.snapshot_location_config)
    return _velero("VolumeSnapshotLocation", options.namespace, spec)


def _velero(kind: str, namespace: str, spec: JSONObject) -> JSONObject:
    return {
        "apiVersion": "velero.io/v1",
        "kind": kind,
        "metadata": {"name": "default", "namespace": namespace},
        "spec": spec,
    }
