"""What the pages say is so: figures are those of the benchmark, and other claims those of the code."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import click
import msgspec
import pytest
import yaml

from bench.results import RESULTS
from hack.reference import EXIT_CODES, environment
from pinnace.api.definitions.spec_fields import NOT_SUPPORTED
from pinnace.api.node_agent_config import read_node_agent_config
from pinnace.api.objects import JSONObject
from pinnace.api.resource_policies import read_policies
from pinnace.api.velero.backup import BackupSpec
from pinnace.api.velero.restore import RestoreSpec
from pinnace.cli.common.refused import OF_BACKUPS, OF_INSTALL
from pinnace.cli.errors import ExitCode
from pinnace.cli.main import run
from pinnace.cli.process.later_flags import OF_NODE_AGENT, OF_SERVER
from pinnace.cli.program import cli
from pinnace.csi.snapshots import CSIError, choose_class
from pinnace.installing.options import InstallOptions
from pinnace.installing.resources import resources
from pinnace.nonadmin.settings.admin import read_settings
from pinnace.restore.modifiers.rules import read_rules
from pinnace.restore.selection.order import DEFAULT_LAST, DEFAULT_PRIORITIES
from pinnace.restore.selection.validation import NON_RESTORABLE
from pinnace.storage.azure import config as azure
from pinnace.storage.gcs import config as gcs
from pinnace.storage.s3 import config as s3

ROOT = Path(__file__).resolve().parents[3]
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name not in ("adr", "spec")),
]
OF_A_SERVER = r"pinnace (?:install|backup-location|snapshot-location|schedule|repo|uninstall)\b"


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def row(page: str, start: str) -> str:
    """The only row of a page's tables that begins so."""
    (found,) = (line for line in text(page).splitlines() if line.startswith(f"| {start}"))
    return found


@pytest.mark.found("DOC1")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_location_of_the_shell_is_unset_before_a_server_is_used(page: Path) -> None:
    is_set = False
    for step in re.findall(
        rf"export PINNACE_LOCATION|unset PINNACE_LOCATION|{OF_A_SERVER}", page.read_text(encoding="utf-8")
    ):
        if step.endswith("PINNACE_LOCATION"):
            is_set = step.startswith("export")
        else:
            assert not is_set, f"`{step}` is refused while PINNACE_LOCATION is set"
    assert not is_set, "the page leaves PINNACE_LOCATION set"


@pytest.mark.found("DOC2")
def test_the_page_names_what_a_restore_leaves_out_and_nothing_else() -> None:
    section = (
        text("docs/guides/disaster-recovery.md").split("## What does not come back by itself")[1].lower()
    )
    left_out, restored = section.split("\n\n")[1:3]
    kinds = {name.split(".")[0] for name in NON_RESTORABLE if not name.endswith(".velero.io")}

    assert kinds == {kind for kind in kinds if kind in left_out}
    for kind in ("leases", "endpoints", "endpointslices"):
        assert kind not in left_out
        assert kind in restored
        assert not any(name.split(".")[0] == kind for name in NON_RESTORABLE)


class Run:
    """The newest run in RESULTS.md that has a figure."""

    def __init__(self, name: str, part: str) -> None:
        for section in RESULTS.read_text(encoding="utf-8").split("\n## ")[1:]:
            heading, *lines = section.splitlines()
            rows = [
                [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[:2] == "| "
            ]
            for cells in rows:
                if cells[0] == name and part in heading:
                    self.ours = cells[2].split(" (")[0]
                    self.ratio = cells[3].removesuffix("x")
                    return
        raise LookupError(f"no run of {part!r} has the figure {name!r}")


SMALL, LARGE, BROWSE = "backup (10,000 objects)", "backup (100,000 objects)", "browse (100,000 objects)"
FIGURES = [
    ("README.md", "10,000 objects backed up |", "{ours}, {ratio} times", "backup, whole command", SMALL),
    ("README.md", "100,000 objects backed up, by", "| {ours},", "backup, whole command", LARGE),
    ("README.md", "100,000 objects backed up, by", " {ours} of memory", "peak memory, backup", LARGE),
    ("README.md", "100,000 objects backed up, by", "with {ours} |", "peak memory, restore", LARGE),
    ("README.md", "two backups", "| {ours},", "backup diff of two backups, S3", BROWSE),
    ("README.md", "two backups", " {ours} of memory", "backup diff, S3, peak memory", BROWSE),
    ("README.md", "`--help`", "| {ours} |", "pinnace --help", "start"),
    ("docs/guides/sizing.md", "backup of 10,000", "| {ours} |", "backup, whole command", SMALL),
    ("docs/guides/sizing.md", "backup of 100,000", "| {ours},", "backup, whole command", LARGE),
    ("docs/guides/sizing.md", "backup of 100,000", " {ours} |", "peak memory, backup", LARGE),
    ("docs/guides/sizing.md", "restore of 100,000", "| {ours};", "peak memory, restore", LARGE),
    ("docs/guides/sizing.md", "server, idle", "| {ours} |", "idle server, memory", "idle"),
    (
        *("docs/guides/sizing.md", "saving 1 GiB in 1,000", "| {ours}, {ratio} times"),
        *("save a volume, 1024 MiB in 1,000 files", "restic"),
    ),
    (
        *("docs/guides/sizing.md", "saving 1 GiB in 50,000", "| {ours}, {ratio} times"),
        *("save a volume, 1024 MiB in 50,000 files", "restic"),
    ),
]


@pytest.mark.found("DOC4", "DOC10", "DOC12")
@pytest.mark.parametrize(("page", "start", "shown", "figure", "part"), FIGURES)
def test_a_figure_of_a_page_is_that_of_the_newest_run(
    page: str, start: str, shown: str, figure: str, part: str
) -> None:
    run = Run(figure, part)

    assert shown.format(ours=run.ours, ratio=run.ratio) in row(page, start)


@pytest.mark.found("DOC3")
def test_both_columns_on_data_movement_name_block_volumes() -> None:
    for page, start in (("README.md", "data movement"), ("docs/comparison.md", "volumes")):
        assert row(page, start).count("Block volumes") == 2


@pytest.mark.found("DOC11")
def test_the_results_explain_each_candidate_and_column() -> None:
    introduction, *sections = RESULTS.read_text(encoding="utf-8").split("\n## ")
    clients = set(re.findall(r"(\w+) x\d+ \|", "\n## ".join(sections)))

    assert clients == {"pycurl", "aiohttp"}
    for word in (*clients, "first target", "aim", "met", "NO"):
        assert re.search(rf"`{word}\b", introduction), word


@pytest.mark.found("DOC6")
def test_the_pages_name_the_rights_that_a_server_with_minimal_rights_has_everywhere() -> None:
    (role,) = (each for each in resources(USUAL, "velero") if each["kind"] == "ClusterRole")
    (everything,) = (rule for rule in role["rules"] if rule.get("resources") == ["*"])

    rights = text("docs/tasks/run-a-server.md").split("### Rights")[1].split("\n\n")[2]
    listed = re.findall(r"^\| everything, all namespaces \| ([a-z, ]+) \|", rights, re.M)
    assert ", ".join(listed).split(", ") == everything["verbs"] == ["get", "list", "create", "patch"]
    assert "read, create and change everything, delete only its own" in row(
        "docs/guides/security.md", "the server"
    )


WORDS_OF_RIGHTS = {
    "persistentvolumes": "persistent volumes",
    "persistentvolumeclaims": "claims",
    "volumesnapshots": "volume snapshots",
    "volumesnapshotcontents": "volume snapshots",
    "*": "`velero.io`",
}
"""What the page on the rights of a server calls them; other kinds by their plural."""
USUAL = InstallOptions(image="pinnace:v1", minimal_rights=True)


@pytest.mark.parametrize(
    ("start", "options"),
    [
        ("its own namespace", USUAL),
        ("with `--use-node-agent`", replace(USUAL, node_agent=True)),
        ("with `--features=EnableCSI`", replace(USUAL, features="EnableCSI")),
    ],
)
def test_the_page_names_each_kind_that_a_server_with_minimal_rights_may_delete(
    start: str, options: InstallOptions
) -> None:
    def rules(options: InstallOptions) -> list[JSONObject]:
        roles = [each for each in resources(options, "velero") if each["kind"] in ("Role", "ClusterRole")]
        return [rule for role in roles for rule in role["rules"] if "delete" in rule["verbs"]]

    known = [] if options is USUAL else rules(USUAL)
    added = [rule for rule in rules(options) if rule not in known]
    listed = row("docs/tasks/run-a-server.md", f"{start} |").lower()

    assert added
    for kind in (kind for rule in added for kind in rule["resources"]):
        assert WORDS_OF_RIGHTS.get(kind, kind) in listed


@pytest.mark.found("DOC7")
@pytest.mark.parametrize(
    ("words", "location", "code"),
    [
        (["backup", "diff", "--bogus"], "", 2),
        (["backup", "get", "--bogus"], "", 1),
        (["backup", "get", "--bogus"], "folder", 2),
        (["schedule", "get"], "folder", 2),
        (["backup", "describe", "nosuch"], "folder", 1),
    ],
)
def test_commands_end_with_the_codes_that_the_page_gives(
    words: list[str], location: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PINNACE_LOCATION", location)

    assert run(words) == code
    with_server, without = EXIT_CODES[ExitCode.INVALID_INPUT]
    assert "`backup diff`" in with_server
    assert "needs a server" in without
    assert "`history`" in EXIT_CODES[ExitCode.ERROR][0]
    assert "no backup or restore has" in EXIT_CODES[ExitCode.ERROR][1]


SET_FOR_OTHERS = {
    *("RESTIC_KEY_HINT", "RESTIC_PASSWORD_COMMAND", "RESTIC_PROGRESS_FPS", "RESTIC_REPOSITORY"),
    *("RESTIC_REPOSITORY_FILE", "KUBERNETES_EXEC_INFO", "POD_NAME", "POD_NAMESPACE"),
    *("AWS_ACCESS_KEY", "AWS_SECRET_KEY", "AZURE_ACCOUNT_KEY", "AZURE_ACCOUNT_NAME", "AZURE_ACCOUNT_SAS"),
    *("AZURE_STORAGE_KEY",),
}
"""Written into or kept from the environment of a child process or pod, and not read."""
OF_CREDENTIALS_FILES = {"AZURE_STORAGE_ACCOUNT_ACCESS_KEY"}
"""Read from a file of a location only."""


@pytest.mark.found("DOC13")
def test_every_variable_that_the_code_reads_is_on_the_page() -> None:
    known = "PINNACE|VELERO|AWS|AZURE|GOOGLE|GCE|NO_GCE|KUBERNETES|NODE|POD|RESTIC|SOURCE_DATE"
    names = re.compile(rf"""["']((?:{known})_[A-Z0-9_]*[A-Z0-9]|GOMEMLIMIT|TERM|NO_COLOR|TZ)["']""")
    found = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in names.findall(path.read_text(encoding="utf-8"))
    }
    page = set(re.findall(r"`([A-Z0-9_]+)`", environment()))

    assert "AWS_PROFILE" in found
    assert found - page == (SET_FOR_OTHERS | OF_CREDENTIALS_FILES) & found


@pytest.mark.found("DOC8")
def test_the_page_gives_the_remedies_of_the_messages_about_snapshot_classes() -> None:
    def message(*classes: str) -> str:
        of_driver: list[JSONObject] = [{"metadata": {"name": name}, "driver": "d"} for name in classes]
        with pytest.raises(CSIError) as error:
            choose_class(of_driver, "d")
        return str(error.value)

    for said, symptom in (
        (message(), '"there is no VolumeSnapshotClass"'),
        (message("a", "b"), '"there are several VolumeSnapshotClasses"'),
    ):
        assert symptom.strip('"') in said
        assert ("label" in said) == ("label" in row("docs/guides/troubleshooting.md", symptom))


def test_the_remedy_of_a_symptom_is_not_off_a_narrow_screen() -> None:
    table = [line for line in text("docs/guides/troubleshooting.md").splitlines() if line.startswith("| ")]

    assert len(table) > 20
    assert {len(re.split(r"(?<!\\)\|", line)) for line in table} == {4}, (
        "a table of two columns is never cut off"
    )


def test_the_commands_of_the_home_page_are_those_that_run_from_the_readme() -> None:
    (block,) = re.findall(r"```console\n(.*?)```", text("docs/index.md"), re.S)
    install, *commands = block.splitlines()

    assert install == "$ pipx install ."
    assert set(commands) <= set(text("README.md").splitlines())


def test_the_home_page_leads_to_every_page_of_tasks_and_guides() -> None:
    home = text("docs/index.md")
    pages = [page for page in PAGES if page.parent.name in ("tasks", "guides", "reference")]

    assert [page.name for page in pages if f"({page.parent.name}/{page.name})" not in home] == []


def test_the_places_that_the_chapter_on_adding_things_names_exist() -> None:
    chapter = text("docs/development.md").split("## Adding something")[1].split("\n## ")[0]
    rooms = "api|backup|cli|controllers|installing|nonadmin|plugins|runtime|storage|restore|volumes"
    named = re.findall(rf"`((?:src/pinnace/|tests/|(?:{rooms})/)[\w/.]+)`", chapter)

    assert len(named) > 10
    missing = [
        path for path in named if not any((root / path).exists() for root in (ROOT, ROOT / "src/pinnace"))
    ]
    assert missing == []


NO_COMMANDS = {"pinnace backup restore b1", "pinnace describe backup/b1"}
"""Shown as a mistake that is answered, and with the kind in the name."""


def commands_of(page: Path) -> set[str]:
    """The commands of a page, in blocks and in text, each in one line without redirections and pipes."""
    content = re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8"))
    inline = re.findall(r"`(pinnace [^`]+)`", content.replace("\n", " "))
    in_blocks = re.findall(r"^\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(pinnace .+)", content, re.M)
    lines = {line.replace("\\|", "|").split(" #")[0] for line in (*inline, *in_blocks)}
    return {re.split(r" (?:&&|[|>&]) |\|| &$", line)[0].strip() for line in lines} - NO_COMMANDS


def unknown_in(line: str) -> list[str]:
    """The words of a command that name no command or flag of the program."""
    command: click.Command = cli
    context = click.Context(cli)
    given: list[str] = []
    known = {name for param in cli.get_params(context) for name in param.opts}
    with_value = {name for param in cli.params if not getattr(param, "is_flag", 0) for name in param.opts}
    words = iter(shlex.split(line.rstrip(".…"), posix=False)[1:])
    for word in words:
        if word.startswith("-") and word != "-":
            given.append(word.partition("=")[0])
            if isinstance(command, click.Group) and word in with_value:
                next(words, "")
        elif isinstance(command, click.Group) and word != "..." and not word.isupper():
            found = command.get_command(context, word)
            if found is None:
                return [word]
            command, context = found, click.Context(found, parent=context)
            known |= {name for param in found.get_params(context) for name in param.opts}
    return [flag for flag in given if flag not in known and not re.fullmatch("-[a-z].+", flag)]


def test_the_pages_name_commands_and_flags_that_there_are() -> None:
    found = {(page.name, line): unknown_in(line) for page in PAGES for line in commands_of(page)}

    assert len(found) > 300
    assert {place: unknown for place, unknown in found.items() if unknown} == {}
    assert unknown_in("pinnace backup create b1 --bogus -o json") == ["--bogus"]
    assert unknown_in("pinnace -n x bakcup create") == ["bakcup"]


@pytest.mark.parametrize("config", [s3, gcs, azure], ids=lambda module: module.__package__)
def test_the_page_names_each_setting_of_a_store_and_each_that_is_refused(config: ModuleType) -> None:
    settings = {*config.VALID_KEYS, *getattr(config, "REFUSED_KEYS", ())}

    listed = set(re.findall(r"`(\w+)`", text("docs/reference/object-stores.md")))
    assert len(settings) > 5
    assert settings <= listed


def documents_of(page: str, language: str, start: str) -> list[str]:
    """The blocks of a page that begin so."""
    found = re.findall(rf"^```{language}\n(.*?)^```", text(page), re.S | re.M)
    return [block for block in found if block.startswith(start)]


def test_the_documents_in_the_pages_are_accepted() -> None:
    policies = documents_of("docs/tasks/choose-what-to-back-up.md", "yaml", "version: v1")
    (modifiers,) = documents_of("docs/tasks/restore.md", "yaml", "version: v1")
    settings = documents_of("docs/reference/node-agent.md", "json", "{")

    assert [bool(read_policies(each)) for each in policies] == [True] * 3
    assert len(read_rules({"data": {"rules.yaml": modifiers}})) == 3
    assert [read_node_agent_config(each)[1] for each in settings] == [[], []]


def test_the_settings_for_tenants_in_the_pages_are_accepted() -> None:
    for page in ("docs/tasks/self-service.md", "docs/reference/self-service.md"):
        (config_map,) = documents_of(page, "yaml", "apiVersion: v1\nkind: ConfigMap")
        entry = yaml.safe_load(config_map)["data"]["settings.yaml"]
        assert read_settings(yaml.safe_load(entry)).backup["ttl"] == "168h"


def test_the_page_has_the_order_of_a_restore() -> None:
    order = text("docs/reference/restores.md").split("## Order")[1].split("Configurations")[0]

    assert re.findall(r"`(.+?)`", order) == [*DEFAULT_PRIORITIES, *DEFAULT_LAST]


def test_the_comparison_names_each_flag_that_has_no_effect() -> None:
    page = text("docs/reference/velero.md")
    without_effect = {flag.name for flag in (*OF_SERVER, *OF_NODE_AGENT)}
    taken = without_effect | {flag.name for flag in (*OF_INSTALL, *OF_BACKUPS)}

    listed = set(re.findall(r"`(--[a-z0-9-]+)", page))
    assert {flag for flag in taken - listed if not flag.startswith("--maintenance-job-")} == set()
    assert "`--maintenance-job-*`" in page


def test_the_page_names_each_reason_that_keeps_an_expired_backup() -> None:
    reasons = re.findall(r"label=\"(BSL\w+)\"", text("src/pinnace/controllers/deletion/asking.py"))

    assert len(reasons) > 3
    assert [reason for reason in reasons if f"`{reason}`" not in text("docs/tasks/schedules.md")] == []


@pytest.mark.parametrize(("column", "spec"), [(1, BackupSpec), (2, RestoreSpec)])
def test_the_page_says_of_each_field_what_a_request_of_a_tenant_may_do_with_it(
    column: int, spec: type[msgspec.Struct]
) -> None:
    section = text("docs/reference/self-service.md").split("## What a request may say")[1].split("\n## ")[0]
    rows = [line.split("|")[1 + column] for line in section.splitlines() if line.startswith("| ")]

    assert {*spec.__struct_encode_fields__, *NOT_SUPPORTED.get(spec, {})} <= set(
        re.findall(r"`(\w+)", "".join(rows))
    )


def test_the_codes_in_the_source_name_sections_of_the_specification() -> None:
    specification = ROOT / "docs/spec"
    index = re.findall(
        r"^\| ([A-Z]{3}) \| \[(.+?)\]", (specification / "README.md").read_text(), re.MULTILINE
    )
    pages = {code: (specification / page).read_text() for code, page in index}
    sections = {code: set(re.findall(r"^#+ ([\d.]*\d)", page, re.MULTILINE)) for code, page in pages.items()}
    reference = re.compile(rf"\b({'|'.join(sections)}) (\d+(?:\.\d+)*)")
    source = [path.read_text() for path in (ROOT / "src/pinnace").rglob("*.py")]
    named = {(match[1], match[2]) for text in source for match in reference.finditer(text)}
    attempts = {attempt for text in source for attempt in re.findall(r"\bNAC 17 (A\d+)", text)}

    assert len(named) > 200
    assert sorted((code, section) for code, section in named if section not in sections[code]) == []
    assert attempts - set(re.findall(r"^\| (A\d+) \|", pages["NAC"], re.MULTILINE)) == set()


def test_each_case_of_later_velero_is_proved_or_has_a_reason() -> None:
    table = text("docs/spec/after-1.18.md").split("## 10. Cases")[1]
    proved = {
        case
        for path in (ROOT / "tests").rglob("test_*.py")
        for case in re.findall(r"AFT-\d{3}", path.read_text(encoding="utf-8"))
    }
    states = {"done", "open", "not wanted"}
    count = 0
    for cells in (line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| `AFT")):
        cases = [
            f"AFT-{number:03}"
            for first, last in re.findall(r"`AFT-(\d{3})`(?: to `AFT-(\d{3})`)?", cells[0])
            for number in range(int(first), int(last or first) + 1)
        ]
        count += len(cases)
        assert cells[2] in states
        assert cells[2] == "done" or cells[3].strip(), f"{cases} without a reason"
        assert cells[2] != "done" or set(cases) <= proved, f"{set(cases) - proved} named by no test"
    assert count >= 120
