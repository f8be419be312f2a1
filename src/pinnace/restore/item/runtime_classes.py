"""Takes off a pod what its RuntimeClass put there in the old cluster. Pure. (docs/spec: RST 16.2)

The class adds its node selector and tolerations to each pod that names it, and the API server refuses a pod
whose selector says otherwise. A restored pod gets those of the class in this cluster.
"""

from typing import Final

from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.archive.errors import MissingItem
from pinnace.restore.errors import ItemError
from pinnace.restore.selection.reading import ItemReader, ItemRef, decode

_KIND: Final = "runtimeclasses.node.k8s.io"


def forget_scheduling(pod: JSONObject, reader: ItemReader) -> None:
    """Remove, in place, what the pod's class in the backup says of nodes; nothing if the backup has none."""
    name = text(pod, "spec", "runtimeClassName")
    if not name:
        return
    ref = ItemRef(_KIND, "", "", name)
    try:
        scheduling = mapping(decode(ref, reader.read(_KIND, "", name)), "scheduling")
    except (MissingItem, ItemError):
        return  # it is reported with its own item
    spec = mapping(pod, "spec")
    for label, value in mapping(scheduling, "nodeSelector").items():
        if mapping(spec, "nodeSelector").get(label) == value:
            del spec["nodeSelector"][label]
    tolerations = listed(scheduling, "tolerations")
    if tolerations and listed(spec, "tolerations"):
        spec["tolerations"] = [each for each in spec["tolerations"] if each not in tolerations]
