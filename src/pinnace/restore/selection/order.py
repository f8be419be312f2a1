"""The order in which the kinds of an archive are restored. (docs/spec: RST 8)"""

from collections.abc import Iterable, Sequence

CRDS = "customresourcedefinitions"
"""Name of the only kind of the first pass, as a user would write it."""

DEFAULT_PRIORITIES: tuple[str, ...] = (
    CRDS,
    "namespaces",
    "storageclasses",
    # Singular on purpose: discovery resolves it, and clients compare this list literally.
    "volumesnapshotclass.snapshot.storage.k8s.io",
    "volumesnapshotcontents.snapshot.storage.k8s.io",
    "volumesnapshots.snapshot.storage.k8s.io",
    "persistentvolumes",
    "persistentvolumeclaims",
    "secrets",
    "configmaps",
    "serviceaccounts",
    "limitranges",
    # Not in v1.6.3: the API server refuses a pod whose class does not exist yet. (docs/spec: RST 8)
    "priorityclasses.scheduling.k8s.io",
    "pods",
    "replicasets.apps",
    "clusters.cluster.x-k8s.io",
    "clusterresourcesets.addons.cluster.x-k8s.io",
)
"""The server's default for `--restore-resource-priorities`."""


def main_pass_order(priorities: Sequence[str], archived: Iterable[str]) -> list[str]:
    """The names for the main pass: the priorities, then everything in the archive in byte order.

    A resource may come twice, under the same or another name; the caller skips repetitions.
    """
    return [*priorities, *sorted(archived, key=str.encode)]
