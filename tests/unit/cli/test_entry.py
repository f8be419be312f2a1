"""The entry point: what is loaded for what, interruption while loading, and errors that nobody foresaw."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pinnace import __version__
from pinnace.cli import program
from pinnace.cli.declaring.global_flags import GlobalFlags
from pinnace.cli.main import run
from pinnace.cli.settings import resolve_settings
from tests.support.commands import EXAMPLES
from tests.support.stores.indexed_backups import config_map, store

HEAVY = ("aiohttp", "msgspec", "yaml", "obstore", "prometheus_client", "orjson", "asyncio", "ssl")


def python(code: str, *words: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        check=False,
    )


@pytest.mark.parametrize("words", [["--help"], ["version", "--client-only"], ["backup", "create", "--help"]])
def test_the_quick_commands_load_nothing_heavy(tmp_path: Path, words: list[str]) -> None:
    code = f"""
import sys
from pinnace.cli.main import run
code = run(sys.argv[1:])
print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)
"""
    ran = python(code, *words, home=tmp_path)

    assert ran.stdout != ""
    assert ran.stderr == "[]\n"


WORKS_ITSELF = {
    **dict.fromkeys(
        ["backup ls", "backup show", "backup search", "backup diff", "history"], "reads archives"
    ),
    **dict.fromkeys(["backup index", "backup verify"], "reads archives"),
    **dict.fromkeys(["install", "uninstall"], "knows the objects and defaults of a server"),
    **dict.fromkeys(["doctor", "debug"], "looks at everything that there is"),
    **dict.fromkeys(["server", "node-agent", "nonadmin server"], "is a server"),
    **dict.fromkeys(
        ["completion", "client config get", "client config set", "help", "man", "explain", "bug"], "is local"
    ),
    "backup-location create": "checks the settings of the store",
    "backup explain-filters": "follows the rules of the engine",
    "restore create": "its first example is a preview, which runs the engine",
    "version": "has an answer without a server",
    "notify test": "sends messages itself",
    "repo change-password": "runs restic and kopia",
    "backup-location rekey": "wraps keys itself",
}
"""Commands whose first example does more than to ask a server, with the reason; all others only ask."""
ENGINES = (
    "archive backup browse clouds context controllers csi hooks operations plugins restore server volumes"
)
LIBRARIES = (
    "aiohttp botocore cryptography email google grpc http.client isal prometheus_client tempfile urllib3 yaml"
)
"""Each takes longer to load than a command that asks a server may take, or is of no use to it."""
MOST_MODULES = 350
"""Of the largest such command, `schedule run --wait`, which reads windows and waits for a backup; with those
of Python and of libraries, which are two more or fewer by how they are installed."""
MOST_OF_GET = 315
"""The same of `get` of an administrator's nouns: what makes a Backup or a location is not among them."""


def test_every_command_that_asks_a_server_loads_what_it_runs(tmp_path: Path) -> None:
    """No engine, store, archive or plugin: loading them took three quarters of the time of `backup create`.

    Each command has a process of its own, in which what all of them need is loaded already. They run side by
    side, as each waits for the server a while before it gives up.
    """
    examples = {path: of[0][1] for path, of in EXAMPLES.items() if path not in WORKS_ITSELF}
    lines = [*examples.values(), "pinnace restore create r --from-backup b"]
    code = """
import json, os, sys
import pinnace.client.server, pinnace.cli.program
from pinnace.cli.main import run
lines, unused, most, most_of_get = json.loads(sys.argv[1])
for line, words in lines.items():
    if not os.fork():
        code = run(words)
        limit = most_of_get if words[1] == "get" else most
        few = len(sys.modules) <= limit or len(sys.modules)
        answer = f"|{line}|{code}|{sorted(sys.modules.keys() & unused)}|{few}"
        os.write(1, f"\\n{answer}\\n".encode())
        os._exit(0)
for _ in lines:
    os.wait()
"""
    kubeconfig = tmp_path / ".kube/config"
    kubeconfig.parent.mkdir()
    kubeconfig.write_text(yaml.safe_dump(NO_CLUSTER))
    unused = [*LIBRARIES.split(), *(f"pinnace.{room}" for room in ENGINES.split())]
    words = {line: shlex.split(line)[1:] for line in lines}

    ran = python(code, json.dumps([words, unused, MOST_MODULES, MOST_OF_GET]), home=tmp_path)

    answers = [line for line in ran.stdout.splitlines() if line.startswith("|")]
    assert sorted(answers) == sorted(f"|{line}|1|[]|True" for line in lines), ran.stderr
    assert ran.stderr.count("Connection refused") == len(lines)


OF_A_FOLDER = (
    "backup get",
    "backup describe old",
    "backup logs old",
    "backup download old -o {location}/copy.tar.gz",
    "backup ls old",
    "backup show old configmap/a",
    "backup search old a",
    "backup diff old new",
    "history configmap/a",
    "restore get",
)
OF_CLUSTERS_AND_CLOUDS = "aiohttp botocore cryptography google grpc pycurl urllib3 pinnace.kube.client"


def test_every_command_that_reads_a_folder_loads_no_library_for_clusters_and_clouds(tmp_path: Path) -> None:
    store(tmp_path, "old", [config_map("a", value="1")])
    store(tmp_path, "new", [config_map("a", value="2")])
    code = """
import json, os, sys
from pinnace.cli.main import run
for line in json.loads(sys.argv[1]):
    if not os.fork():
        run(line.split())
        sys.stdout.flush()
        os.write(1, f"\\n|{line}|{sorted(sys.modules.keys() & set(sys.argv[2].split()))}\\n".encode())
        os._exit(0)
    os.wait()
"""
    lines = [f"--location {tmp_path} {line.format(location=tmp_path)}" for line in OF_A_FOLDER]

    ran = python(code, json.dumps(lines), OF_CLUSTERS_AND_CLOUDS, home=tmp_path)

    answers = [line for line in ran.stdout.splitlines() if line.startswith("|")]
    assert answers == [f"|{line}|[]" for line in lines], ran.stderr
    assert ran.stderr.count("An error occurred") == 1  # these backups have no log


NO_CLUSTER = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
    "users": [{"name": "u", "user": {}}],
    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "x",
}


@pytest.mark.parametrize(
    "modules",
    [
        ("pinnace.cli.backup.creating", "pinnace.cli.backup.local"),
        ("pinnace.client.server",),
        ("pinnace.client.signed_files", "pinnace.storage.encoding"),
    ],
    ids=["a backup into a folder", "objects of a server", "a file of a server"],
)
def test_commands_that_send_no_http_requests_of_their_own_load_no_library_for_it(
    tmp_path: Path, modules: tuple[str, ...]
) -> None:
    libraries = {"aiohttp", "botocore", "google.auth", "grpc", "urllib3"}
    code = f"import sys, {', '.join(modules)}; print(sorted({libraries!r} & set(sys.modules)))"

    ran = python(code, home=tmp_path)

    assert (ran.stdout, ran.stderr) == ("[]\n", "")


INTERRUPTED_WHILE_LOADING = """
import sys

class Interruption:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interruption())
from pinnace.cli.main import main
sys.argv = ["pinnace", "backup", "get"]
main()
"""


@pytest.mark.parametrize(
    "module", ["pinnace.cli.program", "click", "pinnace.cli.backup.commands", "pinnace.kube.errors"]
)
def test_an_interruption_while_loading_causes_no_traceback(tmp_path: Path, module: str) -> None:
    code = INTERRUPTED_WHILE_LOADING.replace("sys.argv[1]", repr(module))
    ran = python(code, home=tmp_path)

    assert (ran.returncode, ran.stdout, ran.stderr.strip()) == (130, "", "")


def test_the_entry_point_itself_loads_nothing(tmp_path: Path) -> None:
    code = "import sys; before = set(sys.modules); import pinnace.cli.main; print(set(sys.modules) - before)"
    ran = python(code, home=tmp_path)

    assert eval(ran.stdout) == {"pinnace", "pinnace.cli", "pinnace.cli.main"}


CLOSED = """
import os, sys
from pinnace.cli import main, program

def command(_words):
    opened = os.open("/", os.O_RDONLY)
    sys.stdout.buffer.write(b"text\\n")
    sys.stderr.write(f"{sys.stdin.read()!r} {opened > 2}\\n")
    return 0

program.run = command
sys.argv = ["pinnace"]
main.main()
"""


@pytest.mark.parametrize(
    ("closed", "out", "err"),
    [
        ("", "text", "'' True"),
        (">&-", "", "'' True"),
        ("2>&-", "text", ""),
        ("<&-", "text", "'' True"),
        ("<&- >&- 2>&-", "", ""),
    ],
)
def test_a_closed_stream_is_not_replaced_by_the_next_opened_file(
    tmp_path: Path, closed: str, out: str, err: str
) -> None:
    ran = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", CLOSED],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env={"HOME": str(tmp_path)},
        check=False,
    )

    assert (ran.returncode, ran.stdout.strip(), ran.stderr.strip()) == (0, out, err)


WITHOUT_ROOM = """
from pinnace.cli.guard import complain
from pinnace.cli.local import say
say("the start of a run")
say("WARNING: one", err=True)
complain("An error occurred: two")
say("its end")
open("done", "w").close()
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_that_cannot_be_written_does_not_end_the_work(tmp_path: Path) -> None:
    """A scheduled job whose log lies on a full disk must still make its backup."""
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-c", WITHOUT_ROOM],
            stdout=full,
            stderr=full,
            timeout=60,
            env={"HOME": str(tmp_path)},
            cwd=tmp_path,
            check=False,
        )

    assert (tmp_path / "done").exists()
    assert ran.returncode == 0


@pytest.mark.found("CF12")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    ("words", "stream", "code", "errors"),
    [
        ("--help", "stdout", 1, 1),
        ("completion bash", "stdout", 1, 1),
        ("--location . backup diff a b", "stderr", 2, 0),
        ("--location . backup get", "stderr", 0, 0),
        ("backup create x -o yaml", "both", 1, 0),
        ("--location {location} backup diff old new", "stdout", 2, 1),
    ],
)
def test_a_full_disk_ends_with_a_documented_code_and_one_error(
    words: str, stream: str, code: int, errors: int, tmp_path: Path
) -> None:
    store(tmp_path, "old", [config_map("a", value="1")])
    store(tmp_path, "new", [config_map("a", value="2")])
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "pinnace.cli.main", *words.format(location=tmp_path).split()],
            stdout=full if stream in ("stdout", "both") else subprocess.PIPE,
            stderr=full if stream in ("stderr", "both") else subprocess.PIPE,
            text=True,
            timeout=60,
            env={"HOME": str(tmp_path)},
            cwd=tmp_path,
            check=False,
        )

    assert ran.returncode == code
    assert (
        ran.stderr is None
        or ran.stderr.splitlines() == ["An error occurred: No space left on device"] * errors
    )


LEAVING = """
import atexit, sys
from pinnace.cli.main import main
atexit.register(print, "last words")
sys.argv = ["pinnace", *sys.argv[1:]]
WORKER
main()
"""
A_THREAD = "import threading; threading.Timer(0.01, print, ['of a thread']).start()"


@pytest.mark.parametrize("worker", ["", A_THREAD], ids=["alone", "with a thread"])
def test_leaving_at_once_flushes_all_output(tmp_path: Path, worker: str) -> None:
    for words, code in ((["version", "--client-only"], 0), (["bakup"], 1)):
        ran = python(LEAVING.replace("WORKER", worker), *words, home=tmp_path)

        assert ran.returncode == code
        assert ("Version: v" in ran.stdout) == (code == 0)
        assert ("of a thread" in ran.stdout) == bool(worker)
        assert ran.stdout.endswith("last words\n")


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def main(*_words: Any, **_options: Any) -> int:
        raise error

    monkeypatch.setattr(program.cli, "main", main)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("first line\nsecond line with password=hunter2"),
        ExceptionGroup("tasks", [ExceptionGroup("inner", [RuntimeError("first line second line")])]),
    ],
    ids=["an error", "a group"],
)
def test_a_defect_is_reported_in_one_line_with_the_command_to_report_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    failing(monkeypatch, error)

    assert run(["backup", "get"]) == 1

    shown = capsys.readouterr()
    what, where = shown.err.splitlines()
    assert shown.out == ""
    assert what.startswith("An error occurred: this should not happen: RuntimeError: first line second line")
    assert "hunter2" not in what
    assert where.startswith("Please report it: `pinnace bug` prints the text to fill in")


def test_the_traceback_of_a_defect_is_shown_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, RuntimeError("x"))
    monkeypatch.setenv("PINNACE_TRACEBACK", "1")

    assert run(["backup", "get"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("/usr/bin/velero", "velero"),
        ("pinnace", "pinnace"),
        ("/x/pinnace/cli/main.py", "pinnace"),
        ("", "pinnace"),
    ],
)
def test_hints_and_examples_call_the_program_as_the_user_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, called: str, name: str
) -> None:
    monkeypatch.setattr(sys, "argv", [called, "schedule", "create", "--help"])
    assert run() == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: {name} schedule create [OPTIONS] NAME")
    assert f"\n  {name} schedule create daily --schedule " in shown
    monkeypatch.setattr(sys, "argv", [called, "bakup"])
    assert run() == 1
    assert f'unknown command "bakup" for "{name}"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "what", "where"),
    [
        (["backup", "create", "--bogus"], "unknown flag: --bogus", "pinnace backup create"),
        (["version", "-x"], "unknown shorthand flag: 'x' in -x", "pinnace version"),
        (["backup", "create", "--ttl"], "flag needs an argument: --ttl", "pinnace backup create"),
        (["bakup"], 'unknown command "bakup" for "pinnace"; did you mean backup?', "pinnace"),
    ],
)
def test_a_wrong_word_is_reported_in_one_line_with_the_help_command(
    capsys: pytest.CaptureFixture[str], words: list[str], what: str, where: str
) -> None:
    assert run(words) == 1

    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == f"An error occurred: {what}\nRun `{where} --help` for usage.\n"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_the_version_as_data(capsys: pytest.CaptureFixture[str], form: str) -> None:
    assert run(["version", "--client-only", "-o", form]) == 0

    assert yaml.safe_load(capsys.readouterr().out) == {"clientVersion": {"version": f"v{__version__}"}}


def test_a_character_that_the_terminal_lacks_is_escaped(tmp_path: Path) -> None:
    code = """
import sys
from pinnace.cli.debug import bug as bug_report
from pinnace.cli.main import run
bug_report._kubectl_version = lambda: "\u26f5"
sys.exit(run(["bug"]))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        timeout=60,
        env={"HOME": str(tmp_path), "PYTHONIOENCODING": "latin-1"},
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"- kubectl: \\u26f5\n" in ran.stdout


@pytest.mark.parametrize("words", [["--help"], ["bug"], ["backup", "create", "b", "-o", "yaml"]])
def test_a_reader_that_is_gone_causes_no_traceback(tmp_path: Path, words: list[str]) -> None:
    code = "import sys; from pinnace.cli.main import main; sys.argv[0] = 'pinnace'; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"HOME": str(tmp_path), "PATH": ""},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read().decode()

    assert process.wait(timeout=60) == 1
    assert errors.replace("WARNING: can't get kubectl version: kubectl is not in PATH\n", "") == ""


@pytest.mark.spec("CLI-002", "SRV-005")
def test_the_config_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / ".config/velero/config.json"
    path.parent.mkdir(parents=True)

    def settings(text: str) -> Any:
        path.write_text(text)
        return resolve_settings(GlobalFlags(), environ={})

    named = settings(json.dumps({"namespace": "foo", "features": "feature1,feature2", "other": 1}))
    assert (named.namespace, named.features) == ("foo", {"feature1", "feature2"})
    # No word about colour: only a terminal gets it, and this is none. (docs/spec: CLI 1.6)
    assert not named.colour
    shown = {"false": False, "0": False, "true": True, "maybe": True, "": True}
    assert {text: settings(json.dumps({"colorized": text})).colour for text in shown} == shown
    assert settings(json.dumps({"colorized": 0})).colour
    assert settings(json.dumps({"features": ""})).features == frozenset()
    assert capsys.readouterr().err == ""

    for broken in ("{", "[]"):
        assert settings(broken).namespace == "velero"
        assert capsys.readouterr().err.startswith("WARNING: Error reading config file: ")
    assert run(["backup", "create", "b", "-o", "name", "--dry-run=client"]) == 0
    out, err = capsys.readouterr()
    assert (out, err.count("WARNING")) == ("backup.velero.io/b\n", 1)
