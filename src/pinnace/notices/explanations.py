"""The meaning of each code, and the advice that goes with it. A test sees that no code lacks one."""

from collections.abc import Mapping
from typing import Final

import msgspec

from pinnace.notices.codes import Code


class Explanation(msgspec.Struct, frozen=True):
    """The meaning of a code, for the reference page and `pinnace explain`.

    Attributes:
        meaning: a sentence or a few: what happened, and what follows from it.
        advice: what to do, with facts of the notice as `{name}`; printed with errors that have all of
            these facts.
    """

    meaning: str
    advice: str = ""


def advice_for(code: Code, facts: Mapping[str, str]) -> str:
    """The advice for an error, with its facts; empty where there is none, or a fact is missing."""
    try:
        return EXPLANATIONS[code].advice.format_map(facts)
    except KeyError:
        return ""


EXPLANATIONS: Final[Mapping[Code, Explanation]] = {
    Code.RIGHTS_MISSING: Explanation(
        "The API server refused a request, as the account of the server or of the kubeconfig lacks a right.",
        'Give "{user}" the right to {verb} {resource}.',
    ),
    Code.LIST_FORBIDDEN: Explanation(
        "The account may not list a kind, so its objects are not in the backup.",
        'Give "{user}" the right to list {resource}, or leave them out with --exclude-resources {resource}.',
    ),
    Code.NAMESPACES_FORBIDDEN: Explanation(
        "The account may not list namespaces, so the namespaces to back up are not known.",
        'Give "{user}" the right to list namespaces, or name those to back up with --include-namespaces.',
    ),
    Code.CREDENTIALS_REFUSED: Explanation(
        "The API server did not accept the credentials.",
        "The credentials were refused: they may have expired. Sign in again.",
    ),
    Code.QUOTA_EXCEEDED: Explanation(
        "A ResourceQuota of the namespace refused an object.",
        "Raise the quota {quota} or free what it counts.",
    ),
    Code.WEBHOOK_DENIED: Explanation(
        "An admission webhook refused an object.",
        "The admission webhook {webhook} refused the objects: change its policy, or restore without them.",
    ),
    Code.WEBHOOK_UNREACHABLE: Explanation(
        "The API server could not ask an admission or conversion webhook, so it refused the request.",
        "The admission webhook {webhook} does not answer: start its server or remove its configuration.",
    ),
    Code.POLICY_DENIED: Explanation(
        "A ValidatingAdmissionPolicy refused an object.",
        "The admission policy {policy} refused the objects: change it, or the objects with"
        " --resource-modifier-configmap, or restore without them.",
    ),
    Code.POD_SECURITY_DENIED: Explanation(
        "Pod Security Admission refused a pod, as it needs more than the level of its namespace admits.",
        "The namespace admits only pods of the level {level}: its label pod-security.kubernetes.io/enforce"
        " decides, or change the pods with --resource-modifier-configmap.",
    ),
    Code.OBJECT_INVALID: Explanation(
        "The API server refused the content of an object. Its message names the field. Change the object"
        " on its"
        " way with --resource-modifier-configmap, or update the definition of its kind."
    ),
    Code.OBJECT_CONFLICT: Explanation(
        "An object was changed or created by somebody else at the same time. Run it again."
    ),
    Code.OBJECT_NOT_FOUND: Explanation("The API server has no object of this name, or not any more."),
    Code.CLUSTER_UNREACHABLE: Explanation(
        "The API server did not answer, or something between answered in its place.",
        "Check that the server named there can be reached.",
    ),
    Code.CLUSTER_FAULT: Explanation(
        "The API server answered with a fault of its own, or had too much to do. Its log says more. Run"
        " it again."
    ),
    Code.LEADERSHIP_LOST: Explanation(
        "The server could not renew its lease, so it stopped to write: another server may lead by now."
    ),
    Code.DISK_FULL: Explanation(
        "The disk for temporary files is full.",
        "Free disk space: TMPDIR names the folder for temporary files.",
    ),
    Code.DISK_FAULT: Explanation("A temporary file could not be written or read."),
    Code.IDENTITY_MISSING: Explanation(
        "The backup is encrypted, and no identity was given that could open its key. Nothing else was done.",
        "Give the identity of a recipient of the location: --identity-file FILE or PINNACE_IDENTITY_FILE.",
    ),
    Code.IDENTITY_REFUSED: Explanation(
        "The backup is encrypted, and none of the identities that were given opens its key: its location had"
        " other recipients when it was made, or the backup is of somebody else.",
        "Give an identity that the location had as recipient at the time of the backup.",
    ),
    Code.ENCRYPTION_BROKEN: Explanation(
        "A file of an encrypted backup, or the file with its key, is not as it was written: damaged, cut off,"
        " exchanged or of another backup. Nothing of it is used.",
        "Get the file back from a copy or an older version of the bucket, and find out who can write there.",
    ),
    Code.STORE_UNREADABLE: Explanation(
        "The location could not be read at the beginning of the run. `pinnace doctor` looks at it now."
    ),
    Code.SIGNATURE_REFUSED: Explanation(
        "A backup, or a file of it, is not as a trusted key has signed it, or it is not signed and its"
        " location takes signed backups only. `pinnace backup verify` names each file that was changed, added"
        " or removed. Restore nothing of it before you know who did that."
    ),
    Code.AGE_PLUGIN_FAILED: Explanation(
        "A program age-plugin-NAME that a recipient or an identity needs is not on PATH, was silent for a"
        " minute, or has failed. The text has what it said.",
        "Run age by hand with the same recipient or identity, which shows more of what the program says.",
    ),
    Code.KMS_REFUSED: Explanation(
        "A key management service refused to wrap or to unwrap the key of a backup. The text has its code,"
        " and what to do."
    ),
    Code.KMS_UNAVAILABLE: Explanation(
        "A key management service did not answer in time, or failed by itself. Run it again."
    ),
    Code.KMS_KEY_INVALID: Explanation(
        "The URI of a key in a key management service cannot be used, or its credentials are not set."
    ),
    Code.SIGNED_BACKUP_VANISHED: Explanation(
        "A signed backup that was noted as the newest is not in its location, or another one stands in its"
        " place, and nobody with the signing key has removed it. Get it back from a copy or an older version"
        " of the bucket, and find out who can delete there. A deletion by Velero, or without the key, looks"
        " the same."
    ),
    Code.BACKUPS_NOT_SIGNED: Explanation(
        "Backups in a location that requires signatures have no manifest, so that they are refused to every"
        " restore and not made known: they are older than the key, of Velero, or forged, or their manifests"
        " were removed."
    ),
    Code.NAME_TAKEN: Explanation(
        "The location has a backup of this name already. It was left alone; choose another name."
    ),
    Code.HELD_LONGER: Explanation(
        "The bucket has a default retention that is longer than the backup's time to live, so that the"
        " backup could not be deleted when it expires. Nothing was stored. Give it a longer time to live"
        " (`--ttl`), or shorten the default retention of the bucket."
    ),
    Code.STORE_WRITE_FAILED: Explanation(
        "A file of the run could not be stored. What the run did in the cluster stays. Check the"
        " location with"
        " `pinnace doctor`, and run it again where the file matters."
    ),
    Code.JOURNAL_NOT_KEPT: Explanation(
        "The location did not take the journal of a restore. The restore goes on, but if it is interrupted,"
        " it must not be resumed: hooks could run twice."
    ),
    Code.LOCATION_MOVED: Explanation(
        "The BackupStorageLocation was pointed at another bucket or prefix while the run worked."
    ),
    Code.DEFECT: Explanation(
        "The run stopped at something that its program does not foresee. `pinnace bug` collects what a report"
        " needs."
    ),
    Code.ACTION_FAILED: Explanation(
        "A plugin failed for an object. The object is left out. The plugin's own lines stand before this"
        " one in"
        " the log."
    ),
    Code.ACTION_MESSAGE: Explanation(
        "A plugin wrote a warning or an error to the log of the run. The text is the plugin's."
    ),
    Code.ACTION_UNUSABLE: Explanation(
        "A plugin was not called: its selector cannot be read, or the run is a preview, which calls none."
    ),
    Code.ACTION_SELECTS_NOTHING: Explanation(
        "A plugin asks for a kind that the cluster does not serve. The name may be misspelt in the plugin."
    ),
    Code.ADDITIONAL_ITEM_MISSING: Explanation(
        "A plugin named a further object that does not exist. The object it was named for is processed"
        " all the"
        " same."
    ),
    Code.ADDITIONAL_ITEMS_TOO_DEEP: Explanation(
        "Plugins name further objects of further objects without end. The chain was cut."
    ),
    Code.ADDITIONAL_ITEMS_NOT_READY: Explanation(
        "A plugin asked to wait for the objects that it named, and they were not ready in time."
    ),
    Code.OPERATION_FAILED: Explanation(
        "An operation that a plugin had started (such as moving a volume's data) failed or was cancelled."
    ),
    Code.OPERATIONS_NOT_STORED: Explanation(
        "The list of started operations could not be stored, so they were cancelled."
    ),
    Code.OPERATIONS_MAY_RUN: Explanation(
        "The backup failed, and operations that plugins had started could not be cancelled in time."
    ),
    Code.FILTER_MATCHES_NOTHING: Explanation(
        "A name or pattern of the spec stands for nothing in the cluster or the backup: it may be misspelt."
    ),
    Code.FILTER_INVALID: Explanation("A selector of the spec cannot be read, so nothing was done."),
    Code.NOTHING_SELECTED: Explanation(
        "No object matches all filters of the spec. The backup is empty, or nothing was restored."
    ),
    Code.CLUSTER_OBJECTS_LEFT_OUT: Explanation(
        "As a namespace is excluded, cluster-scoped objects are saved only where others need them."
    ),
    Code.RELATED_ITEMS_LEFT_OUT: Explanation(
        "Objects that others in the backup refer to are left out by its filters."
    ),
    Code.NAMESPACE_NOT_FOUND: Explanation("A namespace that the backup names does not exist."),
    Code.NAMESPACE_TERMINATING: Explanation(
        "A namespace is being deleted. A backup leaves it out with all that is in it; a restore waits ten"
        " minutes for its end, and cannot use it before.",
        "Namespace {namespace} is being deleted: `kubectl get namespace {namespace} -o yaml` names what holds"
        " it. Restore again when it is gone.",
    ),
    Code.NAMESPACE_LEFT_OUT: Explanation(
        "A namespace that the backup names has the label `velero.io/exclude-from-backup`."
    ),
    Code.LIST_FAILED: Explanation(
        "The objects of a kind could not be listed, so they are not in the backup. The error says why."
    ),
    Code.LIST_INCOMPLETE: Explanation(
        "The cluster could not say which kinds a group has, so they are not in the backup. An aggregated API"
        " whose server is away is the usual cause: start it, or delete its APIService."
    ),
    Code.LISTED_IN_ANOTHER_VERSION: Explanation(
        "The conversion webhook of a kind does not answer, so its objects were saved in their stored version."
        " Start the webhook's server."
    ),
    Code.VERSION_NOT_SAVED: Explanation(
        "One of the versions of a kind cannot be listed. Its objects are saved in the other ones."
    ),
    Code.ITEM_NOT_SAVED: Explanation("An object is not in the backup. The error says why."),
    Code.ITEM_TOO_DEEP: Explanation(
        "An object is nested more than a thousand levels deep. It is in the backup and cannot be restored."
    ),
    Code.ITEM_GONE: Explanation(
        "An object that was to be saved ahead of others, or read again, could not be read by its name."
    ),
    Code.DEFINITION_NOT_SAVED: Explanation(
        "The CustomResourceDefinition of saved objects could not be read. A restore into a new cluster"
        " needs it"
        " from elsewhere."
    ),
    Code.SNAPSHOT_NOT_TAKEN: Explanation(
        "A volume is saved without a snapshot, and so without its data, unless its files are saved too."
    ),
    Code.SNAPSHOT_CLASS_REPLACED: Explanation(
        "The VolumeSnapshotClass that an annotation names does not fit the volume; another one was taken."
    ),
    Code.SNAPSHOT_NOT_READY: Explanation(
        "A CSI snapshot did not become usable in time. Its VolumeSnapshot stays in the cluster: its"
        " status and"
        " the log of the CSI driver say why."
    ),
    Code.SNAPSHOT_OBJECTS_LEFT: Explanation(
        "Objects of CSI snapshots could not be read or removed. They stay until the backup is deleted."
    ),
    Code.STORAGE_CLASS_MISSING: Explanation(
        "The StorageClass of a claim does not exist. A restore needs it, or a mapping to another."
    ),
    Code.AGENTS_NOT_INSTALLED: Explanation(
        "There are no node agents: files of volumes are not saved, and data of CSI snapshots is not moved.",
        "Install them, or back up without --snapshot-move-data, so that the CSI snapshots are kept.",
    ),
    Code.AGENTS_MISSING: Explanation(
        "Nodes have no ready node agent: files of volumes there are not saved. Where no node has one, data of"
        " CSI snapshots is not moved, and no such snapshot is taken.",
        "The status and the log of the node agents' pods say why they are not ready; `pinnace doctor` names"
        " the nodes.",
    ),
    Code.POD_VOLUME_NOT_SAVED: Explanation(
        "The files of a pod's volume are not in the backup. The text says why: the pod does not run, no"
        " container mounts the volume, its kind cannot be saved from files, or no node agent did it."
    ),
    Code.POD_VOLUME_CHANGED: Explanation(
        "The files of a volume are saved, but not all as they are, or older ones are lost. The text"
        " names them."
    ),
    Code.SETTING_IGNORED: Explanation("A setting has no effect here. The text says which and why."),
    Code.PROGRESS_NOT_SHOWN: Explanation(
        "The progress in the status could not be written. The run itself goes on."
    ),
    Code.HOOK_FAILED: Explanation(
        "The command of a hook failed. A pod of a backup is saved all the same, unless a pre hook has"
        " `on-error:"
        " Fail`; a pod of a restore is restored.",
        "Run the command of the hook in the container to see why it fails.",
    ),
    Code.HOOK_CONTAINER_MISSING: Explanation(
        "A hook names a container that its pod does not have.",
        "The pod and its volumes are processed without this hook: name a container of the pod, not"
        " {container}.",
    ),
    Code.HOOK_INVALID: Explanation("A value of a hook cannot be read and is ignored."),
    Code.HOOKS_NOT_RUN: Explanation(
        "Hooks were not run: their container did not start in time, or this way to back up or restore"
        " runs none.",
        "Run the command of the hook in the container yourself, where it is needed.",
    ),
    Code.HOOK_END_UNKNOWN: Explanation(
        "A restore hook was running when the restore was interrupted, so that nobody saw its end. A restore"
        " that is resumed runs no hook twice.",
        "Look at what the command did in its container, and run it yourself if it did not come to its end.",
    ),
    Code.ARCHIVE_UNREADABLE: Explanation(
        "The tarball of the backup is damaged, or goes beyond a limit. `pinnace backup verify` says more."
    ),
    Code.ARCHIVE_PART_IGNORED: Explanation(
        "Something in the tarball is no part of a backup and was ignored."
    ),
    Code.ITEM_UNREADABLE: Explanation(
        "An object in the backup is not what its path says, or no Kubernetes object at all. It was left out."
    ),
    Code.SOURCE_DOUBTFUL: Explanation(
        "The restore goes on with something that may not be what was meant: a backup that failed or is being"
        " deleted, or a part of the spec that is filled in or not known. The text says which."
    ),
    Code.KIND_NOT_SERVED: Explanation(
        "The cluster does not serve a kind, so that its objects cannot be saved or restored. Install its"
        " definition or its API server."
    ),
    Code.KIND_DIFFERS: Explanation(
        "The cluster serves a kind of this name with another scope or another `kind` than the backup has."
    ),
    Code.DEFINITION_NOT_READY: Explanation(
        "A CustomResourceDefinition was created, and the cluster does not serve it in time. The text has the"
        " reason that the API server gives, such as names that another definition has."
    ),
    Code.DISCOVERY_FAILED: Explanation(
        "The kinds of the cluster could not be read after definitions were restored."
    ),
    Code.EXISTING_DIFFERS: Explanation(
        "An object of this name exists with other content. It was left as it is.",
        "Update them with --existing-resource-policy update, or restore beside them with"
        " --namespace-mappings OLD:NEW.",
    ),
    Code.CLUSTER_OBJECT_DIFFERS: Explanation(
        "A cluster-scoped object of this name exists with other content. It was left as it is.",
        "Update them with --existing-resource-policy update.",
    ),
    Code.EXISTING_NOT_UPDATED: Explanation(
        "An object of this name exists, and the API server refused to update it. It was left as it is."
    ),
    Code.EXISTING_TERMINATING: Explanation(
        "An object of this name is being deleted. Restore it again when it is gone."
    ),
    Code.EXISTING_NOT_COMPARED: Explanation(
        "An object of this name exists and could not be read to be compared. It was left as it is."
    ),
    Code.EXISTING_NOT_REPLACED: Explanation(
        "An object was to be deleted and created again, and one of both steps failed. The text says which."
    ),
    Code.LABELS_NOT_SET: Explanation(
        "An existing object did not get the labels of the restore. Nothing else is missing."
    ),
    Code.STATUS_NOT_RESTORED: Explanation("An object is restored without the status that was asked for."),
    Code.FIELD_OWNERS_NOT_RESTORED: Explanation(
        "An object is restored, but its fields belong to the restore instead of the managers in the backup. A"
        " later server-side apply may report conflicts."
    ),
    Code.NAMESPACE_UNAVAILABLE: Explanation(
        "A target namespace could not be read or created, so that none of its objects is restored."
    ),
    Code.NAMESPACE_DIFFERS: Explanation(
        "A namespace exists and was left as it is, though resource modifiers would change it."
    ),
    Code.OLD_NAMESPACE_NAMED: Explanation(
        "Restored objects still name a mapped namespace by its old name. Change what should mean the copy, or"
        " restore with rules of --resource-modifier-configmap."
    ),
    Code.MODIFIER_FAILED: Explanation(
        "A resource modifier could not be applied to an object, which was restored without it."
    ),
    Code.DEFAULT_MODIFIERS_UNUSABLE: Explanation(
        "The rules of the server for restores without resource modifiers cannot be used: their ConfigMap is"
        " gone or not valid. Correct the ConfigMap that --default-resource-modifier-configmap names, and"
        " restore again with --existing-resource-policy update."
    ),
    Code.MODIFIER_CHANGED_NOTHING: Explanation(
        "A rule of the resource modifiers changed no object: its conditions may be misspelt."
    ),
    Code.QUOTA_FULL: Explanation(
        "More was restored into a namespace than its ResourceQuota admits. Nothing that it counts can be"
        " created"
        " there until it is raised or less is in use."
    ),
    Code.ADDRESS_LOST: Explanation("A Service came back without the cluster IP that was chosen for it."),
    Code.POD_BESIDE_ITS_JOB: Explanation(
        "A pod of a Job was restored for the data of its volumes and runs beside the pods that the Job makes."
    ),
    Code.POD_LEFT_AS_IT_IS: Explanation(
        "A pod exists, so its volumes were not filled and its hooks not run. Delete it and restore again."
    ),
    Code.POD_CANNOT_START: Explanation(
        "A pod was created and cannot start, as a claim of the name that its ephemeral volume needs is"
        " not its"
        " own. Delete pod and claim, and restore both again."
    ),
    Code.NOT_PERMITTED_TO_TENANT: Explanation(
        "A tenant may not restore this object by self-service. The administrator decides."
    ),
    Code.VOLUME_DATA_NOT_SAVED: Explanation(
        "The backup does not have the data of a volume.",
        "This backup cannot bring it back, another may: `backup describe` lists the volumes that a"
        " backup has."
        " With --without-volume-data it is a warning.",
    ),
    Code.VOLUME_DATA_NOT_RESTORED: Explanation(
        "The data of a volume is in the backup and did not come back. A new claim stays unbound, or the pod"
        " was left out, so that nothing starts on an empty volume; a claim that exists keeps the data that it"
        " has."
    ),
    Code.EXISTING_DATA_KEPT: Explanation(
        "The restore asked for data in claims that exist, and the backup has none that can be written into"
        " this one. It was left as it is."
    ),
    Code.VOLUME_IN_USE: Explanation(
        "A PersistentVolume exists and is bound to another claim, so it was left as it is."
    ),
    Code.VOLUME_NOT_FREED: Explanation(
        "A PersistentVolume exists and still names a claim that is gone. The text has the command that"
        " frees it."
    ),
    Code.VOLUME_MAY_BE_LEFT: Explanation(
        "A restore was interrupted while a volume was made from a snapshot, and the resumed restore made"
        " another one. If the provider made the first one too, nothing uses it.",
        "Look for it at the provider by its snapshot and its time, and delete it.",
    ),
    Code.VOLUME_EMPTY: Explanation(
        "A claim came back with a new and empty volume: its data was not saved, or was not asked for."
    ),
    Code.VOLUME_NOT_RESTORED: Explanation(
        "A PersistentVolume was not restored. The text says why and what becomes of its claim."
    ),
    Code.VOLUME_NOT_PATCHED: Explanation(
        "A restored volume did not get the reclaim policy or the labels of the old one."
    ),
    Code.OLD_STORAGE_NAMED: Explanation(
        "A restored PersistentVolume names the same storage as the original. Two clusters must not use"
        " it at once."
    ),
    # Checks of the doctor
    Code.OK: Explanation("Nothing is wrong."),
    Code.NOT_APPLICABLE: Explanation("The cluster has nothing that this check is about."),
    Code.NOT_PERMITTED: Explanation("This user may not read what the check needs."),
    Code.NOT_SERVED: Explanation("The cluster does not serve the kind that the check reads."),
    Code.CHECK_FAILED: Explanation("Reading failed, as of a cluster that is overloaded."),
    Code.NOTHING_CHECKED: Explanation("None of the checks that matter could be made."),
    Code.KUBECONFIG_UNUSABLE: Explanation("The kubeconfig names no usable cluster or credentials."),
    Code.CREDENTIALS_EXPIRED: Explanation("The token or the certificate has expired."),
    Code.CREDENTIALS_EXPIRING: Explanation("The client certificate expires within seven days."),
    Code.CREDENTIALS_MISSING: Explanation(
        "The user has no credentials, and the cluster takes it for nobody."
    ),
    Code.NAMESPACE_MISSING: Explanation("A namespace that was named does not exist."),
    Code.CLOCK_DIFFERS: Explanation("The clock of the cluster or the store differs from this machine's."),
    Code.DEFINITIONS_MISSING: Explanation("Custom resource definitions are not installed."),
    Code.DEFINITIONS_OUTDATED: Explanation("A definition lacks a version that is needed."),
    Code.DEFINITIONS_NARROW: Explanation(
        "The definition of DownloadRequests refuses files that are asked for."
    ),
    Code.DEFINITIONS_NOT_ESTABLISHED: Explanation("A definition is installed and not served."),
    Code.DEFINITIONS_NOT_VELEROS: Explanation(
        "Velero runs with definitions that keep every location from becoming Available."
    ),
    Code.SERVER_MISSING: Explanation("No server answers, and none is installed."),
    Code.SERVER_NOT_READY: Explanation("The Deployment of the server has no ready pod."),
    Code.SERVER_SILENT: Explanation("A server should run, and does not answer."),
    Code.SERVER_NOT_LEADING: Explanation("A server answers, and none leads."),
    Code.SERVER_VERSION_DIFFERS: Explanation("Server and client are not of one version."),
    Code.LOCATION_MISSING: Explanation("There is no backup storage location."),
    Code.LOCATION_DEFAULT: Explanation("No location is the default, or several are."),
    Code.ENCRYPTION_REFUSED: Explanation(
        "No key can be wrapped for all recipients and keys of services of the location, so that backups fail."
    ),
    Code.KEY_FILES_MISSING: Explanation(
        "Encrypted backups have lost the files with their keys, and nobody can open them."
    ),
    Code.BACKUPS_PLAIN: Explanation(
        "Backups in a location with recipients are not encrypted, as they were made before it had any."
    ),
    Code.LOCATION_UNAVAILABLE: Explanation("The server cannot use the location."),
    Code.LOCATION_UNUSABLE: Explanation(
        "The location cannot be used from here, with the server's credentials."
    ),
    Code.LOCATION_SECRET_MISSING: Explanation(
        "The Secret that the location names, or its key, does not exist."
    ),
    Code.LOCATION_NOT_CONFIRMED: Explanation(
        "Neither the server nor this machine could look at the location now."
    ),
    Code.LOCATION_UNREACHABLE_FROM_HERE: Explanation(
        "The server can use the location, this machine does not reach it."
    ),
    Code.REPOSITORY_NOT_READY: Explanation("A repository of volume data cannot be used."),
    Code.REPOSITORY_LOCKED: Explanation("A restic repository is locked, and nothing uses it."),
    Code.REPOSITORY_PASSWORD_PUBLIC: Explanation(
        "The repositories of volume data have Velero's default password, which everybody knows."
    ),
    Code.SNAPSHOTS_NOT_SERVED: Explanation("The cluster has CSI drivers and serves no snapshots."),
    Code.SNAPSHOT_CLASS: Explanation("A driver has no VolumeSnapshotClass, or several, for backups."),
    Code.SCHEDULE_INVALID: Explanation("The schedule never fires, or its spec is refused."),
    Code.SCHEDULE_LOCATION_MISSING: Explanation("The schedule names a location that does not exist."),
    Code.SCHEDULE_PAUSED: Explanation("The schedule is paused."),
    Code.SCHEDULE_AHEAD: Explanation("The last run of the schedule is in the future."),
    Code.SCHEDULE_LATE: Explanation("The schedule was due more than an hour ago."),
    Code.SCHEDULE_NOT_VERIFIED: Explanation("The schedule's annotations for verification are refused."),
    Code.RETENTION_INVALID: Explanation(
        "The rules of retention of the schedule cannot be read, or would keep nothing. They delete nothing."
    ),
    Code.RETENTION_WAITING: Explanation(
        "The rules of the schedule would delete more than ten backups at once that nobody could expect. They"
        " wait for a day, or for a confirmation."
    ),
    Code.MESSAGES_INVALID: Explanation(
        "A Secret with settings of messages cannot be read, so that its sinks are told of nothing.",
        "Correct its document, and try it by `notify test`.",
    ),
    Code.MESSAGES_NOT_TAKEN: Explanation(
        "The service of a sink does not take the server's messages. Each is tried for an hour and lost then.",
        "Try it by `notify test`; correct its settings, or bring the service back.",
    ),
    Code.MESSAGES_SINK_MISSING: Explanation(
        "The annotation `pinnace.io/messages` of a schedule names a sink that no Secret has, which is told of"
        " nothing.",
        "Correct the annotation, or add the sink; `none` silences a schedule.",
    ),
    Code.SCHEDULES_WITHOUT_SERVER: Explanation("There are schedules, and no server answers."),
    Code.BACKUPS_FAILED: Explanation("The last backup of a schedule, or made by hand, failed."),
    Code.BACKUPS_PARTIALLY_FAILED: Explanation(
        "The last backup of a schedule, or made by hand, is PartiallyFailed."
    ),
    Code.BACKUPS_UNSOUND: Explanation("The last verification of a backup found damage."),
}
