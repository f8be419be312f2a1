"""Volumes of a CSI driver are saved file by file: the kubelet mounts them one level deeper than others."""

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from pinnace.volumes.host_paths import CSI_NOTES
from tests.support.csi_cluster import CLASS
from tests.support.node_stages import FILES, Stage
from tests.support.pods import busybox_pod


@pytest.mark.spec("PVL-012")
@pytest.mark.usefixtures("csi_storage")
async def test_a_claim_on_a_csi_volume(stage: Stage) -> None:
    """Into a volume that the driver makes anew."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "claim"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Mi"}},
            "storageClassName": CLASS,
        },
    }
    await stage.client.create(PERSISTENT_VOLUME_CLAIMS, claim, stage.app)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
    await stage.run_pod(busybox_pod("p", mounts={"data": "/data"}, volumes=volumes), "data")
    await stage.fill("p", FILES)
    before = await stage.content("p", "data")
    old = await volume_of(stage)
    with stage.agent():
        backup = await stage.back_up()
        [order] = (await stage.orders("podvolumebackups")).values()

        assert backup["status"]["phase"] == "Completed"
        assert order["status"]["path"].endswith(f"/volumes/kubernetes.io~csi/{old['metadata']['name']}/mount")
        assert order["metadata"]["annotations"][labels.PVC_NAME] == "claim"

        await stage.delete_app()
        restore = await stage.restore()

        assert restore["status"]["phase"] == "Completed"
        await stage.pod("p")
        assert await stage.content("p", "data") == before
        new = await volume_of(stage)
        assert new["spec"]["csi"]["volumeHandle"] != old["spec"]["csi"]["volumeHandle"]
        # The kubelet's notes beside the mount are no content.
        assert CSI_NOTES not in await stage.listing("p", "/data")


async def volume_of(stage: Stage) -> JSONObject:
    """The persistent volume behind the claim."""
    claim = await stage.client.get(PERSISTENT_VOLUME_CLAIMS, "claim", stage.app)
    return await stage.client.get(PERSISTENT_VOLUMES, claim["spec"]["volumeName"])
