"""A cluster in which a server moves the data of one volume, and what its own controllers do meanwhile."""

import json
from typing import Any, cast

from pinnace.api import labels
from pinnace.api.objects import JSONObject, text
from pinnace.api.values.quantities import size_quantity
from pinnace.api.values.times import format_time
from pinnace.controllers.data_movement import Downloads, MovementReconciler, Uploads
from pinnace.controllers.shared.scope import Scope
from pinnace.csi.movement.exposing import Exposer
from pinnace.csi.movement.preparing import PrepareQueue
from pinnace.csi.movement.snapshots import MovedSnapshots
from pinnace.csi.movement.uploads import CONTENT
from pinnace.kube.resources import (
    CONFIGMAPS,
    DAEMON_SETS,
    DATA_DOWNLOADS,
    DATA_UPLOADS,
    DEPLOYMENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    STORAGE_CLASSES,
)
from pinnace.runtime.keys import Key
from pinnace.volumes.repositories import Repositories
from tests.support.clock import FakeClock
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.cluster.snapshot_crds import kinds
from tests.unit.controllers.fakes import RecordingMetrics

OURS, SHOP, NODE = "velero", "shop", "node-1"
AGENT = {"name": "node-agent"}
KEY: JSONObject = {"data": {"pass": "czNjcjN0"}, "type": "Opaque"}
KMS: JSONObject = {"data": {"url": "https://kms"}, "binaryData": {"b": "AA=="}}
AWAITED = {labels.DYNAMIC_PV_RESTORE: "shop.data.1"}
KINDS = kinds()


class NoRepositories:
    """Every repository is ready."""

    async def ensure(self, *_names: str, **_options: Any) -> None:
        return None


class Stage:
    """A cluster with a claim that waits, and what its own controllers and a node agent would do."""

    def __init__(self, tmp_path: Any) -> None:
        self.clock = FakeClock()
        self.api: ScriptedCluster = ScriptedCluster(self.clock)
        self.scope = Scope(
            client=self.api.client,
            namespace=OURS,
            metrics=cast(Any, RecordingMetrics()),
            workdir=tmp_path,
            clock=self.clock,
        )
        self.class_of: JSONObject = {"metadata": {"name": "fast"}}
        self.api.put(self.class_of, STORAGE_CLASSES, "")
        image = {"spec": {"template": {"spec": {"containers": [{"image": "r/pinnace:1"}]}}}}
        self.api.put({"metadata": {"name": "velero"}, **image}, DEPLOYMENTS, OURS)
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
        }
        self.claim = self.api.put(
            {"metadata": {"name": "data"}, "spec": {**spec, "selector": {"matchLabels": AWAITED}}},
            PERSISTENT_VOLUME_CLAIMS,
            SHOP,
        )
        self.agent_arguments: list[str] = []
        self.policy = "Delete"
        self.reported = {"restoreSize": 1 << 30}
        self.binds = True
        self.secrets_of_volumes: JSONObject = {}
        self.notes_of_volumes: dict[str, str] = {}
        self.storage = ""
        self.resource = DATA_DOWNLOADS
        exposer = Exposer(self.scope.client, OURS)
        self.exposer, self.repositories = exposer, cast(Repositories, NoRepositories())
        self.kind: Downloads | Uploads = Downloads(self.scope, exposer, self.repositories)

    def add_agents(self) -> None:
        """The DaemonSet, with a pod on the only node."""
        containers = [{"image": "r/agent:1", "args": ["node-agent", "server", *self.agent_arguments]}]
        template = {"spec": {"containers": containers}}
        spec = {"selector": {"matchLabels": AGENT}, "template": template}
        self.api.put({"metadata": {"name": "node-agent"}, "spec": spec}, DAEMON_SETS, OURS)
        pod = {"metadata": {"name": "agent", "labels": AGENT}, "spec": {"nodeName": NODE}}
        self.api.put(pod, PODS, OURS)
        self.set_agent(ready=True)

    def add_settings(self, settings: JSONObject) -> None:
        """Node agents whose arguments name a ConfigMap with settings."""
        self.agent_arguments = ["--node-agent-configmap=settings"]
        self.add_agents()
        body = {"metadata": {"name": "settings"}, "data": {"any.json": json.dumps(settings)}}
        self.api.put(body, CONFIGMAPS, OURS)

    def add_companions(self, namespace: str = SHOP) -> None:
        """A Secret and a ConfigMap that the driver reads beside each claim, as the settings say."""
        names = {"secretNames": ["key"], "configMapNames": ["kms"]}
        self.add_settings({"backupPVC": {"fast": names}, "restorePVC": names})
        marks = {"labels": {"velero.io/plugin-config": ""}, "annotations": {"a": "b"}}
        self.api.put({"metadata": {"name": "key", **marks}, **KEY}, SECRETS, namespace)
        self.api.put({"metadata": {"name": "kms", **marks}, **KMS}, CONFIGMAPS, namespace)

    def copies(self) -> list[JSONObject]:
        """What is there of both in the server's namespace."""
        found = (self.api.peek(SECRETS, "key", OURS), self.api.peek(CONFIGMAPS, "kms", OURS))
        return [each for each in found if each is not None]

    def set_agent(self, *, ready: bool) -> None:
        pod = self.api.peek(PODS, "agent", OURS)
        assert pod is not None
        pod["status"] = {"conditions": [{"type": "Ready", "status": str(ready)}]}
        self.api.put(pod, PODS, OURS)

    def add_download(self, **spec: Any) -> None:
        target = {"namespace": SHOP, "pvc": "data", "pv": ""}
        given = {"targetVolume": target, "sourceNamespace": SHOP, "backupStorageLocation": "default", **spec}
        body = {"kind": "DataDownload", "metadata": {"name": "d"}, "spec": given, "status": {}}
        self.api.put(body, DATA_DOWNLOADS, OURS)

    def add_download_in_place(self) -> None:
        """Into the volume that the claim has."""
        self.claim["spec"] = {**self.claim["spec"], "volumeName": "pv"}
        self.claim["status"] = {"phase": "Bound"}
        del self.claim["spec"]["selector"]
        self.api.put(self.claim, PERSISTENT_VOLUME_CLAIMS, SHOP)
        reference = {"namespace": SHOP, "name": "data", "uid": self.claim["metadata"]["uid"]}
        given = {
            "persistentVolumeReclaimPolicy": self.policy,
            "claimRef": reference,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "d", "volumeHandle": "storage"},
            **({"volumeMode": mode} if (mode := text(self.claim, "spec", "volumeMode")) else {}),
        }
        body = {"metadata": {"name": "pv", "annotations": {}}, "spec": given, "status": {"phase": "Bound"}}
        self.api.put(body, PERSISTENT_VOLUMES, "")
        self.storage = "there"
        self.add_download_for_volume()

    def add_download_for_volume(self) -> None:
        """Into the volume "pv" of the claim."""
        self.add_download(
            targetVolume={"namespace": SHOP, "pvc": "data", "pv": "pv"},
            restoreType="full",
            datamover="pinnace-in-place",
        )

    def add_user(self, **status: Any) -> None:
        """A pod that uses the claim."""
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        spec = {"volumes": [volume], "nodeName": NODE}
        self.api.put({"metadata": {"name": "web"}, "spec": spec, "status": status}, PODS, SHOP)

    def add_upload(self) -> None:
        self.resource = DATA_UPLOADS
        moved = MovedSnapshots(self.scope.client, KINDS, OURS)
        self.kind = Uploads(self.scope, self.exposer, self.repositories, moved)
        content = {
            "metadata": {"name": "content"},
            "spec": {
                "driver": "d",
                "deletionPolicy": "Retain",
                "volumeSnapshotRef": {"namespace": SHOP, "name": "snap"},
            },
            "status": {"snapshotHandle": "h", "readyToUse": True, **self.reported},
        }
        self.api.put(content, KINDS.contents, "")
        snapshot = {"metadata": {"name": "snap"}, "status": {"boundVolumeSnapshotContentName": "content"}}
        self.api.put(snapshot, KINDS.snapshots, SHOP)
        spec = {
            "csiSnapshot": {"volumeSnapshot": "snap", "storageClass": "fast"},
            "sourceNamespace": SHOP,
            "sourcePVC": "data",
            "backupStorageLocation": "default",
        }
        metadata = {"name": "d", "annotations": {CONTENT: "content"}}
        body = {"kind": "DataUpload", "metadata": metadata, "spec": spec, "status": {}}
        self.api.put(body, DATA_UPLOADS, OURS)

    @property
    def obj(self) -> JSONObject:
        found = self.api.peek(self.resource, "d", OURS)
        assert found is not None
        return found

    @property
    def phase(self) -> str:
        return text(self.obj, "status", "phase")

    def change(self, **status: Any) -> None:
        obj = self.obj
        obj["status"] = {**obj["status"], **status}
        self.api.put(obj, self.resource, OURS)

    async def step(self) -> None:
        """One pass of a server that knows nothing of those before, and what the cluster does then."""
        queue = PrepareQueue(self.movements, self.exposer.prepare_queue_length)
        await MovementReconciler(self.scope, self.exposer, self.kind, queue).reconcile(Key(OURS, "d"))
        self.cluster_acts()

    def movements(self) -> list[JSONObject]:
        """As an informer shows them."""
        return [*self.api.of(DATA_UPLOADS), *self.api.of(DATA_DOWNLOADS)]

    async def until(self, phase: str) -> None:
        for _ in range(20):
            if self.phase == phase:
                return
            await self.step()
        raise AssertionError(self.obj)

    async def until_over(self) -> None:
        """Until nothing is left to do."""
        for _ in range(40):
            await self.step()
            if self.phase in ("Completed", "Failed", "Canceled") and not self.obj["metadata"]["finalizers"]:
                return
        raise AssertionError(self.obj)

    def transfer(self, phase: str = "Completed") -> None:
        now = format_time(self.clock.now())
        self.change(phase=phase, startTimestamp=now, completionTimestamp=now)

    def cancel(self) -> None:
        obj = self.obj
        obj["spec"]["cancel"] = True
        self.api.put(obj, self.resource, OURS)

    def cluster_acts(self) -> None:
        """Bind claims, start pods, make snapshots ready, delete released volumes."""
        claim = self.api.peek(PERSISTENT_VOLUME_CLAIMS, "d", OURS)
        if claim is not None and "volumeName" not in claim["spec"]:
            claim["spec"]["volumeName"], claim["status"] = "pv", {"phase": "Bound"}
            self.api.put(claim, PERSISTENT_VOLUME_CLAIMS, OURS)
            reference = {"namespace": OURS, "name": "d", "uid": claim["metadata"]["uid"]}
            spec = {
                "persistentVolumeReclaimPolicy": self.policy,
                "claimRef": reference,
                "csi": {
                    "driver": "d",
                    "volumeHandle": "storage",
                    "volumeAttributes": {"pool": "p", "storage.kubernetes.io/csiProvisionerIdentity": "x"},
                    **self.secrets_of_volumes,
                },
                **({"volumeMode": mode} if (mode := text(claim, "spec", "volumeMode")) else {}),
            }
            notes = {"pv.kubernetes.io/provisioned-by": "d", **self.notes_of_volumes}
            metadata = {"name": "pv", "annotations": notes}
            body = {"metadata": metadata, "spec": spec, "status": {"phase": "Bound"}}
            self.api.put(body, PERSISTENT_VOLUMES, "")
            self.storage = "there"
        pod = self.api.peek(PODS, "d", OURS)
        if pod is not None and text(pod, "status", "phase") == "Pending":
            pod["spec"]["nodeName"], pod["status"] = NODE, {"phase": "Running"}
            self.api.put(pod, PODS, OURS)
        self.provisioner_acts()
        for volume in self.api.of(PERSISTENT_VOLUMES):
            self.volume_is_bound_or_released(volume)
        self.claim_is_lost_without_its_volume()
        self.provisioner_acts()
        made = self.api.peek(KINDS.snapshots, "d", OURS)
        if made is not None and "status" not in made:
            made["status"] = {
                "readyToUse": True,
                **{key: size_quantity(self.reported[key]) for key in self.reported},
            }
            self.api.put(made, KINDS.snapshots, OURS)

    def provisioner_acts(self) -> None:
        """Delete a volume that is seen Released with the policy Delete, as all external provisioners do."""
        for volume in self.api.of(PERSISTENT_VOLUMES):
            is_released = text(volume, "status", "phase") == "Released"
            if is_released and text(volume, "spec", "persistentVolumeReclaimPolicy") == "Delete":
                self.api.remove(PERSISTENT_VOLUMES, volume["metadata"]["name"], "")
                self.storage = "deleted"

    def volume_is_bound_or_released(self, volume: JSONObject) -> None:
        """Take one step of the controller of volumes: the volume is Bound before its claim is."""
        owner = volume["spec"]["claimRef"]
        claim = self.api.peek(PERSISTENT_VOLUME_CLAIMS, owner["name"], owner["namespace"])
        if "uid" not in owner:
            if claim is None:
                self.set_phase(volume, "Available")
            else:
                owner["uid"] = claim["metadata"]["uid"]
                self.set_phase(volume, "Bound")
        elif claim is None or claim["metadata"]["uid"] != owner["uid"]:
            self.set_phase(volume, "Released")
        elif text(volume, "status", "phase") != "Bound":
            if self.binds:
                self.set_phase(volume, "Bound")
        elif text(claim, "status", "phase") != "Bound" and _mode(claim) == _mode(volume):
            claim["spec"]["volumeName"], claim["status"] = volume["metadata"]["name"], {"phase": "Bound"}
            self.api.put(claim, PERSISTENT_VOLUME_CLAIMS, owner["namespace"])

    def claim_is_lost_without_its_volume(self) -> None:
        claim = self.api.peek(PERSISTENT_VOLUME_CLAIMS, "data", SHOP)
        name = text(claim, "spec", "volumeName")
        if claim is None or not name:
            return
        volume = self.api.peek(PERSISTENT_VOLUMES, name, "")
        if volume is None or volume["spec"]["claimRef"].get("uid") != claim["metadata"]["uid"]:
            claim["status"] = {"phase": "Lost"}
            self.api.put(claim, PERSISTENT_VOLUME_CLAIMS, SHOP)

    def set_phase(self, volume: JSONObject, phase: str) -> None:
        if text(volume, "status", "phase") != phase:
            self.api.put({**volume, "status": {"phase": phase}}, PERSISTENT_VOLUMES, "")

    def temporary(self) -> list[str]:
        """What was made in the server's namespace, and the contents of snapshots."""
        made = (PERSISTENT_VOLUME_CLAIMS, PODS, KINDS.snapshots)
        found = [kind.kind for kind in made if self.api.peek(kind, "d", OURS) is not None]
        return found + [obj["metadata"]["name"] for obj in self.api.of(KINDS.contents)]


def _mode(obj: JSONObject) -> str:
    return text(obj, "spec", "volumeMode") or "Filesystem"
