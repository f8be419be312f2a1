"""The examples of each command, for the help, the manual pages and the site.

A test checks all commands: each has at least three examples, and each example is parsed as a command line.
They are written for a shell; words after `>` and `|` are not for Pinnace.
"""

from collections.abc import Sequence
from typing import Final

import click

Examples = tuple[tuple[str, str], ...]
"""A description, and the command line that does it."""


def _of_reading(noun: str, things: str, name: str) -> dict[str, Examples]:
    """The examples of `get` and `describe`, which are the same for all nouns."""
    return {
        f"{noun} get": (
            (f"List all {things}", f"pinnace {noun} get"),
            ("Show one as it is stored", f"pinnace {noun} get {name} -o yaml"),
            (
                "Print only the names, for scripts",
                f"pinnace {noun} get -o jsonpath='{{.items[*].metadata.name}}'",
            ),
            ("The newest last", f"pinnace {noun} get --sort-by .metadata.creationTimestamp"),
            (f"Follow {things} of a server until Ctrl-C", f"pinnace {noun} get --watch"),
        ),
        f"{noun} describe": (
            ("Describe one", f"pinnace {noun} describe {name}"),
            (f"Describe all {things}", f"pinnace {noun} describe"),
            ("Describe those with a label", f"pinnace {noun} describe -l team=web"),
        ),
    }


def _of_tenants(noun: str, things: str, name: str) -> dict[str, Examples]:
    return {
        f"nonadmin {noun} get": (
            (f"List the {things} of the context's namespace", f"pinnace nonadmin {noun} get"),
            ("Of another namespace", f"pinnace nonadmin {noun} get -n shop"),
            ("Show one as it is stored", f"pinnace nonadmin {noun} get {name} -o yaml"),
        ),
        f"nonadmin {noun} describe": (
            (
                "Describe one: what was asked for, and what was done",
                f"pinnace nonadmin {noun} describe {name}",
            ),
            ("Describe all of the namespace", f"pinnace nonadmin {noun} describe"),
            ("Describe all of another namespace", f"pinnace nonadmin {noun} describe -n shop"),
        ),
    }


EXAMPLES: Final[dict[str, Examples]] = {
    **_of_reading("backup", "backups", "shop"),
    **_of_reading("restore", "restores", "shop-again"),
    **_of_reading("schedule", "schedules", "daily"),
    **_of_reading("backup-location", "backup locations", "main"),
    **_of_reading("snapshot-location", "snapshot locations", "main"),
    **_of_tenants("backup", "backups", "shop"),
    **_of_tenants("restore", "restores", "shop-again"),
    **_of_tenants("storage-location", "storage locations", "mine"),
    "backup create": (
        ("Back up everything, and wait for the end", "pinnace backup create everything --wait"),
        (
            "Back up one namespace and keep it for 30 days",
            "pinnace backup create shop --include-namespaces shop --ttl 30d",
        ),
        (
            "The same with the files of its pods' volumes, which a server with node agents saves",
            "pinnace backup create shop --include-namespaces shop --default-volumes-to-fs-backup",
        ),
        (
            "Without a server, the objects into a folder",
            "pinnace --location ./backups backup create shop --include-namespaces shop",
        ),
        (
            "Only objects with a label, without Secrets; show first what that would be",
            "pinnace backup create web -l app=web --exclude-resources secrets --dry-run",
        ),
        ("Make the backup of a schedule now", "pinnace backup create --from-schedule daily"),
    ),
    "backup logs": (
        ("Print the log of a backup", "pinnace backup logs shop"),
        ("Only its errors", "pinnace backup logs shop | grep level=error"),
        ("Of a backup in a folder", "pinnace --location ./backups backup logs shop"),
    ),
    "backup download": (
        ("Save the tarball as shop-data.tar.gz", "pinnace backup download shop"),
        ("Under another name", "pinnace backup download shop -o /tmp/shop.tar.gz --force"),
        ("From a slow store", "pinnace backup download shop --timeout 10m"),
    ),
    "backup delete": (
        ("Delete one, after a question", "pinnace backup delete shop"),
        ("Delete two without a question", "pinnace backup delete shop blog --confirm"),
        ("Delete those of a schedule", "pinnace backup delete -l velero.io/schedule-name=daily"),
    ),
    "backup ls": (
        ("List what is in a backup", "pinnace backup ls shop"),
        ("Only the Deployments of one namespace", "pinnace backup ls everything deployments -n shop"),
        ("How much there is of each kind", "pinnace backup ls shop --summary"),
    ),
    "backup show": (
        ("Show an object as it was", "pinnace backup show everything deployment/web -n shop"),
        ("With the values of a Secret", "pinnace backup show shop secret/password -n shop --show-secrets"),
        (
            "Put one object back",
            "pinnace backup show shop configmap/settings -n shop | kubectl apply -f -",
        ),
    ),
    "backup diff": (
        ("What changed between two backups", "pinnace backup diff monday tuesday"),
        ("What changed in the cluster since", "pinnace backup diff shop --cluster"),
        (
            "Whole objects of one kind",
            "pinnace backup diff monday tuesday --include-resources deployments --full",
        ),
    ),
    "backup search": (
        ("Which objects have a name or label with this text", "pinnace backup search shop redis"),
        ("In all backups", "pinnace backup search --all redis"),
        ("In all values, too", "pinnace backup search shop registry.example.com --content"),
    ),
    "backup verify": (
        ("Check one backup", "pinnace backup verify shop"),
        ("Restore it on trial too, and see whether it works", "pinnace backup verify shop --restore"),
        (
            "With the data of volumes in their repositories",
            "pinnace --location ./backups backup verify shop --restic-password-file ./password",
        ),
    ),
    "backup index": (
        ("Write the index of a backup in a folder", "pinnace --location ./backups backup index shop"),
        ("Of one in a bucket", "pinnace --location s3://bucket/prefix backup index shop"),
        ("From a slow store", "pinnace --location s3://bucket backup index shop --timeout 30m"),
    ),
    "history": (
        ("In which backups a Deployment changed", "pinnace history deployment/web -n shop"),
        ("With its status", "pinnace history deployment/web -n shop --all-fields"),
        ("For a program", "pinnace history configmap/settings -n shop -o json"),
    ),
    "restore create": (
        ("Show what a restore would do", "pinnace restore create --from-backup shop --dry-run"),
        ("Restore a backup, and wait for the end", "pinnace restore create --from-backup shop --wait"),
        (
            "Into another namespace",
            "pinnace restore create --from-backup shop --namespace-mappings shop:shop-copy",
        ),
        (
            "Without a server, from a folder, only ConfigMaps",
            "pinnace --location ./backups restore create --from-backup shop --include-resources configmaps",
        ),
        (
            "One object with all that it needs",
            "pinnace restore create --from-backup shop --object deployments/shop/web --with-dependencies",
        ),
    ),
    "restore logs": (
        ("Print the log of a restore", "pinnace restore logs shop-again"),
        ("Only its warnings", "pinnace restore logs shop-again | grep level=warning"),
        (
            "Of a restore that was made without a server",
            "pinnace --location ./backups restore logs shop-again",
        ),
    ),
    "restore delete": (
        ("Delete one; what it restored stays", "pinnace restore delete shop-again"),
        ("Delete two without a question", "pinnace restore delete first second --confirm"),
        ("Delete all", "pinnace restore delete --all"),
    ),
    "schedule create": (
        (
            "Each day at 3, kept for two weeks",
            "pinnace schedule create daily --schedule '0 3 * * *' --ttl 2w",
        ),
        (
            "Every six hours, one namespace",
            "pinnace schedule create shop --schedule '@every 6h' --include-namespaces shop",
        ),
        (
            "See what would be created",
            "pinnace schedule create daily --schedule @daily --dry-run=client -o yaml",
        ),
    ),
    "schedule pause": (
        ("Pause one", "pinnace schedule pause daily"),
        ("Pause all", "pinnace schedule pause --all"),
        ("Pause those with a label", "pinnace schedule pause -l team=web"),
    ),
    "schedule unpause": (
        ("Go on with one", "pinnace schedule unpause daily"),
        ("Without the backup that became due meanwhile", "pinnace schedule unpause daily --skip-immediately"),
        ("Go on with all", "pinnace schedule unpause --all"),
    ),
    "schedule delete": (
        ("Delete one; its backups stay", "pinnace schedule delete daily"),
        ("Delete two without a question", "pinnace schedule delete daily weekly --confirm"),
        ("Delete those with a label", "pinnace schedule delete -l team=web"),
    ),
    "backup-location create": (
        (
            "A bucket, and wait until the server has checked it",
            "pinnace backup-location create main --provider aws --bucket backups "
            "--config region=eu-central-1 --credential cloud-credentials=cloud --default --validate",
        ),
        (
            "A folder that is mounted in the server's pod",
            "pinnace backup-location create main --provider filesystem --config path=/srv/backups",
        ),
        (
            "The bucket of another cluster, only to restore from",
            "pinnace backup-location create other --provider aws --bucket theirs --access-mode ReadOnly",
        ),
    ),
    "backup-location set": (
        ("Make it the default", "pinnace backup-location set main --default"),
        ("Use other credentials", "pinnace backup-location set main --credential cloud-credentials=cloud"),
        ("Trust another certificate authority", "pinnace backup-location set main --cacert ./ca.pem"),
    ),
    "backup-location delete": (
        ("Delete one; what is stored in it stays", "pinnace backup-location delete old"),
        ("Delete two without a question", "pinnace backup-location delete old older --confirm"),
        ("Delete those with a label", "pinnace backup-location delete -l team=web"),
    ),
    "snapshot-location create": (
        (
            "A region of a cloud",
            "pinnace snapshot-location create main --provider aws --config region=eu-central-1",
        ),
        (
            "With credentials of its own",
            "pinnace snapshot-location create main --provider azure --credential snapshots=cloud",
        ),
        (
            "See what would be created",
            "pinnace snapshot-location create main --provider aws --dry-run=client -o yaml",
        ),
    ),
    "snapshot-location set": (
        ("Use other credentials", "pinnace snapshot-location set main --credential cloud-credentials=cloud"),
        ("In another namespace", "pinnace snapshot-location set main -n backup --credential snapshots=cloud"),
        (
            "In another cluster",
            "pinnace --kubecontext prod snapshot-location set main --credential cloud-credentials=cloud",
        ),
    ),
    "plugin add": (
        ("Add a plugin's image", "pinnace plugin add registry.example.com/our-plugin:v1"),
        (
            "Pull it each time",
            "pinnace plugin add registry.example.com/our-plugin:dev --image-pull-policy Always",
        ),
        (
            "To a server in another namespace",
            "pinnace plugin add registry.example.com/our-plugin:v1 -n backup",
        ),
    ),
    "plugin remove": (
        ("By its name", "pinnace plugin remove our-plugin"),
        ("By its image", "pinnace plugin remove registry.example.com/our-plugin:v1"),
        ("From a server in another namespace", "pinnace plugin remove our-plugin -n backup"),
    ),
    "plugin get": (
        ("List the plugins of the server", "pinnace plugin get"),
        ("For a program", "pinnace plugin get -o json"),
        ("From a slow server", "pinnace plugin get --timeout 30s"),
    ),
    "repo get": (
        ("List the repositories of volume data", "pinnace repo get"),
        ("With more columns", "pinnace repo get -o wide"),
        ("Of one namespace", "pinnace repo get -l velero.io/volume-namespace=shop"),
    ),
    "restic repo get": (
        ("List the repositories of volume data", "pinnace restic repo get"),
        ("With more columns", "pinnace restic repo get -o wide"),
        ("Of one namespace", "pinnace restic repo get -l velero.io/volume-namespace=shop"),
    ),
    "nonadmin backup create": (
        ("Back up the namespace of the context", "pinnace nonadmin backup create shop"),
        (
            "Back up another namespace, into your own bucket",
            "pinnace nonadmin backup create shop -n shop --storage-location mine",
        ),
        (
            "Without Secrets, for a week",
            "pinnace nonadmin backup create shop --exclude-resources secrets --ttl 1w",
        ),
    ),
    "nonadmin backup logs": (
        ("Print the log of a backup", "pinnace nonadmin backup logs shop"),
        ("In another namespace", "pinnace nonadmin backup logs shop -n shop"),
        ("Only its errors", "pinnace nonadmin backup logs shop | grep level=error"),
    ),
    "nonadmin backup delete": (
        ("Delete a backup and what is stored of it", "pinnace nonadmin backup delete shop"),
        ("Delete the object and keep what is stored", "pinnace nonadmin backup delete shop --keep-data"),
        ("Delete two without a question", "pinnace nonadmin backup delete shop blog --confirm"),
    ),
    "nonadmin restore create": (
        ("Restore a backup of the namespace", "pinnace nonadmin restore create again --from-backup shop"),
        (
            "Only ConfigMaps",
            "pinnace nonadmin restore create again --from-backup shop --include-resources configmaps",
        ),
        ("See what would be asked for", "pinnace nonadmin restore create again --from-backup shop -o yaml"),
    ),
    "nonadmin restore logs": (
        ("Print the log of a restore", "pinnace nonadmin restore logs again"),
        ("In another namespace", "pinnace nonadmin restore logs again -n shop"),
        ("Only its warnings", "pinnace nonadmin restore logs again | grep level=warning"),
    ),
    "nonadmin restore delete": (
        ("Delete one; what it restored stays", "pinnace nonadmin restore delete again"),
        ("In another namespace", "pinnace nonadmin restore delete again -n shop"),
        ("Delete two without a question", "pinnace nonadmin restore delete first second --confirm"),
    ),
    "nonadmin storage-location create": (
        (
            "Ask for a location in your own bucket",
            "pinnace nonadmin storage-location create mine --bucket our-bucket --credential keys=cloud "
            "--config region=eu-central-1",
        ),
        (
            "A path in it",
            "pinnace nonadmin storage-location create mine --bucket our-bucket --prefix backups "
            "--credential keys=cloud",
        ),
        (
            "See what would be asked for",
            "pinnace nonadmin storage-location create mine --bucket ours --credential keys=cloud -o yaml",
        ),
    ),
    "nonadmin storage-location delete": (
        ("Delete one; the data in the bucket stays", "pinnace nonadmin storage-location delete mine"),
        ("In another namespace", "pinnace nonadmin storage-location delete mine -n shop"),
        ("Without a question", "pinnace nonadmin storage-location delete mine --confirm"),
    ),
    "nonadmin server": (
        ("Run the controllers in one namespace", "pinnace nonadmin server -n velero"),
        ("Check storage locations of tenants first", "pinnace nonadmin server -n velero --require-approval"),
        ("At most two backups of one tenant at once", "pinnace nonadmin server --max-unfinished-backups 2"),
    ),
    "install": (
        (
            "A server that keeps backups in a bucket",
            "pinnace install --provider aws --bucket backups --secret-file ./credentials "
            "--backup-location-config region=eu-central-1 --snapshot-location-config region=eu-central-1 "
            "--image registry.example.com/pinnace:v1 --wait",
        ),
        (
            "With the node agent, for the files of pod volumes",
            "pinnace install --provider filesystem --backup-location-config path=/srv/backups "
            "--image registry.example.com/pinnace:v1 --use-node-agent",
        ),
        ("Only the definitions, as YAML", "pinnace install --crds-only --dry-run -o yaml"),
        ("Move to another version", "pinnace install --apply --image registry.example.com/pinnace:v2 --wait"),
    ),
    "uninstall": (
        ("Remove the server, after a question", "pinnace uninstall"),
        ("Without a question, and wait for the end", "pinnace uninstall --force --wait"),
        ("From another namespace", "pinnace uninstall -n backup"),
    ),
    "client config get": (
        ("Print all settings", "pinnace client config get"),
        ("Print one", "pinnace client config get namespace"),
        ("For a program", "pinnace client config get -o json"),
    ),
    "client config set": (
        ("The namespace of the server", "pinnace client config set namespace=backup"),
        ("Exit codes that say how a run ended", "pinnace client config set exit-code=true"),
        ("Remove a setting", "pinnace client config set features="),
    ),
    "completion": (
        ("bash, in ~/.bashrc: source <(pinnace completion bash)", "pinnace completion bash"),
        ("zsh, in ~/.zshrc after compinit: source <(pinnace completion zsh)", "pinnace completion zsh"),
        ("fish, in ~/.config/fish/config.fish: pinnace completion fish | source", "pinnace completion fish"),
    ),
    "version": (
        ("Of the client and the server", "pinnace version"),
        ("Only of the client", "pinnace version --client-only"),
        ("For a program", "pinnace version -o json"),
    ),
    "help": (
        ("Explain a command", "pinnace help backup create"),
        ("Explain how to choose what is backed up", "pinnace help filters"),
        ("Explain exit codes", "pinnace help exit-codes"),
    ),
    "man": (
        ("Read the page of a command", "pinnace man backup create"),
        ("Read the page of a topic", "pinnace man filters"),
        ("Let man find all pages", "pinnace man --install"),
    ),
    "doctor": (
        ("Check server, locations and cluster", "pinnace doctor"),
        ("Without a server", "pinnace --location ./backups doctor"),
        ("For one namespace, for a program", "pinnace doctor --include-namespaces shop -o json"),
    ),
    "debug": (
        ("Write a bundle about the server", "pinnace debug"),
        ("With the log of a backup that failed", "pinnace debug --backup shop"),
        ("To a file of this name", "pinnace debug --output /tmp/bundle.tar.gz --verbose"),
    ),
    "bug": (
        ("Print the text", "pinnace bug"),
        ("Save it", "pinnace bug > report.md"),
        ("With the features that are enabled", "pinnace bug --features EnableCSI"),
    ),
    "server": (
        ("Run the server of a namespace", "pinnace server -n velero"),
        (
            "Two backups at once, and more details in the log",
            "pinnace server --backup-workers 2 --log-level debug",
        ),
        ("Without the collection of expired backups", "pinnace server --disable-controllers gc"),
    ),
    "node-agent": (
        ("Run it on a node", "pinnace node-agent"),
        ("Save two volumes at once", "pinnace node-agent --backup-workers 2"),
        ("With a log in JSON", "pinnace node-agent --log-format json"),
    ),
}


def examples_of(command: click.Command, path: str) -> Sequence[tuple[str, str]]:
    """The examples of a command, by its words, noun first; none of a group."""
    return getattr(command, "examples", ()) or EXAMPLES.get(path, ())
