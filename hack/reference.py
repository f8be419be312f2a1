"""Writes the reference pages, and the table of short help, from the code: `make reference`.

`--check` compares the committed files with the generated ones, so that they cannot become outdated. Nothing
here needs a cluster or the network.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from prometheus_client import CollectorRegistry

from pinnace.api.definitions.crds import crd_manifests
from pinnace.cli.declaring.commands import Group, short_help_of
from pinnace.cli.declaring.fields import Section
from pinnace.cli.declaring.sections import flags_of
from pinnace.cli.errors import ExitCode
from pinnace.cli.program import cli
from pinnace.doctor import findings
from pinnace.nonadmin.manifests import crds as non_admin_crds
from pinnace.notices.codes import Code
from pinnace.notices.explanations import EXPLANATIONS
from pinnace.server.monitoring.metrics import ServerMetrics
from pinnace.server.monitoring.node_metrics import NodeAgentMetrics

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"
SHORT_HELP = ROOT / "src" / "pinnace" / "cli" / "short_help.py"
_NOTE = "<!-- Written by `python -m hack.reference` from the code; change it there. -->\n"

ENVIRONMENT = {
    "PINNACE_LOCATION": "The location to work on without a server, as `--location`; an empty flag undoes it.",
    "PINNACE_RECIPIENTS": "Public keys that backups without a server are encrypted to.",
    "PINNACE_KMS_KEYS": "Keys in a KMS or in Vault that open them, too.",
    "PINNACE_HIDE_DETAILS": "If `true`, their labels, namespaces and counts are encrypted as well.",
    "PINNACE_SIGNING_KEY_FILE": "The private key that signs backups without a server.",
    "PINNACE_SIGNER": "The key in a KMS, in Vault or in an HSM that signs them instead.",
    "PINNACE_SIGNER_PUBLIC_KEY": "The public key of that.",
    "PINNACE_HSM_PIN": "The PIN of the HSM.",
    "PINNACE_TRUSTED_KEYS": "Public keys whose signatures are believed without a server.",
    "PINNACE_REQUIRE_SIGNATURE": "If `true`, backups that none of these has signed are refused.",
    "PINNACE_MESSAGES_FILE": "Who is told how a run without a server ended, as `--messages-file`.",
    "PINNACE_IDENTITY_FILE": "The private keys that open encrypted backups, as `--identity-file`.",
    "PINNACE_IDENTITY_PASSPHRASE_FILE": "A file with the passphrase of the identity file.",
    "PINNACE_PLUGINS": "Modules of Python plugins, separated by commas: installed, or on `PYTHONPATH`.",
    "PINNACE_PLUGIN_DIR": "A directory with programs that are plugins, for commands without a server.",
    "PINNACE_PLUGIN_COMMAND": "Set for a plugin that is started as a program; not for users.",
    "PINNACE_TRACEBACK": "If not empty, errors are shown with the place in the code.",
    "VELERO_NAMESPACE": "The namespace of the server, unless `-n` or the config file names one.",
    "VELERO_SCRATCH_DIR": "Where server and node agent keep temporary files and caches; set in their pods.",
    "VELERO_PLUGIN": "The cookie that plugins of HashiCorp's protocol expect; set for them, not for users.",
    "NODE_NAME": "The node of a node agent; set in its pod.",
    "KUBECONFIG": "Kubeconfig files, as kubectl reads them.",
    "KUBERNETES_SERVICE_HOST": "With `KUBERNETES_SERVICE_PORT`, the API server for pods; set by Kubernetes.",
    "NO_COLOR": "If not empty, no colours.",
    "CLICOLOR_FORCE": "Colours although the output is no terminal, unless it is 0.",
    "PAGER": "The pager for output longer than the screen of a terminal, else `less`; `cat` for none.",
    "NO_PAGER": "If not empty, no pager.",
    "TERM": "If `dumb`, no colours, bars, redrawn lines or pager.",
    "AWS_SHARED_CREDENTIALS_FILE": "The credentials file of AWS and compatible stores.",
    "AWS_PROFILE": "The profile in it, unless the location names one.",
    "AWS_ACCESS_KEY_ID": "With `AWS_SECRET_ACCESS_KEY` and, for temporary keys, `AWS_SESSION_TOKEN`: keys."
    " botocore looks for them, so that its other variables hold too, such as `AWS_WEB_IDENTITY_TOKEN_FILE`.",
    "AWS_CLUSTER_NAME": "Restored EBS volumes are tagged as owned by this cluster.",
    "AWS_ENDPOINT_URL_EC2": "Another address of EC2, for snapshots of disks.",
    "AWS_ENDPOINT_URL_KMS": "Another address of AWS KMS.",
    "GOOGLE_APPLICATION_CREDENTIALS": "The credentials file of Google Cloud.",
    "GOOGLE_CLOUD_PROJECT": "The project of snapshots of disks, where the credentials name none.",
    "GCE_METADATA_HOST": "Another address of Google's metadata server, for credentials of a machine.",
    "NO_GCE_CHECK": "If `true`, that server is not asked.",
    "AZURE_CREDENTIALS_FILE": "The credentials file of Azure: lines `NAME=value` of this table.",
    "AZURE_TENANT_ID": "With `AZURE_CLIENT_ID` and one of `AZURE_CLIENT_SECRET`, `AZURE_CERTIFICATE_PATH`,"
    " `AZURE_USERNAME` and `AZURE_PASSWORD`, or `AZURE_FEDERATED_TOKEN_FILE`: who asks. Else the identity"
    " of the machine is used.",
    "AZURE_IMDS_DISABLED": "If `true`, the identity of the machine is not used.",
    "AZURE_POD_IDENTITY_AUTHORITY_HOST": "Another address of the service for identities of machines.",
    "AZURE_CLOUD_NAME": "Another cloud than `AzurePublicCloud`. `AZURE_AUTHORITY_HOST` and"
    " `AZURE_RESOURCE_MANAGER_URL` name other addresses.",
    "AZURE_SUBSCRIPTION_ID": "The subscription of storage accounts and disks, unless the location names one.",
    "AZURE_RESOURCE_GROUP": "The resource group of the cluster's disks.",
    "AZURE_STORAGE_SAS_TOKEN": "A signature that opens the container in place of keys or an identity.",
    "VAULT_ADDR": "The URL of Vault, for keys of backups; `VAULT_NAMESPACE` and `VAULT_CACERT` as Vault"
    " has them.",
    "VAULT_TOKEN": "The token for Vault.",
    "VAULT_KUBERNETES_ROLE": "Without a token: the role to sign in to with the account of the pod, at"
    " `VAULT_KUBERNETES_MOUNT` (`kubernetes`), by the token in `VAULT_KUBERNETES_TOKEN_FILE`.",
    "TRANSIT_SECRET_ENGINE_PATH": "The path of Vault's transit engine, `transit` by default.",
    "RESTIC_PASSWORD_FILE": "The file with the repositories' password, for commands without a server; or"
    " `RESTIC_PASSWORD`, the password itself.",
    "GOMEMLIMIT": "How much memory restic and kopia may take, in place of a share of the container's.",
    "SOURCE_DATE_EPOCH": "The date in manual pages (`pinnace man`), so that they can be built twice alike.",
    "HTTPS_PROXY": "A proxy for stores and API servers; also `HTTP_PROXY` and `NO_PROXY`.",
    "TZ": "The zone of schedules without one (UTC in the server's image), and of times in output.",
}

EXIT_CODES = {
    ExitCode.OK: ("done", "done; the backup or restore is Completed"),
    ExitCode.ERROR: (
        "an error; `doctor`: a problem, or no right to check; `backup diff`: a difference; `backup verify`: a"
        " backup that cannot be relied upon; `backup search`: the text is nowhere; `history`: the object is"
        " in no backup",
        "the same; a name that no backup or restore has",
    ),
    ExitCode.INVALID_INPUT: (
        "with `create --wait --exit-code`: FailedValidation; a question was not answered: nothing was done;"
        " `backup diff`: anything but a comparison",
        "the request is wrong, or the command needs a server: nothing was done; `backup diff`: as with a"
        " server",
    ),
    ExitCode.PARTIALLY_FAILED: ("with `create --wait --exit-code`: PartiallyFailed", "PartiallyFailed"),
    ExitCode.FAILED: ("with `create --wait --exit-code`: Failed", "Failed"),
    ExitCode.LEASE_LOST: ("`server`, `nonadmin server`: it lost its lease, and another one may lead", ""),
    ExitCode.STUCK: ("a server or node agent: it did not stop in time and ended itself", ""),
    ExitCode.INTERRUPTED: ("interrupted by Ctrl-C or SIGTERM, or the terminal has gone", "the same"),
}


def pages() -> dict[str, str]:
    """The reference pages by file name."""
    return {
        "commands.md": commands(),
        "custom-resources.md": custom_resources(),
        "metrics.md": metrics(),
        "exit-codes.md": exit_codes(),
        "doctor.md": doctor(),
        "notices.md": notices(),
        "environment.md": environment(),
    }


def short_help() -> str:
    """The module with the short help of the commands that groups load only when they are called."""
    texts = dict(sorted(_short_help(cli)))
    lines = [
        '"""The short help of commands, so that lists of them load none. Written by `make reference`."""',
        "",
    ]
    entries = [f'    "{place}": "{text}",' for place, text in texts.items()]
    lines += ["SHORT_HELP: dict[str, str] = {", *entries, "}"]
    return "\n".join(lines) + "\n"


def _short_help(group: Group) -> Iterator[tuple[str, str]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if name in group.lazy:
            yield group.lazy[name], short_help_of(command)
        if isinstance(command, Group):
            yield from _short_help(command)


def commands() -> str:
    """Every command of the help texts, with its arguments and flags; the global flags once."""
    root = click.Context(cli, info_name="pinnace")
    lines = ["# Commands", "", _NOTE, _paragraphs(cli.help or ""), "", "## Global flags", ""]
    lines += _flags(root, cli)
    for words, command, context in _commands(cli, root):
        lines += ["", f"## {' '.join(words)}", "", _paragraphs(command.help or command.short_help or "")]
        usage = " ".join(command.collect_usage_pieces(context))
        lines += ["", "```text", f"{' '.join(words)} {usage}".rstrip(), "```", ""]
        lines += _flags(context, command)
        lines += _examples(command)
    return "\n".join(lines).rstrip() + "\n"


def _commands(
    group: Group, context: click.Context
) -> Iterator[tuple[list[str], click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden or (context.parent is None and name == "restore-helper"):
            continue
        inner = click.Context(command, info_name=name, parent=context)
        if isinstance(command, Group):
            if context.parent is None and name in ("create", "get", "describe", "delete"):
                continue  # the other form of the same commands
            yield from _commands(command, inner)
        else:
            yield inner.command_path.split(), command, inner


def _flags(context: click.Context, command: click.Command) -> list[str]:
    """The flags of a command; those of all commands only where there is no other, at the root."""
    sections = flags_of(command, context)
    rows = [
        f"| `{_cell(flag)}` | {_cell(meaning)} |"
        for title, lines in sections.items()
        for flag, meaning in lines
        if not flag.endswith("--help") and (title is not Section.CONNECTION or context.parent is None)
    ]
    return ["| flag | meaning |", "| --- | --- |", *rows] if rows else []


def _examples(command: click.Command) -> list[str]:
    examples = getattr(command, "examples", ())
    lines = [line for text, command in examples for line in (f"# {text}", command)]
    return ["", "```sh", *lines, "```"] if lines else []


def _cell(text: str) -> str:
    escaped = " ".join(text.split()).replace("|", "\\|")
    return escaped.replace("<", "&lt;").replace(">", "&gt;")


def _paragraphs(help_text: str) -> str:
    """The text of a help page, with paragraphs that click must not wrap as blocks."""
    parts = []
    for part in re.split(r"\n\s*\n", help_text.strip()):
        if part.lstrip().startswith("\b"):
            lines = part.replace("\b", "", 1).strip("\n").splitlines()
            parts.append("```text\n" + "\n".join(line.strip() for line in lines if line.strip()) + "\n```")
        else:
            parts.append(_cell(part))
    return "\n\n".join(parts)


def custom_resources() -> str:
    """Every field of every kind, from the schemas of the definitions."""
    lines = ["# Custom resources", "", _NOTE]
    lines += ["A field that is not listed is refused or warned about; none is ignored in silence.", ""]
    for crd in (*crd_manifests(), *non_admin_crds()):
        spec = crd["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            lines += [f"## {spec['names']['kind']}", ""]
            what = f"`{spec['group']}/{version['name']}`, {spec['scope'].lower()}."
            lines += [f"{what} {_cell(schema.get('description', ''))}", ""]
            lines += ["| field | type | meaning |", "| --- | --- | --- |"]
            for part in ("spec", "status"):
                lines += _fields(part, schema.get("properties", {}).get(part, {}))
            lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _fields(path: str, schema: dict[str, Any]) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        inner = field.get("items", field) if field.get("type") == "array" else field
        kind = f"list of {inner.get('type', 'any')}" if inner is not field else field.get("type", "any")
        values = ", ".join(str(value) or '""' for value in field.get("enum", ()))
        text = _cell(field.get("description", "")) + (f" One of {values}." if values else "")
        yield f"| `{path}.{name}` | {kind} | {text.strip()} |"
        if inner.get("properties"):
            suffix = "[]" if inner is not field else ""
            yield from _fields(f"{path}.{name}{suffix}", inner)


def metrics() -> str:
    """Every metric of the server's own; those of the process come from the client library."""
    lines = ["# Metrics", "", _NOTE]
    lines += [
        "The server answers `/metrics` on port 8085. The label `schedule` is empty where no schedule is. The",
        "metrics of the process (`process_...`, `python_...`) are those of Prometheus' client library.",
        "",
        "| metric | type | labels | meaning |",
        "| --- | --- | --- | --- |",
    ]
    lines += _families(ServerMetrics().registry)
    lines += [
        "",
        "## Of node agents",
        "",
        "A node agent answers on the same port. Names in `restic_` are those before Velero 1.10.",
        "",
        "| metric | type | labels | meaning |",
        "| --- | --- | --- | --- |",
        *_families(NodeAgentMetrics("").registry),
    ]
    return "\n".join(lines) + "\n"


def _families(registry: CollectorRegistry) -> list[str]:
    """A row for each metric of our own."""
    rows = []
    for family in sorted(registry.collect(), key=lambda family: family.name):
        if not family.name.startswith(("velero_", "pinnace_", "podVolume_", "restic_")):
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        # A family without samples does not name its labels, and the client library has no public way to ask.
        collector = registry._names_to_collectors[name]
        labels = ", ".join(f"`{label}`" for label in getattr(collector, "_labelnames", ()))
        kind = "counter" if family.name.endswith("queue_count") else family.type
        rows.append(f"| `{name}` | {kind} | {labels} | {_cell(family.documentation)} |")
    return rows


def exit_codes() -> str:
    """Each exit code, with a server and without one."""
    lines = [
        "# Exit codes",
        "",
        _NOTE,
        "| code | with a server | without one (`--location`) |",
        "| --- | --- | --- |",
    ]
    lines += [f"| {int(code)} | {EXIT_CODES[code][0]} | {EXIT_CODES[code][1]} |" for code in ExitCode]
    return "\n".join(lines) + "\n"


def _codes_of(folder: Path) -> list[Code]:
    """The codes that the modules of a folder name."""
    text = "".join(path.read_text() for path in folder.rglob("*.py"))
    named = set(re.findall(r"\bCode\.([A-Z_]+)", text))
    return [code for code in Code if code.name in named]


DOCTOR_CODES = _codes_of(Path(findings.__file__).parent)


def doctor() -> str:
    """Each code of a finding of the doctor."""
    lines = ["# Findings of the doctor", "", _NOTE]
    lines += [
        "`pinnace doctor -o json` prints `healthy` and `findings`. Each finding has `check`, `level` (OK,"
        " SKIPPED, WARNING or PROBLEM), `code`, `message` and, unless all is well, `remedy`. Texts may change"
        " from version to version; a code keeps its meaning. One PROBLEM makes `healthy` false and the exit"
        " code 1.",
        "",
        "| code | meaning |",
        "| --- | --- |",
    ]
    lines += [f"| `{code}` | {EXPLANATIONS[code].meaning} |" for code in DOCTOR_CODES]
    return "\n".join(lines) + "\n"


SHARED = {
    Code.AGENTS_MISSING,
    Code.AGENTS_NOT_INSTALLED,
    Code.CLUSTER_UNREACHABLE,
    Code.CREDENTIALS_REFUSED,
    Code.RIGHTS_MISSING,
}
"""The codes that both runs and the doctor report."""


def notices() -> str:
    """Each code of a warning or an error of a run."""
    lines = ["# Codes of warnings and errors", "", _NOTE]
    lines += [
        "Each warning and error of a backup or a restore has a code, which stays when its text changes."
        " `pinnace explain CODE` prints what stands here. The codes are in the log (field `code`) and in the"
        " results file of the run, under `pinnace.notices`: `severity` (`error` or `warning`), `code`,"
        " `message`, `namespace` and `facts`, which are what the message says, such as `object`, `user` or"
        " `quota`. Velero's own lists of texts are beside it, unchanged. `describe -o json` has the same, and"
        " the metric `pinnace_notices_total` counts them. Some of the doctor's codes are on"
        " [a page of their own](doctor.md).",
        "",
    ]
    for code in sorted({*Code} - {*DOCTOR_CODES} | SHARED):
        lines += [f"## {code}", "", EXPLANATIONS[code].meaning]
        if advice := EXPLANATIONS[code].advice:
            shown = re.sub(r"\{(\w+)\}", r"`<\1>`", advice)
            lines += ["", f"What to do: {shown}"]
        lines.append("")
    return "\n".join(lines)


def environment() -> str:
    """Each environment variable that Pinnace reads or sets."""
    lines = ["# Environment variables", "", _NOTE]
    lines += ["A flag goes before the config file (`pinnace client config`), and that before a variable.", ""]
    lines += ["| variable | meaning |", "| --- | --- |"]
    lines += [f"| `{name}` | {text} |" for name, text in ENVIRONMENT.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the files; with `--check`, only report those that are out of date."""
    files = {SHORT_HELP: short_help(), **{FOLDER / name: text for name, text in pages().items()}}
    outdated = [path for path, text in files.items() if not path.is_file() or path.read_text() != text]
    if "--check" not in sys.argv[1:]:
        for path in outdated:
            path.write_text(files[path])
        return 0
    for path in outdated:
        print(f"{path.relative_to(ROOT)} is out of date: run `make reference`", file=sys.stderr)
    return 1 if outdated else 0


if __name__ == "__main__":
    raise SystemExit(main())
