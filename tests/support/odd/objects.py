"""Objects with odd content, of the kinds of our definitions and to their schemas, from one seed."""

import random
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pinnace.api.definitions.crds import crd_manifests
from pinnace.api.nonadmin.definitions import nonadmin_crds
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.kube.resources import APIResource
from tests.support.odd import values

_WEIGHTS: Final[Mapping[str, int]] = {
    "Backup": 12,
    "Restore": 10,
    "NonAdminBackup": 8,
    "NonAdminRestore": 6,
    "Schedule": 6,
    "DeleteBackupRequest": 6,
    "BackupStorageLocation": 4,
    "ServerStatusRequest": 2,
    "ResticRepository": 1,
}
_USUAL_WEIGHT: Final = 4
_DEEPEST: Final = 200
_UNDER_WAY: Final = "WaitingFor", "Finalizing", "InProgress"


class OddObjects:
    """Makes objects; the same ones for the same seed.

    Args:
        namespace: the server's.
        tenant: the namespace of the self-service kinds, and of what is backed up.
    """

    def __init__(self, seed: int, *, namespace: str, tenant: str) -> None:
        self._random = random.Random(seed)
        self._namespace = namespace
        self._tenant = tenant
        self._kinds = [_Kind(manifest) for manifest in (*crd_manifests(), *nonadmin_crds())]

    def make(self, count: int) -> Iterator[tuple[APIResource, JSONObject]]:
        """That many objects, each with its kind."""
        weights = [_WEIGHTS.get(kind.name, _USUAL_WEIGHT) for kind in self._kinds]
        for number in range(count):
            kind = self._random.choices(self._kinds, weights)[0]
            yield kind.resource, self._object(kind, number)

    def _object(self, kind: "_Kind", number: int) -> JSONObject:
        chance = self._random.random
        is_tenants = kind.resource.group.startswith("oadp") and not kind.name.endswith("LocationRequest")
        metadata: JSONObject = {
            "name": f"odd-{number}" if chance() < 0.97 else f"odd-{number}-{'n' * 230}",
            "namespace": self._tenant if is_tenants else self._namespace,
        }
        if chance() < 0.2:
            label = self._random.choice(values.LABELS[:-1])
            metadata["labels"] = {label: self._random.choice(("odd-1", "", "x"))}
        if chance() < 0.2:
            metadata["annotations"] = {self._random.choice(values.LABELS): self._random.choice(values.TEXTS)}
        made: JSONObject = {"apiVersion": kind.resource.api_version, "kind": kind.name, "metadata": metadata}
        for part in kind.schema.get("properties", {}):
            if part == "spec" or (part == "status" and chance() < 0.35):
                made[part] = self._value(part, mapping(kind.schema, "properties", part), kind.name)
        return self._tamed(made)

    def _tamed(self, made: JSONObject) -> JSONObject:
        """The object without what would reach another machine, or last longer than a test."""
        for spec in (mapping(made, "spec"), mapping(made, "spec", "backupStorageLocationSpec")):
            if "provider" in spec or "objectStorage" in spec or made["kind"].endswith("Location"):
                spec["config"] = {**mapping(spec, "config"), **values.LOOPBACK}
                spec.pop("default", None)
        if text(made, "status", "phase").startswith(_UNDER_WAY):
            # What another program has under way is ended after an hour, which a test does not wait for.
            del made["status"]["phase"]
        return made

    def _value(self, name: str, schema: JSONObject, kind: str) -> Any:
        pick, chance = self._random.choice, self._random.random
        if found := schema.get("enum"):
            return pick(found)
        match schema.get("type"):
            case "object":
                return self._members(name, schema, kind)
            case "array":
                items = mapping(schema, "items")
                # Long lists are of texts only: lists in lists would grow without end.
                count = 1000 if items.get("type") == "string" and chance() < 0.03 else pick((0, 1, 1, 2, 3))
                return [self._value(name, items, kind) for _ in range(count)]
            case "integer" | "number":
                return pick(values.NUMBERS)
            case "boolean":
                return chance() < 0.5
        return self._text(name, schema)

    def _members(self, name: str, schema: JSONObject, kind: str) -> JSONObject:
        pick, chance = self._random.choice, self._random.random
        wanted = set(schema.get("required") or ())
        made = {
            each: self._value(each, inner, kind)
            for each, inner in mapping(schema, "properties").items()
            if each in wanted or chance() < 0.35
        }
        if isinstance(more := schema.get("additionalProperties"), dict):
            made |= {pick(values.LABELS[:-1]): self._value(name, more, kind) for _ in range(pick((0, 1, 2)))}
        if schema.get("x-kubernetes-preserve-unknown-fields") and chance() < 0.1:
            deep: Any = "end"
            for _ in range(pick((3, _DEEPEST))):
                deep = {"d": deep}
            made["ofNobody"] = deep
        return made

    def _text(self, name: str, schema: JSONObject) -> str:
        pick, lower = self._random.choice, name.lower()
        if schema.get("format") == "date-time":
            return pick(values.DATES)
        if lower.endswith(("ttl", "timeout", "period", "frequency", "waittimeout")):
            return pick(values.DURATIONS)
        if lower == "schedule":
            return pick(values.CRONS)
        if lower == "provider":
            return pick(values.PROVIDERS)
        if "namespace" in lower:
            return pick((self._tenant, self._tenant, self._tenant, "nowhere", "*", "x" * 80, ""))
        if lower.endswith(("name", "location", "names")) or lower == "storagelocations":
            return pick(values.NAMES)
        if lower.endswith("resources"):
            return pick(("configmaps", "secrets", "pods", "nothing", "*", "cm", *values.TEXTS))
        return pick(values.TEXTS)


class _Kind:
    """One definition, in its stored version."""

    def __init__(self, manifest: JSONObject) -> None:
        spec = manifest["spec"]
        version = next(each for each in spec["versions"] if each["storage"])
        self.name: str = spec["names"]["kind"]
        self.schema: JSONObject = version["schema"]["openAPIV3Schema"]
        self.resource = APIResource(
            group=spec["group"],
            version=version["name"],
            name=spec["names"]["plural"],
            kind=self.name,
            namespaced=True,
        )


def dated(namespace: str) -> Iterator[JSONObject]:
    """One object for each date that once held a server, or ended a command for everybody."""
    velero = "velero.io/v1"
    late, early, never = values.DATES[6], values.DATES[3], values.DATES[4]

    def made(
        kind: str, name: str, spec: JSONObject, status: JSONObject | None = None, **more: Any
    ) -> JSONObject:
        version = "velero.io/v2alpha1" if kind.startswith("Data") else velero
        body = {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace, **more},
        }
        return {**body, "spec": spec, **({"status": status} if status else {})}

    include = {
        "includedNamespaces": [namespace],
        "includedResources": ["configmaps"],
        "snapshotVolumes": False,
    }
    yield made("Backup", "dated-1", include, {"startTimestamp": late})
    yield made(
        "Backup",
        "dated-2",
        include,
        {"csiVolumeSnapshotsAttempted": -1, "errors": -5, "failureReason": "old"},
    )
    yield made("Backup", "dated-3", {}, {"phase": "Completed", "expiration": late})
    yield made("Backup", "dated-4", {}, {"phase": "Completed", "startTimestamp": never})
    yield made("Restore", "dated-1", {"backupName": "dated-3"}, {"startTimestamp": early})
    yield made("Restore", "dated-2", {"backupName": "z"}, {"phase": "Completed", "startTimestamp": early})
    template = {"schedule": "0 3 * * *", "template": {}}
    yield made("Schedule", "dated-1", template, {"lastBackup": late})
    yield made("Schedule", "dated-2", template, {"lastBackup": never})
    note = {"pinnace.io/verify": "* * * * *", "pinnace.io/last-verification": f"{late} ok x"}
    yield made("Schedule", "dated-3", template, annotations=note)
    repository = {
        "backupStorageLocation": "default",
        "maintenanceFrequency": "1h",
        "volumeNamespace": namespace,
        "repositoryType": "restic",
    }
    yield made(
        "BackupRepository", "dated-1", repository, {"phase": "Ready", "lastMaintenanceTime": values.DATES[5]}
    )
    yield made("BackupRepository", "dated-2", repository, {"phase": "Ready", "lastMaintenanceTime": early})
