"""The resources that `install` creates, in their order. Pure. (docs/spec: CLI 11.2)"""

import base64

from pinnace.api.definitions.crds import crd_manifests
from pinnace.api.objects import JSONObject
from pinnace.installing.access import ACCOUNT, all_rights, used_rights
from pinnace.installing.options import InstallOptions
from pinnace.installing.workloads import daemon_set, deployment, non_admin_deployment
from pinnace.nonadmin import manifests
from pinnace.storage.providers import FILESYSTEM, location_of
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


def resources(options: InstallOptions, namespace: str) -> list[JSONObject]:
    """Everything but the definitions, in the order of creation. `check` has found no problem."""
    made = [_namespace(options, namespace)]
    if not options.service_account:
        made += [*_access(options, namespace), _service_account(options, namespace)]
    if options.secret:
        made.append(_secret(options.secret, namespace))
    if options.repository_password:
        made.append(_repository_secret(options.repository_password, namespace))
    if options.backup_location:
        made.append(_backup_location(options, namespace))
    if options.snapshot_location and options.provider not in FILESYSTEM:
        made.append(_snapshot_location(options, namespace))
    if options.image:
        made.append(deployment(options, namespace))
    if options.node_agent:
        made.append(daemon_set(options, namespace))
    if options.with_non_admin:
        made += _self_service(options, namespace)
    return [_labelled(obj) for obj in made]


def _self_service(options: InstallOptions, namespace: str) -> list[JSONObject]:
    if options.server_is_non_admin:
        return manifests.resources(namespace, account=options.service_account or ACCOUNT)
    made = manifests.resources(namespace)
    return [*made, non_admin_deployment(options, namespace)] if options.image else made


def _labelled(obj: JSONObject) -> JSONObject:
    meta = dict(obj["metadata"])
    meta["labels"] = {**meta.get("labels", {}), **COMPONENT}
    meta.setdefault("creationTimestamp", None)
    return {**{k: v for k, v in obj.items() if k != "status"}, "metadata": meta}


def _namespace(options: InstallOptions, namespace: str) -> JSONObject:
    meta: JSONObject = {"name": namespace}
    if options.node_agent:
        meta["labels"] = dict(NODE_AGENT_LEVEL)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "spec": {}}


def _access(options: InstallOptions, namespace: str) -> list[JSONObject]:
    if options.minimal_rights:
        return used_rights(namespace, features=options.features, node_agent=options.node_agent)
    return all_rights(namespace)


def _service_account(options: InstallOptions, namespace: str) -> JSONObject:
    meta: JSONObject = {"name": "velero", "namespace": namespace}
    if options.service_account_annotations:
        meta["annotations"] = dict(options.service_account_annotations)
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}


def _secret(content: bytes, namespace: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "cloud-credentials", "namespace": namespace},
        "type": "Opaque",
        "data": {"cloud": base64.b64encode(content).decode()},
    }


def _repository_secret(password: bytes, namespace: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET_NAME, "namespace": namespace},
        "type": "Opaque",
        "data": {SECRET_KEY: base64.b64encode(password).decode()},
    }


def _backup_location(options: InstallOptions, namespace: str) -> JSONObject:
    provider, bucket, config = location_of(options.provider, options.bucket, options.backup_location_config)
    storage: JSONObject = {"bucket": bucket}
    if options.prefix:
        storage["prefix"] = options.prefix
    if options.ca_cert:
        storage["caCert"] = base64.b64encode(options.ca_cert).decode()
    spec: JSONObject = {"provider": provider, "objectStorage": storage, "default": True}
    if config:
        spec["config"] = config
    return _velero("BackupStorageLocation", namespace, spec)


def _snapshot_location(options: InstallOptions, namespace: str) -> JSONObject:
    spec: JSONObject = {"provider": options.provider}
    if options.snapshot_location_config:
        spec["config"] = dict(options.snapshot_location_config)
    return _velero("VolumeSnapshotLocation", namespace, spec)


def _velero(kind: str, namespace: str, spec: JSONObject) -> JSONObject:
    return {
        "apiVersion": "velero.io/v1",
        "kind": kind,
        "metadata": {"name": "default", "namespace": namespace},
        "spec": spec,
    }
