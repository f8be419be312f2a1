"""The actions that take CSI snapshots of claims during a backup. (docs/spec: BKP 11, SRV 18.2)

    claim ──> makes a VolumeSnapshot ──additional item──> the snapshot's action waits for its content,
              ──additional items──> class and content ──> Secrets that the driver needs

They have the names of the actions of Velero's CSI plugin, and do the same work.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pinnace.api import labels
from pinnace.api.kinds import PERSISTENT_VOLUME_CLAIMS, SECRETS
from pinnace.api.objects import JSONObject
from pinnace.api.resource_policies import VolumeAction, VolumeRule
from pinnace.api.velero.backup import Backup
from pinnace.csi import snapshots as csi
from pinnace.csi.objects import TakenSnapshots
from pinnace.csi.snapshots import CSIError, SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import Forbidden, NotFound
from pinnace.kube.resources import PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice, notice_of
from pinnace.plugins.logs import get_logger
from pinnace.plugins.protocols import BackupItemAction, ResourceIdentifier, ResourceSelector
from pinnace.volumes.creating import create_generated
from pinnace.volumes.pods.pod_claims import claim_name, find_volume
from pinnace.volumes.policies import VolumePolicies
from pinnace.volumes.selection import is_running, unmounted, wanted_volumes

Answer = tuple[JSONObject, Sequence[ResourceIdentifier]]

log = get_logger(__name__)

NOTHING_MORE: Final[Sequence[ResourceIdentifier]] = ()


def csi_backup_actions(
    client: KubeClient,
    discovery: Discovery,
    taken: TakenSnapshots | None,
    *,
    saves_files: bool,
    policies: VolumePolicies,
) -> list[BackupItemAction]:
    """The four actions; where the cluster has no such kinds, one that warns of each claim without a snapshot.

    Args:
        taken: records the snapshots of this backup; None where the cluster has no such kinds.
        saves_files: whether this backup saves the content of pod volumes, so that those need no snapshot.
        policies: decide for the volumes that a rule of them matches.
    """
    kinds, choice = (
        SnapshotKinds.served(discovery),
        SnapshotChoice(client, saves_files=saves_files, policies=policies),
    )
    if kinds is None or taken is None:
        return [WarnOfClaim(choice)]
    return [
        SnapshotClaim(client, kinds, taken, choice),
        AwaitSnapshot(client, kinds, taken),
        AddSecretOf("velero.io/csi-volumesnapshotclass-backupper", csi.CLASSES, labels.CSI_LIST_SECRET),
        AddSecretOf(
            "velero.io/csi-volumesnapshotcontent-backupper",
            csi.CONTENTS,
            labels.CSI_SNAPSHOTTER_SECRET,
            labels.CSI_DELETION_SECRET,
        ),
    ]


class SnapshotChoice:
    """Decides which claims get a CSI snapshot of their volume.

    Args:
        saves_files: whether this backup saves the content of pod volumes, so that those need no snapshot.
        policies: decide for the volumes that a rule of them matches.
    """

    def __init__(self, client: KubeClient, *, saves_files: bool, policies: VolumePolicies) -> None:
        self._client = client
        self._saves_files = saves_files
        self._policies = policies

    async def volume_of(self, item: JSONObject, backup: Backup) -> JSONObject | None:
        """The volume that needs a snapshot; None for claims that need none. Raises KubeError."""
        if backup.spec.snapshot_volumes is False and not self._policies.decide:
            return None
        spec, fields = item.get("spec") or {}, _fields(item)
        if not spec.get("volumeName") or (item.get("status") or {}).get("phase") != "Bound":
            log.info("The claim is not bound, so there is no volume to take a snapshot of", extra=fields)
            return None
        try:
            volume = await self._client.get(PERSISTENT_VOLUMES, spec["volumeName"])
        except Forbidden as error:
            log.warning(
                notice_of(
                    error,
                    Code.SNAPSHOT_NOT_TAKEN,
                    f"The claim is saved without a CSI snapshot, as its volume may not be read: {error}",
                ),
                extra=fields,
            )
            return None
        if not (volume.get("spec") or {}).get("csi"):
            return None
        if reason := await self._reason_against(item, volume, backup):
            log.info(f"No CSI snapshot is taken: {reason}", extra=fields)
            return None
        return volume

    async def _reason_against(self, claim: JSONObject, volume: JSONObject, backup: Backup) -> str:
        """Why the volume needs no snapshot; empty if it needs one. (docs/spec: BEY 4.7)"""
        rule = await self._policies.of_claim(claim, volume)
        if rule is not None:
            return "" if rule.action is VolumeAction.SNAPSHOT else rule.reason
        if backup.spec.snapshot_volumes is False:
            return "the backup has snapshotVolumes: false"
        if self._saves_files and await self._is_saved_from_files(claim, backup):
            return "the volume of the claim is saved from its files"
        return ""

    async def rule_for(self, claim: JSONObject, volume: JSONObject) -> VolumeRule | None:
        """The rule of the resource policies for a claim; None if none matches. Raises KubeError."""
        return await self._policies.of_claim(claim, volume)

    async def _is_saved_from_files(self, claim: JSONObject, backup: Backup) -> bool:
        """Whether the volume of the claim is saved from its files, through a running pod."""
        opt_out = backup.spec.saves_files_by_default
        for pod in await self._client.list_all(PODS, claim["metadata"]["namespace"]):
            if not is_running(pod):
                continue
            wanted = wanted_volumes(pod, opt_out=opt_out)
            left_out = unmounted(pod, wanted)
            for name in wanted:
                volume = find_volume(pod, name) if name not in left_out else None
                if volume is not None and claim_name(pod, volume) == claim["metadata"]["name"]:
                    return True
        return False


class WarnOfClaim:
    """Warns of each claim that would get a snapshot, if the cluster served snapshots; the claim is saved.

    A server starts on such a cluster: a backup of what has no such volume must not fail for it.
    """

    name = "velero.io/csi-pvc-backupper"

    def __init__(self, choice: SnapshotChoice) -> None:
        self._choice = choice

    async def applies_to(self) -> ResourceSelector:
        """PersistentVolumeClaims."""
        return ResourceSelector(included_resources=(PERSISTENT_VOLUME_CLAIMS.group_resource,))

    async def execute(self, item: JSONObject, backup: Backup) -> Answer:
        """Remove from the claim what an earlier backup noted on it, and warn. Raises KubeError."""
        if await self._choice.volume_of(item, backup) is not None:
            log.warning(
                Notice(
                    Code.SNAPSHOT_NOT_TAKEN,
                    f"The claim is saved without a CSI snapshot, and so without its data: {csi.UNSERVED}",
                ),
                extra=_fields(item),
            )
        csi.forget_snapshot(item)
        return item, NOTHING_MORE


class SnapshotClaim:
    """Makes a VolumeSnapshot of a claim on a CSI volume.

    Args:
        taken: records each snapshot.
        choice: decides which claims get one.
    """

    name = WarnOfClaim.name

    def __init__(
        self, client: KubeClient, kinds: SnapshotKinds, taken: TakenSnapshots, choice: SnapshotChoice
    ) -> None:
        self._client = client
        self._taken = taken
        self._kinds = kinds
        self._choice = choice

    async def applies_to(self) -> ResourceSelector:
        """PersistentVolumeClaims."""
        return ResourceSelector(included_resources=(PERSISTENT_VOLUME_CLAIMS.group_resource,))

    async def execute(self, item: JSONObject, backup: Backup) -> Answer:
        """Create the snapshot and annotate the claim with it.

        A claim that needs none loses what an earlier backup noted on it.

        Raises:
            CSIError, KubeError: the snapshot that the claim needs could not be taken.
        """
        fields = _fields(item)
        volume = await self.volume_of_claim(item, backup)
        if volume is None:
            csi.forget_snapshot(item)
            return item, NOTHING_MORE
        snapshot = await self.take(item, volume, backup)
        # The filters of the backup are for snapshots of users; this one is the volume's data. (BEY 4.4)
        item["metadata"].setdefault("annotations", {})[labels.MUST_INCLUDE_ADDITIONAL_ITEMS] = "true"
        csi.annotate_claim(item, snapshot["metadata"]["name"], backup.metadata.name)
        return item, [_identifier(csi.SNAPSHOTS, snapshot["metadata"]["name"], fields["namespace"])]

    async def volume_of_claim(self, claim: JSONObject, backup: Backup) -> JSONObject | None:
        """The volume that needs a snapshot; None for claims that need none. Raises KubeError."""
        return await self._choice.volume_of(claim, backup)

    async def take(self, claim: JSONObject, volume: JSONObject, backup: Backup) -> JSONObject:
        """Create the snapshot of a claim's volume. Raises CSIError, KubeError."""
        await self._check_storage_class(claim)
        driver, fields = str(volume["spec"]["csi"].get("driver") or ""), _fields(claim)
        classes = await self._client.list_all(self._kinds.classes)
        rule = await self._choice.rule_for(claim, volume)
        named = csi.named_classes(claim, backup, driver, rule)
        chosen = csi.choose_class(classes, driver, named)
        for problem in chosen.passed_over:
            text = f"{problem}: the snapshot is taken with the class {chosen.name}"
            log.warning(Notice(Code.SNAPSHOT_CLASS_REPLACED, text), extra=fields)
        body = csi.new_snapshot(self._kinds, claim, backup, chosen.name)
        made = await create_generated(self._client, self._kinds.snapshots, body, fields["namespace"])
        self._taken.made(made, claim, volume)
        log.info("Created VolumeSnapshot", extra={**fields, "volumeSnapshot": made["metadata"]["name"]})
        return made

    async def _check_storage_class(self, claim: JSONObject) -> None:
        """Warn of a claim that cannot be provisioned again as it is: its storage class was deleted.

        Raises:
            CSIError: the claim has none at all, so that none can be mapped to another one either.
            KubeError: the class cannot be looked up now.
        """
        class_name = (claim.get("spec") or {}).get("storageClassName")
        if not class_name:
            raise CSIError("cannot take a snapshot of the volume: the claim has no storage class")
        with suppress(Forbidden):  # its volume names the driver
            try:
                await self._client.get(STORAGE_CLASSES, class_name)
            except NotFound:
                log.warning(
                    Notice(
                        Code.STORAGE_CLASS_MISSING,
                        f"The storage class {class_name} of the claim does not exist: the snapshot is taken,"
                        " and a restore needs a class of this name or a mapping to another one",
                    ),
                    extra=_fields(claim),
                )


class AwaitSnapshot:
    """Waits for the snapshots of this backup, and annotates each with what a restore needs."""

    name = "velero.io/csi-volumesnapshot-backupper"

    def __init__(self, client: KubeClient, kinds: SnapshotKinds, taken: TakenSnapshots) -> None:
        self._client = client
        self._taken = taken
        self._kinds = kinds

    async def applies_to(self) -> ResourceSelector:
        """All VolumeSnapshots, also those of other backups and users."""
        return ResourceSelector(included_resources=(csi.SNAPSHOTS,))

    async def execute(self, item: JSONObject, backup: Backup) -> Answer:
        """Name the class and the content. A snapshot of a user is saved as it is, without our annotations.

        Raises:
            CSIError, KubeError: the snapshot was not made in time, or its content cannot be read.
        """
        more = []
        if class_name := (item.get("spec") or {}).get("volumeSnapshotClassName"):
            more.append(_identifier(csi.CLASSES, class_name))
        content = await self._content(item)
        csi.remove_annotations(item)
        if content is not None and self._taken.is_ours(
            item["metadata"].get("namespace", ""), item["metadata"]["name"]
        ):
            item["metadata"].setdefault("annotations", {})[labels.MUST_INCLUDE_ADDITIONAL_ITEMS] = "true"
        if content is not None:
            csi.annotate_snapshot(item, content)
            more.append(_identifier(csi.CONTENTS, content["metadata"]["name"]))
        return item, more

    async def _content(self, item: JSONObject) -> JSONObject | None:
        metadata = item["metadata"]
        if not self._taken.is_ours(metadata.get("namespace", ""), metadata["name"]):
            bound = csi.bound_content(item)
            return await self._client.get(self._kinds.contents, bound) if bound else None
        found, content = await self._taken.wait_and_keep(item)
        item["status"] = found.get("status") or {}
        return content


class AddSecretOf:
    """Names the Secret that two annotations of an object name.

    Args:
        prefixes: of the pairs of annotations that are looked at.
    """

    def __init__(self, name: str, group_resource: str, *prefixes: str) -> None:
        self.name = name
        self._group_resource = group_resource
        self._prefixes = prefixes

    async def applies_to(self) -> ResourceSelector:
        """The objects of one kind."""
        return ResourceSelector(included_resources=(self._group_resource,))

    async def execute(self, item: JSONObject, backup: Backup) -> Answer:
        """Leave the object as it is."""
        found = (csi.secret_named_by(item, prefix) for prefix in self._prefixes)
        return item, [
            _identifier(SECRETS.group_resource, name, namespace) for namespace, name in filter(None, found)
        ]


def _identifier(group_resource: str, name: str, namespace: str = "") -> ResourceIdentifier:
    resource, _, group = group_resource.partition(".")
    return ResourceIdentifier(group=group, resource=resource, namespace=namespace, name=name)


def _fields(claim: JSONObject) -> dict[str, str]:
    return {"namespace": claim["metadata"]["namespace"], "persistentVolumeClaim": claim["metadata"]["name"]}
