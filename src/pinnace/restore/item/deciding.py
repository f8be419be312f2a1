"""Decides what is done about an object that the API server would not create because it exists. Pure.

    existing object          policy none          update             recreate
    ---------------------------------------------------------------------------------------
    is being deleted         error                error              error
    same                     unchanged            labels set         labels set
    volume of a live claim   left alone, warning  labels, warning    labels, warning
    volume of a lost claim   left alone, warning  freed, patched     freed, patched
    ServiceAccount, differs  entries added        entries added      entries added
    binding, lacks mapped    subjects added,      patched, subjects  patched, subjects
      subjects               warning if it        of the originals   of the originals
                             differs otherwise    stay               stay
    differs                  left alone, warning  patched            patched
      patch refused          -                    labels set,        deleted and created again; with
                                                  warning            data behind it: labels set, warning

`life` decides about an item before it is sent, this module afterwards. `writing` carries the decision out; a
preview replaces only `writing`. (docs/spec: RST 17, BEY 5.1; docs/adr/047, 048)
"""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

import msgspec

from pinnace.api import kinds
from pinnace.api.objects import JSONObject
from pinnace.api.restore_outcomes import Outcome
from pinnace.api.velero.restore import ExistingResourcePolicy
from pinnace.kube.errors import APIStatusError, Invalid, KubeError
from pinnace.kube.resources import APIResource
from pinnace.notices.codes import Code

WARNING_DIFFERENT: Final = (
    "could not restore, {error}. Warning: the in-cluster version is different than the backed-up version."
)

_NEVER_RECREATED: Final = {
    kinds.NAMESPACES.group_resource: "everything in it",
    kinds.PERSISTENT_VOLUME_CLAIMS.group_resource: "the data of its volume",
    kinds.PERSISTENT_VOLUMES.group_resource: "the data on it",
    kinds.CUSTOM_RESOURCE_DEFINITIONS.group_resource: "all objects of its kind",
    kinds.VOLUME_SNAPSHOTS.group_resource: "the snapshot in the storage system",
    kinds.VOLUME_SNAPSHOT_CONTENTS.group_resource: "the snapshot in the storage system",
}
"""Kinds whose deletion would delete more than the object, with the text of what else is deleted."""


class Step(Enum):
    """The write that carries out a decision."""

    NOTHING = auto()
    LABELS = auto()
    """The labels of this restore are set on the existing object."""
    ENTRIES = auto()
    """A ServiceAccount or a role binding gets the entries that only the backup has."""
    PATCH = auto()
    RECREATION = auto()


class LostClaim(msgspec.Struct, frozen=True, kw_only=True):
    """The claim of a volume that is gone, so that no claim can be bound to the volume.

    Attributes:
        title: namespace and name.
        remedy: the command that frees the volume.
    """

    title: str
    remedy: str


class Existing(msgspec.Struct, frozen=True, kw_only=True):
    """An object that exists in the cluster already, compared with what a restore would have created.

    Attributes:
        in_cluster: its current state.
        is_terminating: whether it is being deleted.
        is_same: whether the restore would not change it.
        is_cluster_managed: whether the cluster writes it for itself; then the restore does not change it.
        change: the JSON merge patch to the backed-up version; None if it cannot be made.
        live_claim: of a volume that is bound to another claim than the backup says, which would lose it.
        lost_claim: of a volume whose claim is gone.
        missing_subjects: of a role binding: those of mapped namespaces that it lacks.
        differs_otherwise: whether more than they make it differ.
        originals: of a role binding: the mapped namespaces whose accounts have rights by it.
    """

    in_cluster: JSONObject
    is_terminating: bool = False
    is_same: bool = False
    is_cluster_managed: bool = False
    change: JSONObject | None = None
    live_claim: str = ""
    lost_claim: LostClaim | None = None
    missing_subjects: Sequence[JSONObject] = ()
    differs_otherwise: bool = False
    originals: Sequence[str] = ()


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision about one existing object.

    Attributes:
        reason: kept with the outcome.
        warning, error: the message for the results, at most one of them; without the object's name in front.
        code: of that message.
    """

    step: Step
    outcome: Outcome
    reason: str = ""
    warning: str = ""
    error: str = ""
    code: Code = Code.EXISTING_NOT_UPDATED


def decide(
    found: Existing, refusal: APIStatusError, resource: APIResource, policy: ExistingResourcePolicy
) -> Decision:
    """Decide about an object whose create call was refused, and which exists.

    Args:
        refusal: why the server did not create it.
    """
    if found.is_terminating:
        text = "it exists but is being deleted; restore it again when it is gone"
        code = Code.EXISTING_TERMINATING
        return Decision(step=Step.NOTHING, outcome=Outcome.FAILED, reason=text, error=text, code=code)
    labelled = policy != ExistingResourcePolicy.NONE and not found.is_cluster_managed
    if found.missing_subjects and (policy == ExistingResourcePolicy.NONE or found.is_cluster_managed):
        reason, warning = "the accounts of mapped namespaces were added to its subjects", ""
        if found.differs_otherwise:
            reason += "; it differs otherwise, and was left so"
            warning = f"{WARNING_DIFFERENT.format(error=refusal)} Only {reason}"
        code = Code.EXISTING_DIFFERS
        return Decision(step=Step.ENTRIES, outcome=Outcome.UPDATED, reason=reason, warning=warning, code=code)
    if found.is_same:
        return Decision(step=Step.LABELS if labelled else Step.NOTHING, outcome=Outcome.UNCHANGED)
    if resource.group_resource == kinds.SERVICE_ACCOUNTS.group_resource:
        return Decision(step=Step.ENTRIES, outcome=Outcome.UPDATED, reason="entries were added")
    if found.live_claim:
        text = (
            f"it exists and is bound to the claim {found.live_claim}, so it was left as it is, and the"
            " restored claim cannot be bound to it; to get a new and empty volume, delete the restored claim"
            " and create it without volumeName"
        )
        step = Step.LABELS if labelled else Step.NOTHING
        code = Code.VOLUME_IN_USE
        return Decision(step=step, outcome=Outcome.DIFFERENT, reason=text, warning=text, code=code)
    if policy != ExistingResourcePolicy.NONE:
        return Decision(step=Step.PATCH, outcome=Outcome.UPDATED, reason=_freed(found.lost_claim))
    if found.lost_claim is not None:
        text = (
            f"it exists, but its claim {found.lost_claim.title} is gone, and no claim can be bound to it"
            f" until it is freed: {found.lost_claim.remedy}"
        )
        code = Code.VOLUME_NOT_FREED
        return Decision(step=Step.NOTHING, outcome=Outcome.DIFFERENT, reason=text, warning=text, code=code)
    reason = "it exists and differs from the backed-up version"
    # The refusal may name a quota or a webhook: without it, the name would have been taken all the same.
    warning = WARNING_DIFFERENT.format(error=refusal)
    code = Code.EXISTING_DIFFERS
    return Decision(step=Step.NOTHING, outcome=Outcome.DIFFERENT, reason=reason, warning=warning, code=code)


def _freed(lost: LostClaim | None) -> str:
    return f"its claim {lost.title} was gone, and it was freed" if lost is not None else ""


def decide_after_refused_patch(
    refusal: KubeError | None,
    resource: APIResource,
    policy: ExistingResourcePolicy,
    originals: Sequence[str] = (),
) -> Decision:
    """Decide about an object that could not be patched to the backed-up version.

    Args:
        refusal: None if no patch could be made.
        originals: of a role binding: the namespaces whose accounts would lose their rights with it.
    """
    why = str(refusal) if refusal is not None else "it is nested too deeply to be compared"
    what = f"it exists, differs, and could not be updated: {why}"
    if policy == ExistingResourcePolicy.RECREATE and isinstance(refusal, Invalid):
        behind = _NEVER_RECREATED.get(resource.group_resource)
        if originals:
            behind = f"the rights of the accounts in {', '.join(originals)}"
        if behind is None:
            return Decision(
                step=Step.RECREATION, outcome=Outcome.RECREATED, reason=f"it could not be patched: {why}"
            )
        what += f"; it was not deleted and created again, as that would delete {behind}"
    return Decision(step=Step.LABELS, outcome=Outcome.DIFFERENT, reason=what, warning=what)
