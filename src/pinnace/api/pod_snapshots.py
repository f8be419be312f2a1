"""The snapshots of pod volumes, as a restore passes them to the collaborators that fill volumes. Pure."""

import msgspec

from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.pod_volume import RESTIC


def out_of_reach(pod: JSONObject) -> str:
    """Why no node agent can ever reach the volumes of a pod; empty if one can.

    Agents run on Linux only. A pod says that it needs Windows by `spec.os`, or by a node selector.
    """
    of_pod = (
        text(pod, "spec", "os", "name"),
        mapping(pod, "spec", "nodeSelector").get("kubernetes.io/os"),
    )
    return "the pod needs a Windows node, where no node agent runs" if "windows" in of_pod else ""


class SavedSnapshot(msgspec.Struct, frozen=True):
    """A snapshot of a volume.

    Attributes:
        id: as its uploader names it.
        uploader: the program that saved it.
        size_bytes: of what a restore writes; 0 if that is not known.
    """

    id: str
    uploader: str = RESTIC
    size_bytes: int = 0
