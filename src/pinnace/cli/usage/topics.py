"""The texts of `help TOPIC`, about what several commands share."""

from typing import Final

TOPICS: Final[dict[str, str]] = {
    "filters": """Filters choose what a backup or a restore takes.

  --include-namespaces shop,blog       only these namespaces; '*' is all
  --exclude-namespaces kube-system     all but these
  --include-resources deployments.apps only these resources, by plural, singular or short name
  --exclude-resources secrets          all but these
  -l app=web                           only objects with this label
  --include-cluster-resources=true     cluster-scoped objects too; unset, those that chosen objects need

What is excluded stays out even if another filter includes it. An object with the label
velero.io/exclude-from-backup=true is never in a backup. A name that selects nothing is an error or a warning,
with similar names.

Examples:
  pinnace backup create shop --include-namespaces shop
  pinnace backup create web -l app=web --exclude-resources secrets
  pinnace restore create --from-backup shop --namespace-mappings shop:shop-copy
""",
    "locations": """A location keeps backups: a folder or a bucket.

With a server it is a BackupStorageLocation:
  pinnace backup-location create main --provider aws --bucket backups --config region=eu-central-1 --validate
  pinnace backup-location get
Without a server it is a URL, by --location or PINNACE_LOCATION:
  ./backups   /srv/backups   file:///srv/backups
  s3://bucket/prefix?region=eu-central-1&s3Url=https://minio:9000&profile=backup
  gs://bucket/prefix?credentialsFile=/path/key.json
  azblob://container/prefix?storageAccount=name&resourceGroup=group

Both store the same files, so that a server finds the backups of commands without one, and vice versa.
Credentials come from the places where the clouds' own tools look; a URL must not contain any.
""",
    "exit-codes": """Exit codes:

  0    done; without a server: the backup or restore is Completed
  1    an error
  2    the request is wrong, or a question got no answer; nothing was done
  3    the backup or restore is PartiallyFailed
  4    the backup or restore Failed
  130  interrupted

With a server 3 and 4 (and 2 for FailedValidation) are only used by `create --wait --exit-code`, as Velero
exits with 0 whatever the phase is. To make that the default: pinnace client config set exit-code=true
With a server a wrong request ends with 1, as with Velero.
""",
    "hooks": """Hooks are commands that run in a container of a pod, around its backup or after its restore.

Annotations of a pod, for a backup:
  pre.hook.backup.velero.io/container: db
  pre.hook.backup.velero.io/command: '["/sbin/fsfreeze", "--freeze", "/data"]'
  pre.hook.backup.velero.io/timeout: 30s
  pre.hook.backup.velero.io/on-error: Fail
  post.hook.backup.velero.io/command: '["/sbin/fsfreeze", "--unfreeze", "/data"]'
and for a restore:
  post.hook.restore.velero.io/command: '["/bin/sh", "-c", "import.sh"]'

Hooks can also be in the spec of a Backup or a Restore (spec.hooks). To try one by hand:
  kubectl exec -n NAMESPACE POD -c CONTAINER -- COMMAND
""",
}
