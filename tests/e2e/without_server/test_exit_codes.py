"""Each exit code, for the reasons that users meet. (docs/tasks/without-a-server.md)"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import server_fault
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS, SECRETS, SERVICE_ACCOUNTS
from tests.e2e.without_server.command import Outcome, Pinnace
from tests.support.runs.without_server import MakePinnace, exists, files_in

READ = ["get", "list"]
LimitedUser = Callable[..., Awaitable[Path]]


def only_error(outcome: Outcome) -> str:
    """The one line that says what is wrong, without the one that names the cluster."""
    assert outcome.told.count("\n") == 1, outcome.err
    return outcome.told.strip()


async def test_a_forbidden_kind_makes_a_backup_partially_failed(
    pinnace_for: MakePinnace, location: Path, world: str, limited_user: LimitedUser
) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps", "namespaces"], "verbs": READ}
    pinnace = pinnace_for(str(location), kubeconfig=await limited_user(rule))

    outcome = await pinnace(
        *("backup", "create", "b1", "--include-namespaces", world),
        *("--include-resources", "configmaps,secrets", "--exclude-namespaces", "other"),
    )

    assert outcome.code == 3, outcome
    assert "Backup b1 PartiallyFailed: 4 items in " in outcome.lines[1]
    assert ", 1 error, 0 warnings." in outcome.lines[1]
    title, error, advice, rest = outcome.told.splitlines()
    assert title == "Errors:"
    assert error.startswith("  Error listing items: secrets is forbidden: User ")
    assert advice.endswith("the right to list secrets, or leave them out with --exclude-resources secrets.")
    assert rest.startswith("The error in full: pinnace backup logs b1 --kubeconfig ")
    assert rest.endswith(f" --location {location}")
    stored = json.loads((location / "backups/b1/velero-backup.json").read_bytes())
    assert (stored["status"]["phase"], stored["status"]["errors"]) == ("PartiallyFailed", 1)
    log = await pinnace("backup", "logs", "b1")
    assert (log.code, log.out.count("level=error")) == (0, 1)
    assert 'cannot list resource \\"secrets\\"' in log.out
    assert "Phase:  PartiallyFailed (run `" in (await pinnace("backup", "describe", "b1")).out


@pytest.mark.spec("BKP-069")
async def test_forbidden_cluster_role_bindings_are_an_error_of_each_account(
    pinnace_for: MakePinnace, location: Path, world: str, limited_user: LimitedUser, client: KubeClient
) -> None:
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "app"}}, world)
    rule = {"apiGroups": [""], "resources": ["*"], "verbs": READ}
    pinnace = pinnace_for(str(location), kubeconfig=await limited_user(rule))
    flags = ("--include-namespaces", world, "--include-resources")

    kinds = "configmaps,serviceaccounts"
    outcome = await pinnace("backup", "create", "b1", *flags, f"{kinds},clusterrolebindings")
    without = await pinnace("backup", "create", "b2", *flags, kinds)

    assert outcome.code == 3, outcome
    log = (await pinnace("backup", "logs", "b1")).out
    assert f"cluster role bindings of service account {world}/app are not in the backup" in log
    assert "clusterrolebindings.rbac.authorization.k8s.io is forbidden" in log
    stored = await pinnace("backup", "describe", "b1", "--details")
    assert f"{world}/app" in stored.out
    assert without.code == 0, without


async def test_a_misspelt_resource_ends_with_2_and_an_empty_selection_is_said(
    pinnace: Pinnace, location: Path, world: str
) -> None:
    misspelt = await pinnace("backup", "create", "b1", "--include-resources", "configmpas,secrets,nosuch")
    assert (misspelt.code, misspelt.out) == (2, "")
    assert "the cluster serves no resource 'configmpas'; did you mean configmaps" in misspelt.err
    assert "the cluster serves no resource 'nosuch'" in misspelt.err
    assert files_in(location) == {}

    flags = ("--include-namespaces", world)
    empty = await pinnace("backup", "create", "b2", *flags, "--selector", "app=nosuch")
    assert empty.code == 0, empty
    assert "Backup b2 Completed: 0 items" in empty.out
    assert ", 0 errors, 1 warning." in empty.out
    warning, rest = empty.told.splitlines()
    assert warning.startswith("WARNING: the backup is empty: its filters select no object. Compare included")
    assert rest.startswith("The warning in full: pinnace backup logs b2 --kubeconfig ")

    missing = await pinnace(
        *("backup", "create", "b3", "--include-namespaces", "nosuchns", "--include-resources", "configmaps")
    )
    assert missing.code == 3, missing
    assert ", 1 error, 1 warning." in missing.out
    assert "WARNING: the backup is empty: no object was saved; its errors and filters say why." in missing.err


async def test_an_object_that_cannot_be_created_makes_a_restore_partially_failed(
    pinnace: Pinnace, pinnace_for: MakePinnace, location: Path, world: str, limited_user: LimitedUser,
    client: KubeClient,
) -> None:  # fmt: skip
    assert (await pinnace("backup", "create", "b1", "--include-namespaces", world)).code == 0
    for name in ("settings", "other"):
        await client.delete(CONFIGMAPS, name, world)
    await client.delete(SECRETS, "password", world)
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": [*READ, "create"]}
    reading = {"apiGroups": ["*"], "resources": ["*"], "verbs": READ}
    limited = pinnace_for(str(location), kubeconfig=await limited_user(rule, reading))

    outcome = await limited("restore", "create", "r1", "--from-backup", "b1")

    assert outcome.code == 3, outcome
    assert outcome.lines[1].startswith("Restore r1 PartiallyFailed: ")
    assert (await client.get(CONFIGMAPS, "settings", world))["data"] == {"key": "value of settings"}
    description = (await pinnace("restore", "describe", "r1")).out
    assert f"error restoring secrets/{world}/password: secrets is forbidden" in description
    assert "Phase:                       PartiallyFailed (run 'pinnace restore logs r1 --" in description
    assert (await pinnace("restore", "logs", "r1")).code == 0


async def test_a_restore_of_a_damaged_backup_has_its_exit_code(
    pinnace: Pinnace, location: Path, world: str
) -> None:
    flags = ("--include-namespaces", world, "--include-resources", "configmaps")
    assert (await pinnace("backup", "create", "b1", *flags)).code == 0
    tarball = location / "backups/b1/b1.tar.gz"
    content = tarball.read_bytes()

    tarball.write_bytes(content[: len(content) // 2])
    cut = await pinnace("restore", "create", "r1", "--from-backup", "b1")
    assert cut.code == 3
    description = (await pinnace("restore", "describe", "r1")).out
    assert "Velero:   error reading backup contents: " in description

    tarball.unlink()
    missing = await pinnace("restore", "create", "r2", "--from-backup", "b1")
    assert missing.code == 4
    assert missing.lines[1].startswith("Restore r2 Failed: 0 items")
    assert missing.told.startswith("Reason: error downloading backup: ")
    assert (await pinnace("restore", "get", "r2")).lines[1].split()[2] == "Failed"

    (location / "backups/b1/velero-backup.json").write_text("{}")
    unreadable = await pinnace("restore", "create", "r3", "--from-backup", "b1")
    assert unreadable.code == 2
    assert "Error retrieving backup: " in unreadable.err


BACKUP = ("backup", "create")
RESTORE = ("restore", "create")
WRONG = {
    "no name": (BACKUP, "A backup name is required, unless you are creating based on a schedule."),
    "two names": ((*BACKUP, "a", "b"), "accepts at most 1 arg(s), received 2"),
    "upper case": ((*BACKUP, "B1"), 'metadata.name: invalid value "B1"'),
    "path": ((*BACKUP, "../b1"), 'metadata.name: invalid value "../b1"'),
    "namespace": ((*BACKUP, "b1", "-n", "Velero"), 'metadata.namespace: invalid value "Velero"'),
    "label": ((*BACKUP, "b1", "--labels", "a=b c"), 'invalid label value "b c"'),
    "no label": ((*BACKUP, "b1", "--labels", "a"), 'error parsing "a"'),
    "empty labels": ((*BACKUP, "b1", "--labels", ""), 'error parsing ""'),
    "flag": ((*BACKUP, "b1", "--nothing"), "unknown flag: --nothing"),
    "short flag": ((*BACKUP, "b1", "-x"), "unknown shorthand flag: 'x' in -x"),
    "no value": ((*BACKUP, "b1", "--ttl"), "flag needs an argument: --ttl"),
    "duration": ((*BACKUP, "b1", "--ttl", "3 days"), 'invalid argument "3 days" for "--ttl" flag'),
    "boolean": ((*BACKUP, "b1", "--wait=perhaps"), 'invalid argument "perhaps" for "-w, --wait" flag'),
    "selector": ((*BACKUP, "b1", "-l", "a!=b"), '"!=" is not a valid label selector operator'),
    "order": ((*BACKUP, "b1", "--ordered-resources", "pods"), "Invalid OrderedResources 'pods'."),
    "format": ((*BACKUP, "b1", "-o", "xml"), 'invalid output format "xml"'),
    "schedule": ((*BACKUP, "--from-schedule", "s"), "--from-schedule needs a server"),
    "location": ((*BACKUP, "b1", "--storage-location", "s"), "--storage-location needs a server"),
    "command": (("backup", "destroy"), 'unknown command "destroy"'),
    "no source": (RESTORE, "either a backup or schedule must be specified, but not both"),
    "two sources": (
        (*RESTORE, "--from-backup", "a", "--from-schedule", "b"),
        "either a backup or schedule must be specified, but not both",
    ),
    "mapping": (
        (*RESTORE, "--from-backup", "a", "--namespace-mappings", "a=b"),
        'error parsing "a=b"',
    ),
    "list selector": (("backup", "get", "-l", "a=("), 'couldn\'t parse the selector string "a=("'),
    "tls": (("backup", "logs", "b1", "--cacert", "x"), "--cacert and --insecure-skip-tls-verify are for"),
    "install": (("install", "--crds-only"), "leave out --location"),
}


async def test_a_wrong_request_ends_with_2_before_anything_happens(
    pinnace: Pinnace, empty_location: Path, tmp_path: Path
) -> None:
    pinnace.kubeconfig = tmp_path / "not-read"
    limit = asyncio.Semaphore(4)

    async def run(arguments: tuple[str, ...]) -> Outcome:
        async with limit:
            return await pinnace(*arguments)

    outcomes = await asyncio.gather(*(run(arguments) for arguments, _ in WRONG.values()))

    found = {
        name: (outcome.code, text in outcome.err, outcome.out)
        for (name, (_, text)), outcome in zip(WRONG.items(), outcomes, strict=True)
    }
    assert found == dict.fromkeys(WRONG, (2, True, ""))
    assert files_in(empty_location) == {}


async def test_a_request_that_the_cluster_shows_to_be_wrong_has_its_exit_code(
    pinnace: Pinnace, location: Path, world: str
) -> None:
    flags = ("--include-namespaces", world, "--include-resources", "configmaps")
    assert (await pinnace("backup", "create", "b1", *flags)).code == 0
    before = files_in(location)

    taken = await pinnace("backup", "create", "b1", *flags)
    assert (taken.code, taken.out) == (2, "")
    assert only_error(taken).endswith("'b1' already exists in the backup storage location; choose another "
                                      "name or delete it")  # fmt: skip
    lists = await pinnace(
        *("backup", "create", "b2", "--include-resources", "pods,*", "--exclude-resources", "*"),
        *("--include-namespaces", "a", "--exclude-namespaces", "a"),
    )
    assert (lists.code, lists.out) == (2, "")
    assert lists.told.removeprefix("An error occurred: ").splitlines() == [
        "Invalid included/excluded resource lists: includes list must either contain '*' only, or a "
        "non-empty list of items",
        "Invalid included/excluded resource lists: excludes list cannot contain '*'",
        "Invalid included/excluded resource lists: excludes list cannot contain an item in the includes "
        "list: *",
        "Invalid included/excluded namespace lists: excludes list cannot contain an item in the includes "
        "list: a",
    ]
    restore = await pinnace("restore", "create", "r1", "--from-backup", "b1", "--include-resources", "nodes")
    assert (restore.code, restore.out) == (2, "")
    assert "nodes are non-restorable resources" in restore.err
    unknown = await pinnace("restore", "create", "r1", "--from-backup", "nope")
    assert unknown.code == 2
    assert 'backups.velero.io "nope" not found; ' in unknown.err
    assert files_in(location) == before


async def test_a_missing_folder_is_an_error_and_not_an_empty_location(
    pinnace: Pinnace, location: Path
) -> None:
    for arguments in (
        ("backup", "get"),
        ("restore", "get", "-o", "json"),
        ("backup", "describe", "b1"),
        ("backup", "delete", "b1", "--confirm"),
        ("restore", "create", "--from-backup", "b1"),
    ):
        outcome = await pinnace(*arguments)
        assert (outcome.code, outcome.out) == (2, "")
        assert only_error(outcome).endswith(
            f"the directory {location} does not exist: mount it, or create it if the location is new"
        )
    assert not exists(location)


@pytest.mark.usefixtures("empty_location")
async def test_unknown_names_end_with_1(pinnace: Pinnace) -> None:
    for arguments, text in (
        (("backup", "get", "x"), 'An error occurred: backups.velero.io "x" not found'),
        (("backup", "describe", "x"), 'An error occurred: backups.velero.io "x" not found'),
        (("backup", "logs", "x"), 'Backup "x" does not exist.'),
        (("backup", "download", "x"), 'An error occurred: backups.velero.io "x" not found'),
        (("backup", "delete", "x", "--confirm"), 'An error occurred: backups.velero.io "x" not found'),
        (("restore", "get", "x"), 'An error occurred: restores.velero.io "x" not found'),
        (("restore", "describe", "x"), 'An error occurred: restores.velero.io "x" not found'),
        (("restore", "logs", "x"), 'Restore "x" does not exist.'),
        (("restore", "delete", "x", "--confirm"), 'An error occurred: restores.velero.io "x" not found'),
    ):
        outcome = await pinnace(*arguments)
        assert (outcome.code, outcome.out) == (1, "")
        things, place = f"{arguments[0]}s", pinnace.folder / "backups"
        error = only_error(outcome)
        assert error.startswith(text)
        assert error.lower().endswith(f"there are no {things} in {place}")


async def test_unusable_locations_are_refused(pinnace: Pinnace, tmp_path: Path, world: str) -> None:
    file, foreign = tmp_path / "file", tmp_path / "foreign"
    file.write_text("not a folder")
    (foreign / "photos").mkdir(parents=True)
    (foreign / "photos/cat.jpeg").write_text("meow")
    for location, text in (
        ("ftp://host/backups", "unknown scheme 'ftp' in the location"),
        ("s3://", "an S3 URL names a bucket"),
        ("s3://bucket?colour=red", "unknown parameters [colour] in the S3 URL"),
        ("s3://key:s3cr3t-word@bucket", "an S3 URL must not contain credentials"),
        (str(file), "is not a directory"),
        (str(foreign), "contains invalid top-level directories: [photos]"),
        ("/", "cannot hold backups"),
    ):
        pinnace.location = location
        outcome = await pinnace("backup", "create", "b1", "--include-namespaces", world)
        assert (outcome.code, outcome.out) == (2, ""), outcome
        assert text in only_error(outcome)
        assert "s3cr3t-word" not in outcome.err
    assert [str(path.relative_to(foreign)) for path in foreign.rglob("*")] == ["photos", "photos/cat.jpeg"]

    pinnace.location = "/proc/backups"  # where not even root can make a folder
    outcome = await pinnace(
        *("backup", "create", "b1", "--include-namespaces", world, "--include-resources", "configmaps")
    )
    assert (outcome.code, outcome.out) == (1, ""), outcome
    assert only_error(outcome) == (
        "An error occurred: cannot write into /proc/backups: cannot write "
        "'backups/b1/b1-pinnace-writer.json': No such file or directory"
    )


async def test_clusters_that_cannot_be_reached_end_with_1(
    pinnace_for: MakePinnace, tmp_path: Path, location: Path, control_plane: ControlPlane, unused_port: int
) -> None:
    def kubeconfig(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    token = "token-that-nobody-may-read"
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    rejected = kubeconfig("rejected", yaml.safe_dump(config))
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{unused_port}"
    unreachable = kubeconfig("unreachable", yaml.safe_dump(config))
    config["clusters"][0]["cluster"] = {"server": control_plane.url}
    untrusted = kubeconfig("untrusted", yaml.safe_dump(config))
    for path, text in (
        (unreachable, f"cannot reach https://127.0.0.1:{unused_port}: "),
        (rejected, "Unauthorized"),
        (untrusted, f"the certificate of {control_plane.url} is not trusted: "),
        (kubeconfig("broken", "{"), "is not valid YAML"),
        (kubeconfig("empty", ""), "there is no context in it"),
        (tmp_path / "missing", "no such file"),
    ):
        outcome = await pinnace_for(str(location), kubeconfig=path)("backup", "create", "b1")
        assert (outcome.code, outcome.out) == (1, ""), outcome
        line = only_error(outcome)
        assert line.startswith("An error occurred: ")
        assert text in line
        assert line.count("error finding Kubernetes API server config") <= 1
        assert token not in line
    assert not exists(location)


async def test_an_api_server_that_fails_in_between_has_its_exit_code(
    pinnace_for: MakePinnace, location: Path, world: str, tmp_path: Path, control_plane: ControlPlane,
    fault_proxy: Callable[..., Awaitable[object]],
) -> None:  # fmt: skip
    from hack.cluster.proxy import FaultProxy

    proxy = await fault_proxy(control_plane)
    assert isinstance(proxy, FaultProxy)
    kubeconfig = control_plane.write_kubeconfig(tmp_path / "through-proxy", server=proxy.url)
    rule = proxy.rules.add(server_fault(500), method="GET", path="/secrets$")
    outcome = await pinnace_for(str(location), kubeconfig=kubeconfig)(
        *(
            "backup",
            "create",
            "b1",
            "--include-namespaces",
            world,
            "--include-resources",
            "secrets,configmaps",
        )
    )
    assert rule.hits > 1
    assert outcome.code == 3
    assert ", 1 error, 0 warnings." in outcome.lines[1]
