"""Creates one prepared item, or carries out the decision about the existing object. (RST 17, BEY 5.1)

The decisions are those of `deciding`; everything that changes the cluster goes through `ClusterWriter`.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import msgspec
import orjson
from msgspec.structs import replace

from pinnace.api.codec import merge_patch
from pinnace.api.kinds import NAMESPACES
from pinnace.api.objects import JSONObject, dump_json, objects, same_json, text
from pinnace.api.restore_outcomes import Outcome
from pinnace.api.velero.restore import ExistingResourcePolicy
from pinnace.kube.errors import AlreadyExists, APIStatusError, Conflict, Invalid, KubeError, NotFound
from pinnace.kube.resources import APIResource
from pinnace.kube.transport.retrying import is_open
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.cluster import TargetCluster
from pinnace.restore.item.bindings import with_subjects
from pinnace.restore.item.conflicts import comparable, merged_service_account
from pinnace.restore.item.deciding import Decision, Existing, Step, decide, decide_after_refused_patch
from pinnace.restore.item.existing import ExistingObjects
from pinnace.restore.item.managed_fields import OF_THE_RESTORE, Ownership
from pinnace.restore.item.services import SERVICES, advice, without_lacking_families
from pinnace.restore.item.writing import ClusterWriter
from pinnace.restore.journal import ExistingEntry
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef, decode

_MERGE_ATTEMPTS: Final = 5
"""Controllers write ServiceAccounts too; each attempt starts from the current version."""


class ApplyRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for every object of one restore.

    Attributes:
        labels: put on every object.
        policy: the policy for existing objects.
        only_namespaced: whether the policy applies to namespaced objects only, as for tenants.
        namespaces: those in the backup that are restored under other names.
    """

    labels: Mapping[str, str]
    policy: ExistingResourcePolicy = ExistingResourcePolicy.NONE
    only_namespaced: bool = False
    namespaces: Mapping[str, str] = {}

    def policy_for(self, resource: APIResource) -> ExistingResourcePolicy:
        """The policy for objects of a kind; namespaces are never changed."""
        if resource.group_resource == NAMESPACES.group_resource or (
            self.only_namespaced and not resource.namespaced
        ):
            return ExistingResourcePolicy.NONE
        return self.policy


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """An item as it is sent.

    Attributes:
        raw: its bytes in the backup.
        status: the status to write through the sub-resource after its creation; None for none.
        plain_status: its status in the backup, where that is a field like others, to be sent only if the API
            server refuses the item without it; None if there is none, or the item has it already.
        ownership: of its fields.
        is_modified: whether resource modifiers changed it.
        others: returns the item in other versions that the server may accept after such a refusal.
    """

    ref: ItemRef
    resource: APIResource
    item: JSONObject
    raw: bytes
    status: JSONObject | None = None
    plain_status: JSONObject | None = None
    ownership: Ownership = OF_THE_RESTORE
    is_modified: bool = False
    others: Callable[[type[KubeError]], Awaitable[list[tuple[APIResource, JSONObject]]]]

    @property
    def namespace(self) -> str | None:
        """The target namespace."""
        return self.ref.target_namespace or None

    @property
    def with_plain_status(self) -> "Prepared":
        """The item with the status that the API server requires."""
        item = {**self.item, "status": self.plain_status}
        return replace(self, item=item, plain_status=None)


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a prepared item.

    Attributes:
        created: the API server's answer if the object was created, or created again.
        in_cluster: the object that existed, if it was left in place.
        resource: the kind in the version of the created object, if the item has another one.
    """

    outcome: Outcome
    reason: str = ""
    created: bytes | None = None
    in_cluster: JSONObject | None = None
    resource: APIResource | None = None


class Applier:
    """Applies prepared items, many at the same time."""

    def __init__(self, target: TargetCluster, writer: ClusterWriter, rules: ApplyRules) -> None:
        self._client = target.client
        self._log = target.log
        self._writer = writer
        self._rules = rules
        self._requiring_status: set[str] = set()
        self._journal = target.journal
        self.existing = ExistingObjects(target, rules.labels, namespaces=rules.namespaces)

    async def apply(self, sent: Prepared, results: Results) -> Applied:
        """Create the object, or act on the one that exists; warnings go to the results.

        Raises:
            ItemError: the object was refused, or could not be read.
        """
        ref = sent.ref
        if sent.plain_status is not None and ref.group_resource in self._requiring_status:
            sent = sent.with_plain_status
        try:
            body = dump_json(sent.item)
        except orjson.JSONEncodeError as error:
            raise ref.error(Code.ITEM_UNREADABLE, str(error)) from error
        try:
            answer = await self._writer.create(
                sent.resource,
                ref.name,
                body,
                sent.namespace,
                is_ours=self._has_labels_of_restore,
                field_manager=sent.ownership.creator,
            )
        except KubeError as error:
            if sent.plain_status is not None and isinstance(error, Invalid):
                # A rule in CEL may require a status too, in words of its own and of some objects only.
                if _requires_status(error):
                    self._requiring_status.add(ref.group_resource)
                return await self.apply(sent.with_plain_status, results)
            if ref.group_resource == SERVICES and (fewer := without_lacking_families(sent.item, error)):
                item, families = fewer
                self._log_done(sent, f"the cluster lacks {families}", "Left out IP families of a Service")
                return await self.apply(replace(sent, item=item), results)
            return await self._refused(sent, body, error, results)
        await self._finish(sent, answer, results)
        former = self._former(sent)
        if former is not None and former.outcome is Outcome.RECREATED:
            return Applied(outcome=former.outcome, reason=former.reason, created=answer)
        return Applied(outcome=Outcome.CREATED, created=answer)

    def _former(self, sent: Prepared) -> ExistingEntry | None:
        """What the restore noted of an object before it was interrupted."""
        return self._journal.former(*sent.ref.key)

    async def _made_before(self, sent: Prepared) -> Applied | None:
        """The outcome of an object that the restore created before it was interrupted.

        What followed its creation then may be missing, and is done again.
        """
        if not self._journal.is_resumed:
            return None
        name = sent.item["metadata"]["name"]
        try:
            found = await self._client.get(sent.resource, name, sent.namespace)
        except KubeError:
            return None  # the comparison says what is wrong
        if not self._journal.is_own(sent.ref.group_resource, found):
            return None
        self._log_done(sent, "the interrupted restore created it", "The object is there already")
        former, answer = self._former(sent), dump_json(found)
        outcome, reason = (Outcome.CREATED, "") if former is None else (former.outcome, former.reason)
        return Applied(outcome=outcome, reason=reason, created=answer)

    async def _note(self, sent: Prepared, found: Existing, decision: Decision) -> None:
        """Note an existing object before it is changed."""
        await self._journal.note(
            ExistingEntry(
                resource=sent.ref.group_resource,
                namespace=sent.ref.target_namespace,
                name=sent.ref.name,
                uid=text(found.in_cluster, "metadata", "uid"),
                outcome=decision.outcome,
                reason=decision.reason,
                warning=decision.warning,
                code=decision.code,
            )
        )

    def _has_labels_of_restore(self, found: JSONObject) -> bool:
        given = found["metadata"].get("labels") or {}
        return given.items() >= self._rules.labels.items()

    async def _refused(self, sent: Prepared, body: bytes, error: KubeError, results: Results) -> Applied:
        """Find out whether the object exists, and act on it.

        A server may refuse an existing object before it checks the name: for a full quota, by a webhook, a
        Service for its own port. (docs/spec: RST 17)
        """
        ref = sent.ref
        if not isinstance(error, APIStatusError):
            raise ref.error(Code.OBJECT_INVALID, str(error), error) from error
        if (made := await self._made_before(sent)) is not None:
            assert made.created is not None
            await self._finish(sent, made.created, results)
            return made
        try:
            found = await self.existing.compare(
                ref,
                sent.resource,
                sent.item,
                partial(_in_target, ref, sent.raw),
                is_modified=sent.is_modified,
            )
        except KubeError as problem:
            if isinstance(problem, NotFound):
                return await self._create_in_another_version(sent, error, results)
            if not isinstance(error, AlreadyExists):
                raise ref.error(Code.OBJECT_INVALID, str(error), error) from error
            message = f"could not compare with the existing object {ref.id}: {problem}"
            results.warnings.add(ref.target_namespace, Notice(Code.EXISTING_NOT_COMPARED, message))
            return Applied(outcome=Outcome.DIFFERENT, reason=message)
        decision = decide(found, error, sent.resource, self._rules.policy_for(sent.resource))
        decision = await self._continued(sent, decision, results)
        return await self._carry_out(sent, body, found, decision, results)

    async def _create_in_another_version(
        self, sent: Prepared, error: APIStatusError, results: Results
    ) -> Applied:
        """Create an object that was refused in its version in the first other one that is accepted."""
        ref, refusals = sent.ref, [str(error)]
        for resource, item in await sent.others(type(error)):
            try:
                answer = await self._writer.create(
                    resource,
                    ref.name,
                    dump_json(item),
                    sent.namespace,
                    is_ours=self._has_labels_of_restore,
                    field_manager=sent.ownership.creator,
                )
            except KubeError as refusal:
                refusals.append(f"in version {resource.version}: {refusal}")
                continue
            # Without the refusal, which names the object, so that equal reasons are kept once.
            reason = f"created in version {resource.version}, as version {sent.resource.version} refuses it"
            self._log_done(sent, f"{reason}: {error}", "Created the object in another version")
            await self._finish(replace(sent, resource=resource, item=item), answer, results)
            return Applied(outcome=Outcome.CREATED, reason=reason, created=answer, resource=resource)
        hint = advice(sent.item, error) if ref.group_resource == SERVICES else ""
        raise ref.error(Code.OBJECT_INVALID, f"{'; '.join(refusals)}{hint}", error) from error

    def _log_done(self, sent: Prepared, reason: str, event: str) -> None:
        ref = sent.ref
        self._log.info(event, reason=reason, **ref.fields)

    async def _carry_out(
        self, sent: Prepared, body: bytes, found: Existing, decision: Decision, results: Results
    ) -> Applied:
        ref = sent.ref
        if decision.error:
            raise ref.error(decision.code, decision.error)
        if decision.step is Step.PATCH:
            decision = await self._patch(sent, found, decision, results)
        if decision.step is Step.ENTRIES:
            decision = await self._add_entries(sent, found, decision, results)
        if decision.step is Step.RECREATION:
            return await self._recreate(sent, body, found, decision, results)
        if decision.step is Step.LABELS:
            await self._label(sent, found, decision, results)
        if sent.status is not None and not found.is_cluster_managed:
            decision = await self._restore_status_of_existing(sent, sent.status, found, decision, results)
        if decision.warning:
            said = decision.warning
            named = said if said.startswith("could not") else f"could not restore {ref.id}: {said}"
            ref.warn(results, _code_of(decision, ref), named)
        self._log_done(sent, decision.reason, _LOGGED[decision.outcome])
        return Applied(outcome=decision.outcome, reason=decision.reason, in_cluster=found.in_cluster)

    async def _continued(self, sent: Prepared, decision: Decision, results: Results) -> Decision:
        """The decision about an object that the restore changed before it was interrupted.

        Where nothing is left to change, it is the decision of then.
        """
        former = self._former(sent)
        is_done = decision.step in (Step.NOTHING, Step.LABELS) and not decision.error
        if former is None or former.outcome is not Outcome.UPDATED or not is_done:
            return decision
        await self._give_owners(sent, results)
        return replace(
            decision,
            outcome=former.outcome,
            reason=former.reason,
            warning=former.warning,
            code=former.notice_code(decision.code),
        )

    async def _patch(self, sent: Prepared, found: Existing, decision: Decision, results: Results) -> Decision:
        """Patch the object to the backed-up version; return the decision to carry out if that is refused."""
        refusal: KubeError | None = None
        if found.change is not None:
            patch = _with_labels(found.change, self._missing_labels(found))
            await self._note(sent, found, decision)
            try:
                await self._writer.patch(sent.resource, sent.ref.name, patch, sent.namespace)
            except KubeError as error:
                refusal = error
            else:
                await self._give_owners(sent, results)
                return decision
        policy = self._rules.policy_for(sent.resource)
        return decide_after_refused_patch(refusal, sent.resource, policy, found.originals)

    async def _recreate(
        self, sent: Prepared, body: bytes, found: Existing, decision: Decision, results: Results
    ) -> Applied:
        others = [(resource, dump_json(item)) for resource, item in await sent.others(Invalid)]
        await self._note(sent, found, decision)
        try:
            resource, answer = await self._writer.recreate(
                [(sent.resource, body), *others],
                found.in_cluster,
                sent.namespace,
                field_manager=sent.ownership.creator,
            )
        except KubeError as error:
            raise sent.ref.error(
                Code.EXISTING_NOT_REPLACED,
                f"{decision.reason}; it could not be deleted to be created again: {error}",
            ) from error
        self._log_done(sent, decision.reason, _LOGGED[Outcome.RECREATED])
        await self._finish(replace(sent, resource=resource), answer, results)
        return Applied(outcome=Outcome.RECREATED, reason=decision.reason, created=answer, resource=resource)

    def _missing_labels(self, found: Existing) -> dict[str, str]:
        present = found.in_cluster["metadata"].get("labels") or {}
        return {name: value for name, value in self._rules.labels.items() if present.get(name) != value}

    async def _label(self, sent: Prepared, found: Existing, decision: Decision, results: Results) -> None:
        """Set the labels of this restore on the existing object."""
        missing = self._missing_labels(found)
        if not missing:
            return
        patch: JSONObject = {"metadata": {"labels": missing}}
        await self._note(sent, found, decision)
        try:
            await self._writer.patch(sent.resource, sent.ref.name, patch, sent.namespace)
        except KubeError as error:
            message = (
                f"could not set the labels of this restore on the existing object {sent.ref.id}: {error}"
            )
            sent.ref.warn(results, Code.LABELS_NOT_SET, message)

    async def _add_entries(
        self, sent: Prepared, found: Existing, decision: Decision, results: Results
    ) -> Decision:
        """Add the entries to a ServiceAccount or a role binding that only the backup has."""
        namespace, current = sent.namespace, found.in_cluster
        is_labelled = self._rules.policy_for(sent.resource) != ExistingResourcePolicy.NONE
        labelled = is_labelled and not found.is_cluster_managed
        is_noted = False
        for attempt in range(1, _MERGE_ATTEMPTS + 1):
            before = comparable(current, self._rules.labels)
            if found.missing_subjects:
                merged = with_subjects(before, found.missing_subjects)
            else:
                merged = merged_service_account(before, sent.item)
            patch = merge_patch(before, merged)
            if labelled:
                patch = _with_labels(patch, self._missing_labels(Existing(in_cluster=current)))
            if not patch:
                done = Decision(step=Step.NOTHING, outcome=Outcome.UNCHANGED)
                return await self._continued(sent, done, results)
            # Lists are replaced as a whole: without the version, a token added meanwhile would be lost.
            version = {"resourceVersion": current["metadata"]["resourceVersion"]}
            patch["metadata"] = {**patch.get("metadata", {}), **version}
            if not is_noted:
                await self._note(sent, found, decision)
                is_noted = True
            try:
                await self._writer.patch(sent.resource, sent.ref.name, patch, namespace)
            except KubeError as error:
                # After a patch without an answer the entries may be there already: then no patch is left.
                if attempt == _MERGE_ATTEMPTS or not (isinstance(error, Conflict) or is_open(error)):
                    return self._entries_refused(sent, error, labelled=labelled)
                try:
                    current = await self._client.get(sent.resource, sent.ref.name, namespace)
                except KubeError as problem:
                    return self._entries_refused(sent, problem, labelled=labelled)
            else:
                break
        return replace(decision, step=Step.NOTHING)

    def _entries_refused(self, sent: Prepared, error: KubeError, *, labelled: bool) -> Decision:
        why = f"could not add to the existing object {sent.ref.id}: {error}"
        step = Step.LABELS if labelled else Step.NOTHING
        return Decision(step=step, outcome=Outcome.DIFFERENT, reason=why, warning=why)

    async def _finish(self, sent: Prepared, answer: bytes, results: Results) -> None:
        """Write the status of a created object, where that is asked for, and the owners of its fields."""
        if sent.status is not None:
            try:
                stored = orjson.loads(answer)
                await self._writer.write_status(sent.resource, stored, sent.status, sent.namespace)
            except (KubeError, RecursionError) as error:
                results.warnings.add(sent.ref.target_namespace, _status_problem(sent, error))
        if sent.status is not None or not sent.ownership.is_complete:
            await self._give_owners(sent, results)

    async def _restore_status_of_existing(
        self, sent: Prepared, status: JSONObject, found: Existing, decision: Decision, results: Results
    ) -> Decision:
        """Write the status of an object that existed, if the policy allows it; else say that it differs."""
        current = found.in_cluster.get("status")
        is_same = isinstance(current, dict) and same_json(current, status)
        if is_same or decision.outcome not in (Outcome.UNCHANGED, Outcome.UPDATED):
            return decision
        if self._rules.policy_for(sent.resource) == ExistingResourcePolicy.NONE:
            why = "it exists with another status, and the policy for existing objects is none"
            return replace(
                decision,
                outcome=Outcome.DIFFERENT,
                reason=why,
                warning=f"could not restore the status of {sent.ref.id}: {why}",
                code=Code.STATUS_NOT_RESTORED,
            )
        reason = "; ".join(filter(None, (decision.reason, "its status was restored")))
        updated = replace(decision, outcome=Outcome.UPDATED, reason=reason)
        await self._note(sent, found, updated)
        try:
            await self._writer.write_status(sent.resource, found.in_cluster, status, sent.namespace)
        except (KubeError, RecursionError) as error:
            results.warnings.add(sent.ref.target_namespace, _status_problem(sent, error))
            return decision
        await self._give_owners(sent, results)
        return updated

    async def _give_owners(self, sent: Prepared, results: Results) -> None:
        """Give the fields their owners of the backup, after all other writes; a failure is a warning."""
        if not sent.ownership.entries:
            return
        name = sent.item["metadata"]["name"]
        try:
            await self._writer.give_owners(sent.resource, name, sent.ownership, sent.namespace)
        except (KubeError, orjson.JSONEncodeError) as error:
            message = f"could not restore metadata.managedFields of {sent.ref.id}: {error}"
            sent.ref.warn(results, Code.FIELD_OWNERS_NOT_RESTORED, message)


def _status_problem(sent: Prepared, error: Exception) -> Notice:
    text = f"could not restore the status of {sent.ref.id}: {error}"
    return sent.ref.notice(Code.STATUS_NOT_RESTORED, text)


def _code_of(decision: Decision, ref: ItemRef) -> Code:
    """The code of a decision's warning: only an object of a namespace can be restored beside the other."""
    is_of_cluster = decision.code is Code.EXISTING_DIFFERS and not ref.target_namespace
    return Code.CLUSTER_OBJECT_DIFFERS if is_of_cluster else decision.code


def _requires_status(error: Invalid) -> bool:
    """Whether an object was refused as the definition of its kind requires a status."""
    return any(
        text(cause, "reason") == "FieldValueRequired" and text(cause, "field") == "status"
        for cause in objects(error.status, "details", "causes")
    )


_LOGGED: Final = {
    Outcome.UNCHANGED: "Restore of item skipped: it already exists and is the same as the backed up version",
    Outcome.UPDATED: "Updated the existing object",
    Outcome.RECREATED: "Deleted the existing object and created it again",
    Outcome.DIFFERENT: "The existing object differs and was left as it is",
}


def _with_labels(patch: JSONObject, labels: Mapping[str, str]) -> JSONObject:
    """The patch, which sets these labels too."""
    if not labels:
        return patch
    metadata = patch.get("metadata") or {}
    return {**patch, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}}


def _in_target(ref: ItemRef, raw: bytes) -> JSONObject:
    """The object as the backup has it, in its target namespace."""
    item = decode(ref, raw)
    if ref.target_namespace:
        item["metadata"]["namespace"] = ref.target_namespace
    return item
