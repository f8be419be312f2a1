"""Gives the claims of generic ephemeral volumes to their restored pods.

A cluster makes such a claim of the template in the pod, and the pod owns it; it starts no pod whose claim is
another's, or nobody's. A restore brings the claim back with its data, from whichever kind of backup, before
the pod that is to own it exists. (docs/adr/074)
"""

from collections.abc import Mapping

import msgspec

from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS
from pinnace.notices.codes import Code
from pinnace.restore.cluster import ClusterClient
from pinnace.restore.item.writing import ClusterWriter
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef
from pinnace.volumes.pods.pod_claims import claim_name


class EphemeralClaims(msgspec.Struct, frozen=True, kw_only=True):
    """The claims of the generic ephemeral volumes of the pods of one restore.

    Attributes:
        labels: those that the restore puts on every object it creates.
    """

    client: ClusterClient
    writer: ClusterWriter
    labels: Mapping[str, str]

    async def give_to(self, ref: ItemRef, pod: JSONObject, results: Results) -> bool:
        """Make a pod that was just created the owner of its claims; whether it can start.

        Claims that do not exist are left to the cluster, which makes them of the template. Claims that the
        restore has not created are not changed: with their pod, their data would be deleted.
        """
        can_start = True
        for volume in objects(pod, "spec", "volumes"):
            if volume.get("ephemeral") is None:
                continue
            name = claim_name(pod, volume)
            try:
                problem = await self._give(pod, name)
            except KubeError as error:
                problem = f"its owner could not be set: {error}"
            if problem:
                can_start = False
                claim = f"persistentvolumeclaims/{ref.target_namespace}/{name}"
                ref.fail(
                    results,
                    Code.POD_CANNOT_START,
                    "it was created, but cannot start, so that its volumes are not restored and its hooks"
                    f" not run: its generic ephemeral volume {volume['name']} needs {claim} for itself, and"
                    f" {problem}. Delete pod and claim, and restore both again",
                )
        return can_start

    async def _give(self, pod: JSONObject, name: str) -> str:
        """Why a claim does not become the pod's; empty if it does. Raises KubeError."""
        own, namespace = pod["metadata"], pod["metadata"]["namespace"]
        try:
            claim = await self.client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace)
        except NotFound:
            return ""
        owners = objects(claim, "metadata", "ownerReferences")
        if any(owner.get("uid") == own["uid"] for owner in owners):
            return ""
        if claim["metadata"].get("deletionTimestamp") is not None:
            return ""  # of the former pod; the cluster makes another when it is gone
        if owners:
            return f"that belongs to {text(owners[0], 'kind')} {text(owners[0], 'name')}"
        if not self.labels.items() <= mapping(claim, "metadata", "labels").items():
            return "that existed before the restore, so that it is left as it is"
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": own["name"],
            "uid": own["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        patch = {"metadata": {"uid": claim["metadata"]["uid"], "ownerReferences": [owner]}}
        await self.writer.patch(PERSISTENT_VOLUME_CLAIMS, name, patch, namespace)
        return ""
