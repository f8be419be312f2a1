"""Restores one item: from its bytes in the archive to the object in the cluster. (RST 10, 14, 15)"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec
import orjson
from msgspec.structs import replace

from pinnace.aio.cancelling import pass_cancellation
from pinnace.api import labels
from pinnace.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from pinnace.api.nonadmin.exclusions import SNAPSHOT_KINDS
from pinnace.api.objects import JSONObject, same_json
from pinnace.api.restore_outcomes import Outcome
from pinnace.api.velero.restore import Restore
from pinnace.archive.errors import ArchiveError, MissingItem
from pinnace.csi.snapshots import SNAPSHOTS
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import DATA_UPLOADS, APIResource
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of
from pinnace.plugins.builtin.pod_classes import OFTEN_MISSING
from pinnace.plugins.item_operations import StartedOperations
from pinnace.plugins.logs import plugin_lines_to
from pinnace.plugins.protocols import ResourceIdentifier, RestoreItemInput, RestoreItemOutput
from pinnace.restore.actions import ApplicableAction, RestoreActions
from pinnace.restore.errors import ItemError, NamespaceError, ResourceError
from pinnace.restore.followups import FollowUps
from pinnace.restore.item.additional import AdditionalItems
from pinnace.restore.item.applying import Applier, Prepared
from pinnace.restore.item.claims import Chain, Claims
from pinnace.restore.item.ephemeral import EphemeralClaims
from pinnace.restore.item.managed_fields import ownership_of
from pinnace.restore.item.modifying import Modifying
from pinnace.restore.item.namespaces import NamespaceKeeper
from pinnace.restore.item.old_names import OldNames
from pinnace.restore.item.other_versions import OtherVersions
from pinnace.restore.item.pods_of_jobs import JOBS, OwningJob, PodsOfJobs
from pinnace.restore.item.quotas import Quotas
from pinnace.restore.item.refusals import refusal
from pinnace.restore.item.runtime_classes import forget_scheduling
from pinnace.restore.item.services import SERVICES, lost_address
from pinnace.restore.item.statuses import StatusFilter
from pinnace.restore.item.storage_classes import StorageClasses
from pinnace.restore.item.tenant_rights import VOLUMES, TenantRights, is_old_storage
from pinnace.restore.metadata import drop_empty_leftovers, put_labels, reset_metadata
from pinnace.restore.outcomes import ItemOutcomes
from pinnace.restore.ports import TargetCluster
from pinnace.restore.results import Results
from pinnace.restore.selection.collect import RestoreFilter
from pinnace.restore.selection.reading import ItemReader, ItemRef, decode, is_mirror_pod, why_finished
from pinnace.restore.volumes.moved_data import MovedData
from pinnace.restore.volumes.preparing import VolumePreparer, adjust_claim
from pinnace.restore.volumes.records import RestoredVolumes
from pinnace.restore.volumes.saved_data import VolumeDataKeeper

_VERSION = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_MAX_NESTING: Final = 50
"""The limit for additional items of additional items; real chains are three deep."""

_ODD_CONTENT: Final = (LookupError, TypeError, ValueError, AttributeError, RecursionError, ArchiveError)
"""The errors that code raises on an object that does not have the structure of its kind."""


class KnownKinds(msgspec.Struct, frozen=True, kw_only=True):
    """The knowledge of kinds; renewed when definitions were restored."""

    discovery: Discovery
    filters: RestoreFilter
    actions: RestoreActions
    statuses: StatusFilter


class ItemRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for every item of one restore.

    Attributes:
        labels: put on every object.
        rights: the kinds that may be created; None for all.
    """

    restore: Restore
    labels: Mapping[str, str]
    rights: TenantRights | None = None


class ItemParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one restore that work on its items, shared by all of them."""

    reader: ItemReader
    claims: Claims
    outcomes: ItemOutcomes
    applier: Applier
    namespaces: NamespaceKeeper
    modifying: Modifying
    volumes: VolumePreparer
    volume_data: VolumeDataKeeper
    moved_data: MovedData
    volume_records: RestoredVolumes
    ephemeral_claims: EphemeralClaims
    follow_ups: FollowUps
    started: StartedOperations
    additional: AdditionalItems
    old_names: OldNames
    quotas: Quotas
    storage_classes: StorageClasses


class ItemRestorer:
    """Restores items, each one once, many at the same time."""

    def __init__(
        self,
        target: TargetCluster,
        *,
        rules: ItemRules,
        kinds: KnownKinds,
        parts: ItemParts,
    ) -> None:
        self.kinds = kinds
        self._applier = parts.applier
        self._outcomes = parts.outcomes
        self._restore = rules.restore
        self._labels = rules.labels
        self._reader = parts.reader
        self._namespaces = parts.namespaces
        self._volumes = parts.volumes
        self._volume_data = parts.volume_data
        self._moved_data = parts.moved_data
        self._ephemeral = parts.ephemeral_claims
        self._volume_records = parts.volume_records
        self._claims = parts.claims
        self._follow_ups = parts.follow_ups
        self._started = parts.started
        self._additional = parts.additional
        self._old_names = parts.old_names
        self._quotas = parts.quotas
        self._storage_classes = parts.storage_classes
        self._rights = rules.rights
        self._modifying = parts.modifying
        self._pods_of_jobs = PodsOfJobs(parts.reader, self._may_restore_jobs)
        self._log = target.log
        self._versions = OtherVersions(target.client, parts.reader)

    async def restore(self, ref: ItemRef, results: Results) -> bool:
        """Restore a selected item and, before it, the additional items that its actions name.

        Failures of the item are not raised but added to the results.

        Returns:
            Whether the item counts as processed (its file was readable and its namespace available).
        """
        try:
            raw = self._reader.read(ref.group_resource, ref.original_namespace, ref.name)
            item = decode(ref, raw)
        except (MissingItem, ItemError) as error:
            notice = notice_of(error, Code.ITEM_UNREADABLE, str(error), object=ref.id)
            results.errors.add(ref.target_namespace, notice)
            self._outcomes.record(ref.group_resource, ref.key, Outcome.FAILED, str(error))
            return False
        return await self._restore_decoded(ref, item, raw, Chain(), results)

    async def _restore_decoded(
        self, ref: ItemRef, item: JSONObject, raw: bytes, chain: Chain, results: Results
    ) -> bool:
        kind = kind_of(item)
        try:
            if not self._admits(ref, kind, results):
                return True
            if ref.target_namespace:
                await self._namespaces.ensure(ref.original_namespace, ref.target_namespace, results)
            if finished := why_finished(ref, item):
                self._skip(ref, kind, finished)
                return True
            key = ref.key
            if not self._claims.claim(key, chain):
                self._log_skip(ref, "it has already been restored")
                await self._claims.wait(key, chain)
                return True
            try:
                await self._restore_claimed(ref, item, raw, chain, results)
            finally:
                self._claims.finish(key)
        except ItemError as error:
            self._failed(ref, kind, str(error))
            results.errors.add(ref.target_namespace, error.notice)
        except NamespaceError as error:
            self._failed(ref, kind, str(error))
            results.errors.add_velero(error.notice)
            return False
        except ResourceError as error:
            self._failed(ref, kind, str(error))
            results.errors.add_velero(error.notice)
        except _ODD_CONTENT as error:
            pass_cancellation(error)
            # JSON that no API server would have stored: any failure on it is the item's fault.
            text = (
                f"error restoring {ref.id}: its content is not that of a {ref.group_resource} object"
                f" ({type(error).__name__}: {error})"
            )
            self._failed(ref, kind, text)
            results.errors.add(ref.target_namespace, Notice(Code.ITEM_UNREADABLE, text, object=ref.id))
        return True

    def _failed(self, ref: ItemRef, kind: str, message: str) -> None:
        """Record that an item failed; without its name in the reason, so that equal reasons are kept once."""
        reason = message.removeprefix(f"error restoring {ref.id}: ").removeprefix(
            f"error preparing {ref.id}: "
        )
        self._outcomes.record(kind, ref.key, Outcome.FAILED, reason)

    def _admits(self, ref: ItemRef, kind: str, results: Results) -> bool:
        """Whether the filters admit the item; `Collector` has filtered only the selected items."""
        filters = self.kinds.filters
        if not filters.resources.matches(ref.group_resource):
            self._skip(ref, kind, "its resource is excluded")
            return False
        if ref.original_namespace and not filters.namespaces.matches(ref.original_namespace):
            self._skip(ref, kind, "its namespace is excluded")
            return False
        if not ref.original_namespace and not filters.admits_cluster_scoped:
            self._skip(ref, kind, "cluster-scoped resources are excluded")
            return False
        if needless := self.needless(ref.group_resource):
            self._skip(ref, kind, needless)
            return False
        reason = self.refusal(ref.group_resource, is_namespaced=bool(ref.target_namespace))
        if reason is not None:
            results.warnings.add(
                ref.target_namespace,
                Notice(Code.NOT_PERMITTED_TO_TENANT, f"{ref.id} was not restored: {reason}", object=ref.id),
            )
            self._outcomes.record(kind, ref.key, Outcome.REFUSED, reason)
            return False
        return True

    def needless(self, group_resource: str) -> str:
        """Why a kind is left out without a warning; empty if it is not."""
        if group_resource == DATA_UPLOADS.group_resource and self._volume_data.moved:
            return "it is the record of moved data, which is restored with its claim"
        return ""

    def refusal(self, group_resource: str, *, is_namespaced: bool) -> str | None:
        """Why a kind is not restored, or None if it may be."""
        is_handled = self.kinds.actions.handles(group_resource)
        reason = refusal(group_resource, is_handled=is_handled)
        if reason is not None or self._rights is None:
            return reason
        # Volumes are checked one by one; the actions for CSI snapshots have their own limits for tenants.
        if group_resource == VOLUMES or (is_handled and group_resource in SNAPSHOT_KINDS):
            return None
        return self._rights.refusal(group_resource, is_namespaced=is_namespaced)

    async def _restore_claimed(
        self, ref: ItemRef, item: JSONObject, raw: bytes, chain: Chain, results: Results
    ) -> None:
        kind = kind_of(item)
        if is_mirror_pod(ref, item):
            self._skip(ref, kind, "it is a mirror pod, which its kubelet creates")
            return
        resource = self._resource_for(ref, item)
        ownership, saved_status = ownership_of(item), item.get("status")
        if ref.group_resource == PERSISTENT_VOLUMES.group_resource:
            volume = await self._volumes.prepare(ref, item, results)
            if volume is None:
                is_claimed = bool((item["spec"].get("claimRef") or {}).get("name"))
                reason = "its claim gets a new volume" if is_claimed else "it has neither data nor a claim"
                self._skip(ref, kind, reason)
                return
            if self._is_withheld(ref, volume, raw, results):
                return
            item = volume
        if ref.group_resource == SNAPSHOTS:
            self._volume_data.prepare_snapshot(item)
        job = None
        if ref.group_resource == PODS.group_resource:
            job = self._pods_of_jobs.job_of(ref, item, self.kinds.filters)
            forget_scheduling(item, self._reader)
        reset_metadata(item)
        exists = partial(self._applier.existing.exists, ref, resource)
        if ref.group_resource == PERSISTENT_VOLUME_CLAIMS.group_resource:
            await self._volume_data.prepare_claim(ref, item, exists, results)
        prepared = await self._run_actions(ref, item, raw, chain, results)
        if prepared is None:
            return
        # After its actions, which restore the claims of a pod if they did not exist before.
        if job is not None and self._is_left_to(job, ref, prepared, results):
            self._skip(ref, kind, job.reason)
            return
        if ref.group_resource == PODS.group_resource and not await self._volume_data.admits_pod(
            ref, prepared, exists, results
        ):
            self._failed(ref, kind, "it would start without the data of its volumes")
            return
        if prepared.get("apiVersion") != item["apiVersion"]:
            # An action may have converted an old item to a version that this cluster serves.
            resource = self._resource_for(ref, prepared)
        if ref.group_resource == PERSISTENT_VOLUME_CLAIMS.group_resource:
            adjust_claim(prepared, self._volumes.prepared)
        before = prepared
        prepared = self._modifying.modified(ref, before, results)
        is_modified = prepared is not before and not same_json(prepared, before)
        if ref.target_namespace:
            prepared["metadata"]["namespace"] = ref.target_namespace
        drop_empty_leftovers(prepared)
        put_labels(prepared, self._labels)
        status = self.kinds.statuses.status_of(ref.group_resource, raw)
        has_subresource = self.kinds.discovery.has_status(resource)
        if status is not None and has_subresource is False:
            prepared["status"], status = status, None  # a field like others
        plain = saved_status if isinstance(saved_status, dict) and "status" not in prepared else None
        sent = Prepared(
            ref=ref,
            resource=resource,
            item=prepared,
            raw=raw,
            status=status,
            plain_status=None if has_subresource else plain,
            ownership=ownership,
            is_modified=is_modified,
            others=partial(self._versions.of, ref, raw, prepared, self.kinds.discovery),
        )
        applied = await self._applier.apply(sent, results)
        resource = applied.resource or resource
        kind = f"{resource.api_version}/{resource.kind}"
        self._outcomes.record(kind, ref.key, applied.outcome, applied.reason)
        self._old_names.look_at(sent, applied)
        self._quotas.look_at(sent, applied)
        await self._storage_classes.look_at(sent, applied, results)
        if applied.created is not None:
            self._volume_records.created(ref, applied.created)
            # A trial gives no Service the address or the users of the original.
            if ref.group_resource == SERVICES and labels.VERIFICATION not in self._restore.metadata.labels:
                lost = lost_address(orjson.loads(raw), orjson.loads(applied.created))
                if lost:
                    results.warnings.add(
                        ref.target_namespace, Notice(Code.ADDRESS_LOST, f"{ref.id}: {lost}", object=ref.id)
                    )
            if ref.group_resource == PERSISTENT_VOLUME_CLAIMS.group_resource:
                await self._moved_data.restore(self._restore, ref, applied.created, results)
            if ref.group_resource == PODS.group_resource and not await self._ephemeral.give_to(
                ref, applied.created, results
            ):
                return  # neither its data nor its hooks could be waited for with success
            await self._follow_ups.created(
                ref, resource, applied.created, results, additional=chain.nesting > 0
            )
        elif applied.in_cluster is not None:
            self._follow_ups.found(ref, resource, prepared, applied.in_cluster, results)

    def _may_restore_jobs(self) -> bool:
        is_served = self.kinds.discovery.preferred(JOBS) is not None
        return is_served and self.refusal(JOBS, is_namespaced=True) is None

    def _is_left_to(self, job: OwningJob, ref: ItemRef, pod: JSONObject, results: Results) -> bool:
        """Whether a pod is left to its Job: it is not if data is restored into it."""
        if not self._volume_data.is_restored_into(ref, pod):
            return True
        if not job.is_finished:
            results.warnings.add(
                ref.target_namespace,
                Notice(
                    Code.POD_BESIDE_ITS_JOB,
                    f"{ref.id} is restored for the data of its volumes, though its Job {job.name} makes new"
                    " pods: it runs beside them, and belongs to no Job. Delete it once its data is restored",
                    object=ref.id,
                ),
            )
        return False

    def _is_withheld(self, ref: ItemRef, volume: JSONObject, raw: bytes, results: Results) -> bool:
        """Whether a tenant's restore leaves a volume out; its claim then gets a new volume."""
        refused = self._rights and self._rights.refusal(VOLUMES, is_namespaced=False)
        if not refused or not is_old_storage(volume, decode(ref, raw)):
            return False
        self._volumes.prepared.to_provision.add(ref.name)
        message = f"{ref.id} was not restored, and its claim gets a new and empty volume: {refused}"
        results.warnings.add(
            ref.target_namespace, Notice(Code.NOT_PERMITTED_TO_TENANT, message, object=ref.id)
        )
        self._outcomes.record(kind_of(volume), ref.key, Outcome.REFUSED, str(refused))
        return True

    def _resource_for(self, ref: ItemRef, item: JSONObject) -> APIResource:
        """The API resource to create the item with.

        Raises:
            ResourceError: there is no such resource.
            ItemError: the resource is of another kind than the item.
        """
        version = item["apiVersion"].rpartition("/")[2]
        discovery = self.kinds.discovery
        resource = discovery.served(ref.group_resource, version)
        if resource is None:
            preferred = discovery.preferred(ref.group_resource)
            if preferred is None or not _VERSION.fullmatch(version):
                raise ResourceError(
                    Notice(
                        Code.KIND_NOT_SERVED,
                        f'error getting resource client for namespace "{ref.target_namespace}", '
                        f'resource "{ref.group_resource}": the server does not serve it in version'
                        f' "{version}"',
                        object=ref.id,
                    )
                )
            # Discovery may know preferred versions only; the create call decides.
            resource = replace(preferred, version=version)
        if resource.kind != item["kind"]:
            raise ItemError(
                Notice(
                    Code.KIND_DIFFERS,
                    f'error restoring {ref.id}: its kind is "{item["kind"]}", not {resource.kind}',
                    object=ref.id,
                )
            )
        if resource.namespaced != bool(ref.target_namespace):
            scope = "namespaced" if resource.namespaced else "cluster-scoped"
            raise ItemError(
                Notice(
                    Code.KIND_DIFFERS,
                    f"error restoring {ref.id}: {resource.kind} is {scope} in this cluster",
                    object=ref.id,
                )
            )
        return resource

    async def _run_actions(
        self, ref: ItemRef, item: JSONObject, raw: bytes, chain: Chain, results: Results
    ) -> JSONObject | None:
        """Run the actions for the item; None if one of them says to skip it."""
        actions = self.kinds.actions.for_resource(ref.group_resource)
        if not actions:
            return item
        from_backup = orjson.loads(raw)
        for applicable in actions:
            if not applicable.wants(ref.target_namespace, item["metadata"].get("labels")):
                continue
            given = RestoreItemInput(item=item, item_from_backup=from_backup, restore=self._restore)
            with plugin_lines_to(self._log, applicable.action.name):
                output = await _execute(ref, applicable, given)
            if output.skip:
                self._skip(ref, kind_of(from_backup), f"left out by the action {applicable.action.name}")
                return None
            item = output.item
            for identifier in output.additional_items:
                await self._restore_additional(ref, identifier, chain, results)
            if output.operation_id:
                group_resource, _, group = ref.group_resource.partition(".")
                identifier = ResourceIdentifier(
                    group=group, resource=group_resource, namespace=ref.original_namespace, name=ref.name
                )
                self._started.add(applicable.action.name, output.operation_id, identifier)
            if output.wait_for_additional_items:
                problem = await self._additional.wait(applicable.action, output, self.kinds)
                if problem:
                    results.errors.add(
                        ref.target_namespace,
                        Notice(
                            Code.ADDITIONAL_ITEMS_NOT_READY,
                            f"error restoring {ref.id}: {problem}",
                            object=ref.id,
                        ),
                    )
        return item

    async def _restore_additional(
        self, parent: ItemRef, identifier: ResourceIdentifier, chain: Chain, results: Results
    ) -> None:
        ref = ItemRef(
            identifier.group_resource,
            identifier.namespace,
            self.kinds.filters.target_namespace(identifier.namespace),
            identifier.name,
        )
        try:
            raw = self._reader.read(ref.group_resource, ref.original_namespace, ref.name)
            item = decode(ref, raw)
        except MissingItem as error:
            if ref.group_resource in OFTEN_MISSING:
                self._log_skip(ref, "it is not in the backup")
                return
            message = (
                f"additional item {ref.id} of {parent.id} is not in the backup: {error.path}: no such file"
            )
            results.warnings.add(
                ref.original_namespace, Notice(Code.ADDITIONAL_ITEM_MISSING, message, object=ref.id)
            )
            return
        except ItemError as error:
            results.errors.add(
                ref.target_namespace,
                notice_of(
                    error,
                    Code.ITEM_UNREADABLE,
                    f"error restoring additional item {ref.id}: {error}",
                    object=ref.id,
                ),
            )
            return
        if chain.nesting >= _MAX_NESTING:
            raise ItemError(
                Notice(
                    Code.ADDITIONAL_ITEMS_TOO_DEEP,
                    f"error restoring additional item {ref.id}: additional items nest too deeply",
                    object=ref.id,
                )
            )
        chain.nesting += 1
        try:
            await self._restore_decoded(ref, item, raw, chain, results)
        finally:
            chain.nesting -= 1

    def _skip(self, ref: ItemRef, kind: str, reason: str) -> None:
        self._outcomes.record(kind, ref.key, Outcome.SKIPPED, reason)
        self._log_skip(ref, reason)

    def _log_skip(self, ref: ItemRef, reason: str) -> None:
        self._log.info(
            "Not restoring item",
            reason=reason,
            resource=ref.group_resource,
            namespace=ref.target_namespace,
            name=ref.name,
        )


def kind_of(item: JSONObject) -> str:
    """`apps/v1/Deployment`: how the resource list names the kind of an object."""
    return f"{item['apiVersion']}/{item['kind']}"


async def _execute(ref: ItemRef, applicable: ApplicableAction, given: RestoreItemInput) -> RestoreItemOutput:
    """Run one action.

    Raises:
        ItemError: it failed, or returned something else than an object.
    """
    try:
        output = await applicable.action.execute(given)
    except Exception as error:
        # Foreign code: any error fails this item only.
        problem: object = error
        if isinstance(error, _ODD_CONTENT) and type(error) is not ValueError:
            problem = f"{applicable.action.name} cannot deal with it ({type(error).__name__}: {error})"
        raise ItemError(
            notice_of(error, Code.ACTION_FAILED, f"error preparing {ref.id}: {problem}", object=ref.id)
        ) from error
    if not output.skip and not isinstance(output.item.get("metadata"), dict):
        raise ItemError(
            Notice(
                Code.ACTION_FAILED,
                f"error preparing {ref.id}: {applicable.action.name} returned no object",
                object=ref.id,
            )
        )
    return output
