"""The restore order of the kinds of an archive. (docs/spec: RST 8, BEY 5.5)"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

CRDS: Final = "customresourcedefinitions"
"""Name of the only kind of the first pass, as a user would write it."""

DEFAULT_PRIORITIES: Final[tuple[str, ...]] = (
    CRDS,
    "namespaces",
    "storageclasses",
    # Singular on purpose: discovery resolves it, and clients compare this list literally.
    "volumesnapshotclass.snapshot.storage.k8s.io",
    "volumesnapshotcontents.snapshot.storage.k8s.io",
    "volumesnapshots.snapshot.storage.k8s.io",
    "datauploads.velero.io",
    "persistentvolumes",
    "persistentvolumeclaims",
    "clusterroles",
    "roles",
    "serviceaccounts",
    "clusterrolebindings",
    "rolebindings",
    "secrets",
    "configmaps",
    "limitranges",
    # The API server refuses a pod whose class does not exist yet, or that no policy of the cluster admits.
    "priorityclasses.scheduling.k8s.io",
    "runtimeclasses.node.k8s.io",
    "podsecuritypolicies.policy",
    "securitycontextconstraints.security.openshift.io",
    "pods",
    # After pods, so that a restored pod is adopted and not created again.
    "replicasets.apps",
    "clusterclasses.cluster.x-k8s.io",
    # Both before services: the control plane creates its own for services, and removes restored ones then.
    "endpoints",
    "endpointslices.discovery.k8s.io",
    "services",
)
"""The default of `--restore-resource-priorities`: the kinds of Velero 1.18, EndpointSlices, needs of pods."""

DEFAULT_LAST: Final[tuple[str, ...]] = (
    "clusterbootstraps.run.tanzu.vmware.com",
    "clusters.cluster.x-k8s.io",
    "clusterresourcesets.addons.cluster.x-k8s.io",
    "apps.kappctrl.k14s.io",
    "packageinstalls.packaging.carvel.dev",
    # They would refuse objects restored after them: the servers of webhooks do not run yet.
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
)
"""The kinds that are restored after all others, by default."""

_BETWEEN: Final = "-"


def read_priorities(names: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """The kinds to restore first and last out of `a,b,-,c`; a part that is not given keeps its default.

    Raises:
        ValueError: there is more than one `-`.
    """
    if names.count(_BETWEEN) > 1:
        raise ValueError(f"takes only one '{_BETWEEN}'")
    position = names.index(_BETWEEN) if _BETWEEN in names else len(names)
    first, last = tuple(names[:position]), tuple(names[position + 1 :])
    return first or DEFAULT_PRIORITIES, last or DEFAULT_LAST


def last_kinds(first: Sequence[str], last: Sequence[str], canonical: Callable[[str], str]) -> frozenset[str]:
    """The `plural.group` of the kinds that come last: those that are not among the first ones too."""
    return frozenset(map(canonical, last)) - frozenset(map(canonical, first))


def main_pass_order(
    first: Sequence[str],
    archived: Iterable[str],
    last: Sequence[str] = (),
    canonical: Callable[[str], str] = str,
) -> list[str]:
    """The names for the main pass: the first ones, then the archive in byte order, then the last ones.

    A resource may come twice, under the same or another name; the caller skips repetitions.

    Args:
        canonical: returns the `plural.group` of a name.
    """
    put_last = last_kinds(first, last, canonical)
    between = [name for name in sorted(archived, key=str.encode) if name not in put_last]
    return [*first, *between, *last]
