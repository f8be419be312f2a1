"""Mistakes of users: the answer says what is wrong, with which object, and what to do."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import click
import pytest

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import format_time
from pinnace.cli.browse import verifying  # noqa: F401 -- with the real client, which `connected` replaces
from pinnace.cli.common.reading import sentence
from pinnace.cli.declaring.types import DurationFlag, WaitFlag
from pinnace.cli.main import run
from pinnace.cli.program import cli
from pinnace.client import lease
from pinnace.kube.errors import Forbidden, NotFound
from pinnace.kube.resources import (
    BACKUPS,
    DEPLOYMENTS,
    NAMESPACES,
    RESTORES,
    SCHEDULES,
    SECRETS,
    APIResource,
    velero,
)
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS
from tests.support.stores.indexed_backups import config_map, secret, store
from tests.unit.cli.cluster import ServedCluster, connected


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    cluster = connected(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("velero", "shop", "default"):
        cluster.add(NAMESPACES, name)
    for name in ("shop-nightly", "shop-weekly"):
        cluster.add(BACKUPS, name, status={"phase": "Completed"})
    cluster.add(RESTORES, "shop-restored")
    cluster.add(SCHEDULES, "nightly", spec={"schedule": "@daily"})
    cluster.add(velero("backupstoragelocations"), "main")
    cluster.add(NON_ADMIN_BACKUPS, "b", namespace="shop")
    return cluster


@dataclass(frozen=True)
class Mistake:
    words: str
    text: str
    code: int = 1


LONGER_THAN_0 = "it must be longer than 0; for a long wait write for example 24h"
WITH_A_SERVER = [
    Mistake(
        "backup describe shop-nigthly",
        '"shop-nigthly" not found; did you mean shop-nightly',
    ),
    Mistake("backup get shop-weakly", "did you mean shop-weekly"),
    Mistake("backup logs shop-nightli", 'Backup "shop-nightli" does not exist. Did you mean shop-nightly'),
    Mistake("backup download nightly-shop", "namespace velero has shop-nightly, shop-weekly"),
    Mistake("backup delete shop-nightl --confirm", "did you mean shop-nightly"),
    Mistake("restore describe shop-restord", "did you mean shop-restored?"),
    Mistake("restore create --from-backup shop-nightley", "did you mean shop-nightly"),
    Mistake("restore create --from-schedule nightlie", '"nightlie" not found; did you mean nightly'),
    Mistake("restore create", "give --from-backup BACKUP or --from-schedule SCHEDULE"),
    Mistake("schedule describe nihgtly", "did you mean nightly?"),
    Mistake("schedule pause nightl", "did you mean nightly?"),
    Mistake("schedule create daily", "--schedule is required, as in --schedule '0 3 * * *'"),
    Mistake("help nope", '"nope" is neither a command nor a topic; topics: filters, '),
    Mistake("help filtr", "topics: filters"),
    Mistake("restore create --from-backup b -n velro", "namespace velro does not exist; did you mean velero"),
    Mistake("plugin add example.com/a:1 -n shop", "namespace shop has no Deployment with the label"),
    Mistake("schedule create daily --schedule 25h", "25h"),
    Mistake("backup create b --storage-location mian", "did you mean main?"),
    Mistake("backup create b --resource-policies-configmap p", "namespace velero has no ConfigMap p"),
    Mistake(
        "restore create --from-backup shop-nightly --resource-policies-configmap p",
        "--resource-policies-configmap: namespace velero has no ConfigMap p",
    ),
    Mistake(
        "restore create --from-backup shop-nightly --resource-modifier-configmap m",
        "--resource-modifier-configmap: namespace velero has no ConfigMap m",
    ),
    Mistake(
        "restore create --from-backup shop-nightly --identity-secret keys",
        "--identity-secret: namespace velero has no Secret keys",
    ),
    Mistake(
        "nonadmin restore create r --from-backup b --identity-secret keys -n shop",
        "--identity-secret: namespace shop has no Secret keys",
    ),
    Mistake("nonadmin restore create r --from-backup bb -n shop", '"bb" not found; did you mean b?'),
    Mistake("backup create b --from-schedule nigtly", "did you mean nightly?"),
    Mistake("backup create", "Give one, as in `pinnace backup create NAME`"),
    Mistake("backup-location set mainn --default", "did you mean main?"),
    Mistake("backup list", 'unknown command "list" for "pinnace backup"; did you mean get?'),
    Mistake("schedule edit nightly", "`kubectl edit` changes it"),
    Mistake("edit backup nightly", "`-o yaml` of `pinnace backup create` prints one for a file"),
    Mistake("get rst,bak", "; name one kind: its kinds are backup-locations, backups, "),
    Mistake("health", "`pinnace doctor` checks the server"),
    Mistake("schedule create daily --schedule daily", "found 1: daily; did you mean @daily?"),
    Mistake("backup-location create A_b --provider aws --bucket x", 'as in "a-b"'),
    Mistake("snapshot-location create A_b --provider aws", 'as in "a-b"'),
    Mistake("restore ls", 'unknown command "ls" for "pinnace restore"; did you mean get?'),
    Mistake("backup rm x", "did you mean delete?"),
    Mistake("backup get --latest", "`pinnace backup get --sort-by .status.startTimestamp` shows the latest"),
    Mistake("backup get --zzz", "unknown flag: --zzz\n"),
    Mistake("backup get -A", "'A' in -A; backups and their like are all in one namespace"),
    Mistake("backup create b -A", "'A' in -A; all namespaces are the default"),
    Mistake("backup create -f b.yaml", "`kubectl apply -f FILE` creates what is in one"),
    Mistake("backup logs b -f", "a log is there once its run has ended"),
    Mistake("apply -f b.yaml", "`kubectl` does that"),
    Mistake("backup get --verbose", "-v=6 prints the requests"),
    Mistake("-v backup get", '"backup" for "-v, --v" flag: it is a number: -v=6 prints the requests'),
    Mistake("describe restore/x backup/y", "backup/y is a backup, not a restore"),
    Mistake("restore create --from-backup restore/x", "restore/x is a restore, not a backup"),
    Mistake("logs shop", "`pinnace backup logs shop` or `pinnace restore logs shop`"),
    Mistake("describe shop", "For a backup of that name: `pinnace describe backup shop`"),
    Mistake("backup restore shop", "`pinnace restore create --from-backup shop`"),
    Mistake("backup restore backup/shop -n velero", "`pinnace restore create --from-backup shop`"),
    Mistake("restore shop", "if that is a backup, write `pinnace restore create --from-backup shop`"),
    Mistake("restore create shop", "write `pinnace restore create --from-backup shop`"),
    Mistake("status", "`pinnace doctor` checks the server"),
    Mistake("backup cancel shop", "it cannot be stopped"),
    Mistake("backup nightly describe", "did you mean `pinnace backup describe nightly`?"),
    Mistake("nightly backup describe -o json", "did you mean `pinnace backup describe nightly`?"),
    Mistake("backup get --context prod", "--context; --kubecontext names the context of the kubeconfig"),
    Mistake("backup get --as admin", "--as; --kubecontext chooses a context"),
    Mistake("backup create b --namespaces shop", "--namespaces; --include-namespaces chooses those of the"),
    Mistake("backup create b —wait", '"—wait" begins with a dash that is not the one of the keyboard, as'),
    Mistake(
        "backup create b \N{EN DASH}-include-namespaces=shop",
        "copied texts have it: write --include-namespaces",
    ),
    Mistake("\N{EN DASH}n velero backup get", "copied texts have it: write -n"),
    Mistake("backup create b --snapshot-volumes false", "[NAME]; '=' joins a flag and false, as in --FLAG=f"),
    Mistake("backup delete --all --confirm -n velro", "velro does not exist; did you mean velero?\n", 0),
    Mistake("schedule pause --all -n velro", "Namespace velro does not exist; did you mean velero?\n", 0),
    Mistake("backup nightly", "its commands are create, delete, describe, "),
    Mistake("schedule trigger nightly", "`pinnace schedule run nightly` makes a backup of it"),
    Mistake("backup get --sort-by .a[", "invalid --sort-by: cannot read"),
    Mistake(
        "backup get --sort-by age", "has the field age; a field is a path, as .metadata.creationTimestamp"
    ),
    Mistake("backup get --sort-by .status.nope", "no object has the field .status.nope"),
    Mistake("backup create b --ttl 0 -o yaml", "--ttl 0 stands for the default", 0),
    Mistake("backup create shop-nightly --dry-run", "a backup named shop-nightly exists in namespace velero"),
    Mistake(
        "restore create shop-restored --from-backup shop-nightly --dry-run", "named shop-restored exists"
    ),
    Mistake("restore create --from-backup shop-nightly -n shop", "-n is the server's namespace; --include-n"),
    Mistake("client config get", "No settings: ", 0),
    Mistake("bakcup get", "did you mean backup"),
    Mistake("backup create b --inlcude-namespaces shop", "did you mean --include-namespaces"),
    Mistake("backup create b --ttl 30days", "write for example 90m, 72h, 30d or 2w"),
    Mistake("backup logs", "accepts 1 arg(s), received 0: pinnace backup logs BACKUP"),
    Mistake("backup download", "accepts 1 arg(s), received 0: pinnace backup download NAME"),
    Mistake(
        "restore create --from-backup b --namespace-mappings shop=copy",
        "write shop:copy, with ':' instead of '='",
    ),
    Mistake("backup create b --labels team:shop", "write team=shop, with '=' instead of ':'"),
    Mistake("backup delete", "you must specify exactly one of: specific backup name(s), the --all flag"),
    Mistake("backup get -o xml", 'invalid output format "xml"'),
    Mistake("backup-location create new --provider aws", "--bucket is required"),
    Mistake("backup create b --exit-code", "--exit-code goes with --wait"),
    Mistake("backup get -o jsonpath={.a", "invalid -o jsonpath"),
    Mistake("backup get --output", "flag needs an argument: --output"),
    Mistake(
        "backup create b --snapshot-volumes=maybe", 'invalid argument "maybe" for "--snapshot-volumes" flag'
    ),
    Mistake(
        "backup create b --ttl -1h", "--ttl must not be negative: such a backup would be deleted at once"
    ),
    Mistake("backup create b --csi-snapshot-timeout -1h", "--csi-snapshot-timeout must not be negative"),
    Mistake("backup create b --item-operation-timeout -1h", "--item-operation-timeout must not be negative"),
    Mistake(
        "restore create --from-backup shop-nightly --item-operation-timeout -1h",
        "--item-operation-timeout must not be negative",
    ),
    Mistake("backup create b -l a==b=c", "selector"),
    Mistake("schedule get nightly -l a=b", "give either names or --selector"),
    Mistake(
        "backup-location create l --provider aws --bucket b --validation-frequency=-5s",
        "--validation-frequency must not be negative",
    ),
    Mistake("nonadmin backup create x --ttl=-1s", "--ttl must not be negative"),
    Mistake(
        "nonadmin storage-location create x --provider aws --bucket b --credential s=k "
        "--backup-sync-period=-1s",
        "--backup-sync-period must not be negative",
    ),
    Mistake("nonadmin backup create x -n shop --labels a=b=c", "metadata.labels: invalid label value"),
    Mistake("nonadmin backup get x -l a=b", "give either names or --selector"),
    Mistake("schedule create A_B --schedule @daily", 'both ends, 253 at most, as in "a-b"'),
    Mistake("backup create b c", "accepts at most 1 arg(s), received 2"),
    Mistake("backup create b --include-namespaces shop --exclude-namespaces shop", "shop"),
    Mistake("schedule create s --schedule @dayly", "@dayly"),
    Mistake("help bakcup", 'unknown command "bakcup" for "pinnace"; did you mean backup'),
    Mistake("man bakcup", "there is no manual page of 'bakcup'"),
    Mistake("completion tcsh", ""),
    Mistake("client config set x", 'invalid KEY=VALUE: "x"', 0),
    Mistake("client config set namespce=x", "there is no setting namespce; did you mean namespace? Nothing"),
    Mistake("client config set other=x", "other is stored, but no command reads it", 0),
    Mistake("--namespace", "flag needs an argument: --namespace"),
    Mistake("backup-location describe mian", "did you mean main?"),
    Mistake("backup create b --labels team=a,team=b", "team is given twice, as a and as b"),
    Mistake('backup create b --annotations "k=v', "a double quote is not closed"),
    Mistake("backup create b --from-schedule=", "leave the flag out (is a variable unset?)"),
    Mistake("server --metrics-address 8085", '"8085" is not an address'),
    Mistake("backup delete --all", "EOF; nothing was done. --confirm answers yes\n", 2),
    Mistake("uninstall", "EOF; nothing was done. --force answers yes\n", 2),
    Mistake("client config set exit-code=maybe", "exit-code=maybe is stored, but counts as false", 0),
    Mistake(
        "restore create --from-backup shop-nightly --namespace-mappings shop:",
        '"shop:" lacks a name: write OLD:NEW',
    ),
    Mistake("restore create --from-backup shop-nightly --namespace-mappings :shop", '":shop" lacks a name'),
    Mistake(
        "restore create --from-backup shop-nightly --namespace-mappings shop:X_Y", 'invalid namespace "X_Y"'
    ),
    Mistake(
        "restore create --from-backup shop-nightly --namespace-mappings shop:s*",
        "a pattern is not allowed here",
    ),
    Mistake("history configmap/shop/settings/x", "names no object: write KIND/NAMESPACE/NAME"),
    Mistake("history configmap/shop/settings -n bank", "is in namespace shop, not in bank (-n)"),
    Mistake("search shop", "did you mean `pinnace backup search shop`?"),
    Mistake("diff shop", "did you mean `pinnace backup diff shop`?"),
    Mistake("ls shop", "did you mean get or `pinnace backup ls shop`?"),
    Mistake("pause nightly", "did you mean `pinnace schedule pause nightly`?"),
    Mistake("backup history cm/a", "did you mean `pinnace history cm/a`?"),
    Mistake("restore verify shop", "did you mean `pinnace backup verify shop`?"),
    Mistake("backup help create", "did you mean `pinnace help backup create`?"),
    Mistake("get pods", "`kubectl` has those of the cluster, and `pinnace backup ls BACKUP` lists"),
    Mistake("login", 'unknown command "login" for "pinnace"\n'),
    Mistake("init", "did you mean install?"),
    Mistake("rollback shop", "`pinnace restore create --from-backup shop`"),
    Mistake(
        "restore create --from-backup b --existing-resource-policy updte",
        'invalid value: "updte"; write none, update or recreate',
    ),
    Mistake("backup create b -o wide", "Nothing was sent: -o wide only prints. -o name creates", 0),
    Mistake("schedule create s --schedule @daily -o table", "Nothing was sent: -o table only prints", 0),
    Mistake("backup create b -l a=b\u00a0c", 'invalid label value "b\\xa0c"'),
    Mistake("schedule describe -n shop", "No schedules in namespace shop.", 0),
    Mistake("backup describe -l a=b", "No backups in namespace velero match 'a=b'.", 0),
    *(
        Mistake(words, f"flag: {LONGER_THAN_0}")
        for words in (
            "backup logs shop-nightly --timeout 0",
            "restore logs shop-restored --timeout=-1m",
            "backup download shop-nightly --timeout 0s",
            "nonadmin backup logs x --timeout 0",
            "version --timeout 0",
            "plugin get --timeout -5s",
            "backup get --api-timeout 0",
        )
    ),
]


@pytest.mark.parametrize("mistake", WITH_A_SERVER, ids=lambda mistake: mistake.words)
def test_a_mistake_with_a_server(
    mistake: Mistake,
    cluster: ServedCluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", None)

    assert run(mistake.words.split(" ")) == mistake.code

    shown = capsys.readouterr()
    assert mistake.text in shown.err
    assert "Traceback" not in shown.err + shown.out
    assert cluster.writes() == []


@pytest.mark.parametrize("noun", ["backup", "restore"])
def test_what_is_created_without_a_server_is_warned_of(
    noun: str, cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    source = ["--from-backup", "shop-nightly"] if noun == "restore" else []

    assert run([noun, "create", "first", *source]) == 0
    waits = f"WARNING: the {noun} waits for a server: there is none in namespace velero."
    assert capsys.readouterr().err.splitlines()[1:] == [waits]

    cluster.add(DEPLOYMENTS, "velero", labels={"component": "velero"}, status={"availableReplicas": 1})
    assert run([noun, "create", "second", *source]) == 0
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "advises"),
    [("backup logs shop-nightly --timeout 50ms", True), ("backup describe shop-nightly", False)],
)
def test_only_a_command_with_that_flag_advises_a_longer_timeout(
    command: str,
    advises: bool,
    cluster: ServedCluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pinnace.cli.common.reading.DOWNLOAD_TIMEOUT_SECONDS", 0.05)
    cluster.stored(BACKUPS, "shop-nightly")["status"] = {"phase": "Completed"}

    run([*command.split(), *([] if advises else ["--details"])])

    shown = capsys.readouterr()
    assert "timed out after 0.05s waiting for the " in shown.out + shown.err
    assert ("--timeout gives it longer" in shown.out + shown.err) == advises


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("did you mean b?", "Did you mean b?"),
        ("s3://bucket has b", "s3://bucket has b"),
        ("/backups has b", "/backups has b"),
    ],
)
def test_a_sentence_begins_with_a_capital_and_urls_stay_as_they_are(text: str, shown: str) -> None:
    assert sentence(text) == shown


def test_the_log_of_a_backup_that_cannot_begin_says_what_it_waits_for(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add(BACKUPS, "early", status={"phase": "New"})

    assert run(["backup", "logs", "early"]) == 1

    waits = "It waits for a server: there is none in namespace velero.\n"
    assert capsys.readouterr().err.endswith(f"and try again. {waits}")


WITHOUT_A_SERVER = [
    Mistake("restore create --from-schedule nightly", "No backups found for the schedule nightly", 2),
    Mistake("restore create --from-backup nightly", '"nightly" not found; there are no backups in', 2),
    Mistake("backup get", "No backups in {location}.", 0),
    Mistake("restore get", "No restores in {location}.", 0),
    Mistake("backup describe", "No backups in {location}.", 0),
    Mistake("restore describe -o json", "No restores in {location}.", 0),
    Mistake("backup describe x", "there are no backups in {location}", 1),
    Mistake("backup delete x --confirm", "there are no backups in {location}", 1),
    Mistake("schedule get", "leave out --location", 2),
    Mistake("backup create b --storage-location main", "--storage-location needs a server", 2),
    Mistake("backup verify b --restore --ready-timeout 0", LONGER_THAN_0, 2),
    Mistake("nonadmin backup delete x", "`nonadmin` works on a server in the cluster", 2),
]


@pytest.mark.parametrize("mistake", WITHOUT_A_SERVER, ids=lambda mistake: mistake.words)
@pytest.mark.usefixtures("cluster")
def test_a_mistake_without_a_server(
    mistake: Mistake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location = tmp_path / "empty"
    location.mkdir()

    assert run(["--location", str(location), *mistake.words.split()]) == mistake.code

    assert mistake.text.format(location=location) in capsys.readouterr().err


BACKUP_A = "the folder of backup a, inside of a location: write --location {location}"
ALL_BACKUPS = "the folder of all backups, inside of a location: write --location {location}"
TOO_DEEP = [
    ("backups/a", Mistake("backup get", f"/backups/a. It is {BACKUP_A}.", 0)),
    ("backups/a", Mistake("backup describe a", f"/backups/a: it is {BACKUP_A}")),
    ("backups/a", Mistake("backup create b", f"/backups/a: it is {BACKUP_A}", 2)),
    ("backups", Mistake("backup get", f"/backups. It is {ALL_BACKUPS}.", 0)),
    ("backups", Mistake("backup create b", f"/backups: it is {ALL_BACKUPS}", 2)),
    ("backups/b", Mistake("backup get", "No backups in {location}/backups/b.\n", 0)),
    ("", Mistake("backup describe b", '"b" not found; {location} has a\n')),
]


@pytest.mark.parametrize(("folder", "mistake"), TOO_DEEP, ids=lambda each: getattr(each, "words", each))
@pytest.mark.usefixtures("cluster")
def test_a_folder_inside_of_a_location_is_told_from_one(
    folder: str, mistake: Mistake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location = tmp_path / "store"
    for name in ("a", "b"):
        (location / "backups" / name).mkdir(parents=True)
    (location / "backups/a/velero-backup.json").write_text(
        '{"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "a"}}'
    )

    assert run(["--location", str(location / folder), *mistake.words.split()]) == mistake.code

    shown = capsys.readouterr()
    assert mistake.text.format(location=location) in shown.out + shown.err


@pytest.mark.parametrize("flags", ["", " --identity-secret keys"])
def test_a_restore_of_an_encrypted_backup_without_an_identity_is_warned_about(
    flags: str, cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add(SECRETS, "keys")
    sealed = cluster.add(BACKUPS, "sealed", status={"phase": "Completed"})
    sealed["metadata"]["annotations"] = {labels.ENCRYPTED: "true"}

    assert run(f"restore create r --from-backup sealed{flags}".split()) == 0

    warned = "WARNING: backup sealed is encrypted: without --identity-secret the restore fails"
    assert (warned in capsys.readouterr().err) == (not flags)


def test_who_may_not_read_what_a_flag_names_is_not_kept_from_asking(
    cluster: ServedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = cluster.get

    async def refusing(resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        if resource == SECRETS:
            raise Forbidden(403, reason="Forbidden", message="secrets is forbidden")
        return await get(resource, name, namespace)

    monkeypatch.setattr(cluster, "get", refusing)

    assert run(["restore", "create", "r", "--from-backup", "shop-nightly", "--identity-secret", "keys"]) == 0

    assert cluster.stored(RESTORES, "r")["metadata"]["annotations"][labels.IDENTITY_SECRET] == "keys"


def test_a_verification_without_any_server_says_so_after_one_look(
    cluster: ServedCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.plugins = None
    monkeypatch.setattr(lease, "FIRST_LOOK_SECONDS", 0)

    assert run(["backup", "verify", "shop-nightly"]) == 1

    said = capsys.readouterr().err
    assert "no server can verify backups: there is none in namespace velero. Start the server" in said


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("backup create b --storage-location broken", "storage location broken"),
        ("backup create b", "storage location broken, the default,"),
        ("backup create b --from-schedule nightly", "storage location broken, the default,"),
        ("backup create b --from-schedule weekly", "storage location broken"),
        ("schedule create s --schedule @daily --storage-location broken", "storage location broken"),
        ("schedule create s --schedule @daily", "storage location broken, the default,"),
    ],
)
def test_a_backup_or_schedule_with_a_location_that_is_unavailable_is_warned_about(
    words: str, named: str, cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    looked = format_time(SYSTEM_CLOCK.now() - timedelta(minutes=3))
    why = {"phase": "Unavailable", "message": "no such bucket", "lastValidationTime": looked}
    cluster.add(velero("backupstoragelocations"), "broken", spec={"default": True}, status=why)
    cluster.add(SCHEDULES, "weekly", spec={"template": {"storageLocation": "broken"}})

    assert run(words.split()) == 0

    told = f"WARNING: {named} is Unavailable: no such bucket (a server looked 3m ago; `pinnace doctor` has"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("backup create b", "there is no storage location"),
        ("schedule create s --schedule @daily", "there is no storage location"),
        ("restore create --from-backup lost", "storage location gone does not exist"),
    ],
)
def test_a_location_that_is_missing_is_warned_of(
    words: str, told: str, cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    del cluster.objects["backupstoragelocations.velero.io", "velero", "main"]
    cluster.add(BACKUPS, "lost", spec={"storageLocation": "gone"}, status={"phase": "Completed"})

    assert run(words.split()) == 0

    assert f"WARNING: {told}, and the server refuses what needs one\n" in capsys.readouterr().err


@pytest.mark.parametrize("noun", ["backup", "restore"])
def test_a_file_of_authorities_that_is_missing_is_told_though_it_may_not_be_needed(
    noun: str, cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("logs", "describe"):
        assert run([noun, command, "shop-nightly", "--cacert", "/nope"]) == 1
        assert "--cacert: there is no file /nope" in capsys.readouterr().err


def test_a_read_only_location_is_warned_of_by_what_writes_to_it(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add(velero("backupstoragelocations"), "default", spec={"accessMode": "ReadOnly"})
    cluster.add(BACKUPS, "a", spec={"storageLocation": "default"}, status={"phase": "Completed"})
    told = "is read-only, and the server refuses backups into it\n"

    for words, is_warned in (("backup create b", True), ("restore create --from-backup a", False)):
        assert run(words.split()) == 0
        assert (told in capsys.readouterr().err) == is_warned


def test_without_a_marked_default_the_location_of_that_name_is_the_one_that_is_warned_about(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add(velero("backupstoragelocations"), "default", status={"phase": "Unavailable"})

    assert run(["backup", "create", "b"]) == 0

    assert "WARNING: storage location default, the default, is Unavailable\n" in capsys.readouterr().err


def test_a_user_who_may_not_list_locations_can_create_a_backup_in_the_default_one(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.refuse("list", "backupstoragelocations", Forbidden(403, reason="Forbidden"))

    assert run(["backup", "create", "b"]) == 0

    assert "locations" not in capsys.readouterr().err


def test_every_flag_that_limits_a_wait_refuses_0() -> None:
    """A limit that a server keeps may be 0 for "its default"; a wait of this command may not."""
    waits: set[str] = set()
    others: set[str] = set()

    def look(command: click.Command, path: str) -> None:
        for param in command.params:
            if isinstance(param.type, DurationFlag):
                flag = f"{path} {param.opts[0]}"
                (waits if isinstance(param.type, WaitFlag) else others).add(flag)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found is not None
                look(found, f"{path} {name}".strip())

    look(cli, "")
    assert [
        flag for flag in others if flag.endswith((" --timeout", " --ready-timeout", " --api-timeout"))
    ] == []
    assert {"version --timeout", "plugin get --timeout", "backup verify --ready-timeout"} <= waits


WITH_STORED_BACKUPS = [
    *(
        pytest.param(words, text, code, marks=pytest.mark.found(found))
        for found, words, text, code in (
            ("CF1", "backup get -l a=b", "No backups in {location} match 'a=b'.\n", 0),
            ("CF1", "backup describe -l a=b", "No backups in {location} match 'a=b'.\n", 0),
            ("CF2", "backup create x --annotations =b", "invalid annotation key", 2),
            ("CF2", "restore create x --from-backup b --annotations a/b/c=d", "invalid annotation key", 2),
            ("CF3", "backup create A_B --dry-run", 'metadata.name: invalid value "A_B"', 2),
            ("CF3", "backup create A_B -o json", 'metadata.name: invalid value "A_B"', 2),
            ("CF3", "restore create x --from-backup nightly --labels a=b=c --dry-run", "metadata.labels", 2),
            ("CF3", "restore create X --from-backup nightly --dry-run=client", "metadata.name", 2),
            ("CF4", "backup diff nightly weekly --include-resources configmpas",
             "nothing in either backup matches, so nothing was compared; did you mean configmaps?", 2),
            ("CF4", "backup diff nightly weekly -n shpo", "did you mean shop?", 2),
            ("CF4", "backup diff nightly weekly -n shpo -o json", "did you mean shop?", 2),
            ("CF4", "backup diff nightly weekly --include-namespaces blog", "so nothing was compared.", 2),
            ("CF4", "backup diff nightly weekly -l app=none", "so nothing was compared.", 2),
            ("CF4", "backup diff nightly weekly --include-resources configmaps,secrts",
             "WARNING: nothing in either backup matches secrts; did you mean secrets?", 0),
            ("CF4", "backup diff nightly weekly --include-resources cm,*.apps",
             "WARNING: nothing in either backup matches *.apps.", 0),
            ("CF4", "backup ls nightly --include-resources configmpas", "; did you mean configmaps?", 0),
            ("CF4", "backup ls nightly -n shpo", "Nothing in backup nightly matches; did you mean shop?", 0),
            ("CF4", "backup search nightly EUR --content -n shpo", "matches shpo; did you mean shop?", 1),
            ("CF14", "backup get nightly -l a=b", "give either names or --selector", 2),
            ("CF14", "backup describe nightly -l !!!(", "give either names or --selector", 2),
            ("CF14", "restore get x -l a=b", "give either names or --selector", 2),
            ("CF19", "backup create x --data-mover nope", "--data-mover has no effect with --location", 2),
            ("CF19", "backup create x --ordered-resources pods=a/x;pods=a/y", "pods is given twice", 2),
            ("CF19", "backup create x --ordered-resources =a/b", "Invalid OrderedResources '=a/b'.", 2),
        )
    )
]  # fmt: skip


@pytest.mark.parametrize(("words", "text", "code"), WITH_STORED_BACKUPS)
@pytest.mark.usefixtures("cluster")
def test_a_request_that_cannot_be_meant_is_told_apart_from_one_without_result(
    words: str, text: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location = tmp_path / "location"
    for name in ("nightly", "weekly"):
        store(location, name, [config_map("settings", currency="EUR"), secret("token", key="x")])
    before = sorted(location.rglob("*"))

    assert run(["--location", str(location), *words.split()]) == code

    shown = capsys.readouterr()
    assert text.format(location=location) in shown.err
    assert "without a readable record" not in shown.err
    assert shown.out == "" or code != 2
    assert sorted(location.rglob("*")) == before


@pytest.mark.found("CF1")
def test_only_backups_without_a_record_are_told_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_cluster(monkeypatch, tmp_path)
    location = tmp_path / "location"
    for name in ("good", "broken"):
        store(location, name, [])
    (location / "backups" / "broken" / "velero-backup.json").unlink()

    assert run(["--location", str(location), "backup", "get", "-l", "a=b"]) == 0

    shown = capsys.readouterr().err
    assert "It has files of 1 backup without a readable record" in shown
    assert shown.endswith(": broken.\n")


IN_A_BACKUP = [
    Mistake("restore create --from-backup nightyl", '"nightyl" not found; did you mean nightly?', 2),
    Mistake("backup describe nightyl", "did you mean nightly?"),
    Mistake("backup show nightly cm/setings -n shop", "did you mean cm/settings?"),
    Mistake("backup show nightly cm/settings -n shpo", "did you mean -n shop?"),
    Mistake("backup show nightly cofigmap/settings", "did you mean configmaps?"),
    Mistake("backup show nightly settings", "give the object as KIND/NAME", 2),
    Mistake("backup ls nightly cm/setings", "did you mean cm/settings?"),
    Mistake("history cm/setings", "cm/setings is in no backup; did you mean cm/settings?"),
    Mistake(
        "backup search nightly euro",
        "The text was not found in backup nightly; --content looks at all values",
    ),
    Mistake("backup search --all euro --content", "The text was not found in any backup."),
    Mistake("backup diff nightly", "give two backups, or one backup and --cluster", 2),
    Mistake("backup diff nightly weekly", "{location} has nightly", 2),
    Mistake("backup logs weekly", 'Backup "weekly" does not exist. {location} has nightly'),
    Mistake("restore logs x", 'Restore "x" does not exist. There are no restores in {location}'),
    Mistake("backup download nightly -o /proc/none/x", "open /proc/none/x: No such file or directory"),
    Mistake("backup create Nightly", 'invalid value "Nightly": must be lower case', 2),
    Mistake(
        "restore create --from-backup nightly --namespace-mappings shop:a,shop:b",
        "shop is given twice, as a and as b",
        2,
    ),
]


@pytest.mark.parametrize("mistake", IN_A_BACKUP, ids=lambda mistake: mistake.words)
@pytest.mark.usefixtures("cluster")
def test_a_mistake_about_a_backup_without_a_server(
    mistake: Mistake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location = tmp_path / "location"
    store(location, "nightly", [config_map("settings", currency="EUR")])
    before = sorted(location.rglob("*"))

    assert run(["--location", str(location), *mistake.words.split()]) == mistake.code

    shown = capsys.readouterr()
    assert mistake.text.format(location=location) in shown.err
    assert "Traceback" not in shown.err + shown.out
    assert sorted(location.rglob("*")) == before


ELSEWHERE = [
    Mistake("--location {folder}/file backup get", "{folder}/file is not a directory", 2),
    Mistake("--location {folder}/none backup get", "the directory {folder}/none does not exist", 2),
    Mistake("--location s4://bucket backup get", "unknown scheme 's4' in the location", 2),
    Mistake("--location s3://bucket?regio=x backup get", "unknown parameters [regio] in the S3 URL", 2),
    Mistake("--location s3:// backup get", "--location", 2),
    Mistake("--location {folder}/.config/none backup get", "or create it if the location is new\n", 2),
    Mistake("--location file:/srv/b backup get", "write file:///PATH, with three slashes, or the path", 2),
    Mistake("--location s3:bucket backup get", "a URL has two slashes, as in s3://bucket/prefix", 2),
    Mistake("--location GS:/bucket backup get", "a URL has two slashes, as in gs://bucket/prefix", 2),
    Mistake("--location azblob://c backup get", "in a URL, as ?NAME=VALUE: see `pinnace help locations`", 2),
    Mistake("--location s3://bucket?region=x backup get", "{folder}/none, which AWS_SHARED_CREDENTIALS_FILE"),
    Mistake("--kubeconfig {folder}/file backup get", "{folder}/file: is not a kubeconfig"),
    Mistake("--kubeconfig {folder}/yaml backup get", "{folder}/yaml: is not valid YAML (line 2)"),
    Mistake("--kubeconfig {folder} backup get", "{folder}: cannot be read: Is a directory"),
]


@pytest.mark.parametrize("mistake", ELSEWHERE, ids=lambda mistake: mistake.words)
def test_a_mistake_about_the_location_or_kubeconfig(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_cluster(monkeypatch, tmp_path)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    (tmp_path / "file").write_text("some text")
    (tmp_path / "yaml").write_text("a: [\n")

    assert run(mistake.words.format(folder=tmp_path).split()) == mistake.code

    shown = capsys.readouterr()
    assert mistake.text.format(folder=tmp_path) in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


def test_a_folder_of_other_files_is_reported_as_no_location(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"a cat")
    assert run(["--location", str(tmp_path), "backup", "get"]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "It does not look like a location of backups:" in shown.err
    assert "[photos]" in shown.err


def test_a_namespace_that_does_not_exist_is_reported_if_nothing_is_found(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backup", "get", "-n", "velro"]) == 0
    text = "No backups in namespace velro. Namespace velro does not exist; did you mean velero?\n"
    assert capsys.readouterr() == ("", text)
    assert run(["backup", "get", "-n", "shop", "-l", "a=b"]) == 0
    assert capsys.readouterr().err == "No backups in namespace shop match 'a=b'.\n"
    assert run(["backup", "get", "-n", "velro", "-o", "json"]) == 0
    shown = capsys.readouterr()
    assert (json.loads(shown.out)["items"], shown.err) == ([], "")
    assert cluster.writes() == []


def test_a_name_that_is_taken_says_what_to_do(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backup", "create", "shop-nightly"]) == 1
    text = 'backups.velero.io "shop-nightly" already exists: choose another name, or delete the existing'
    assert text in capsys.readouterr().err
    assert len(cluster.objects) == 9


def test_creating_in_a_namespace_that_does_not_exist_says_which_flag_names_it(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(verb: str, _plural: str, _name: str) -> None:
        if verb == "create":
            raise NotFound(404, reason="NotFound", message='namespaces "velro" not found')

    cluster.before = refuse
    assert run(["backup", "create", "b", "-n", "velro"]) == 1
    assert capsys.readouterr().err.splitlines()[1:] == [
        'An error occurred: namespaces "velro" not found: name another namespace with -n, or install a '
        "server (`pinnace install --help`)"
    ]


@pytest.mark.parametrize(("given", "stored"), [("30d", "720h0m0s"), ("2w", "336h0m0s"), ("1d12h", "36h0m0s")])
@pytest.mark.usefixtures("cluster")
def test_a_ttl_may_be_in_days_and_weeks(given: str, stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backup", "create", "b", "--ttl", given, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["spec"]["ttl"] == stored


def test_objects_are_listed_before_they_are_deleted(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add(
        BACKUPS, "big", status={"phase": "Completed", "progress": {"itemsBackedUp": 1204}},
    )  # fmt: skip
    cluster.add(RESTORES, "again", spec={"backupName": "big"})
    monkeypatch.setattr("sys.stdin", None)

    assert run(["backup", "delete", "--all"]) == 2

    assert "  backup big (Completed, 1,204 items, 1 restore)\n" in capsys.readouterr().out
    assert cluster.writes() == []


class Refusing(BaseHTTPRequestHandler):
    """Knows no user."""

    def do_GET(self) -> None:
        body = b'{"kind":"Status","reason":"Unauthorized","message":"Unauthorized","code":401}'
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "config"
    content = {
        "current-context": "prod",
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "ann"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "ann", "user": {"token": "expired"}}],
    }
    path.write_text(json.dumps(content))
    return path


def without_cluster(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("HOME", str(home))
    for name in ("PINNACE_LOCATION", "VELERO_NAMESPACE", "KUBERNETES_SERVICE_HOST", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_refused_credentials_are_explained(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_cluster(monkeypatch, tmp_path)
    path = kubeconfig(tmp_path, f"http://127.0.0.1:{port}")
    assert run(["--kubeconfig", str(path), "backup", "get"]) == 1
    error = capsys.readouterr().err
    assert "does not accept the credentials of user 'ann' of context 'prod'" in error
    assert "may have expired" in error


def test_https_to_a_port_of_http_is_explained(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_cluster(monkeypatch, tmp_path)
    path = kubeconfig(tmp_path, f"https://127.0.0.1:{port}")
    assert run(["--kubeconfig", str(path), "backup", "get"]) == 1
    assert "the server at this port speaks no TLS: is it http:// and not https://?" in capsys.readouterr().err


def test_a_kubeconfig_that_does_not_exist_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_cluster(monkeypatch, tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    assert run(["backup", "get"]) == 1
    assert f"({tmp_path}/nowhere does not exist)" in capsys.readouterr().err


def test_a_context_that_does_not_exist_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_cluster(monkeypatch, tmp_path)
    path = kubeconfig(tmp_path, "https://127.0.0.1:1")
    assert run(["--kubeconfig", str(path), "--kubecontext", "prdo", "backup", "get"]) == 1
    assert "context 'prdo' does not exist; did you mean prod?" in capsys.readouterr().err
    assert run(["--kubeconfig", str(path), "--kubecontext", "zzz", "backup", "get"]) == 1
    assert "context 'zzz' does not exist; there are prod" in capsys.readouterr().err
