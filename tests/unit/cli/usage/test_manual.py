"""Manual pages: one for each command and topic, which man programs read without a complaint."""

import contextlib
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pinnace.cli.main import run
from pinnace.cli.program import cli
from pinnace.cli.usage.manual import manual_pages
from pinnace.cli.usage.topics import TOPICS
from tests.support.commands import EXAMPLES

PAGES = manual_pages(cli, "1.2.3", "2026-11-22")
MACROS = {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".BR", ".RS", ".RE", ".nf", ".fi"}


def test_each_command_and_topic_has_a_page() -> None:
    processes = {"node-agent"}  # has a page, too
    for path in {*EXAMPLES, "backup", "client config", *processes}:
        assert f"pinnace-{path.replace(' ', '-')}.1" in PAGES
    assert {f"pinnace-{topic}.7" for topic in TOPICS} <= PAGES.keys()
    assert "pinnace.1" in PAGES
    unlisted = ("restore-helper", "hold-volume", "repo-maintenance", "compare-files")
    assert not any(word in name for name in PAGES for word in unlisted)


def test_a_page_has_the_text_of_the_help() -> None:
    page = PAGES["pinnace-backup-create.1"]
    assert page.startswith('.TH PINNACE\\-BACKUP\\-CREATE 1 "2026-11-22" "pinnace v1.2.3" "Pinnace Manual"\n')
    assert ".SH NAME\npinnace\\-backup\\-create \\- Create a backup\n" in page
    assert ".B \\-\\-ttl DURATION\nHow long to keep the backup; if not given as the server says" in page
    assert "pinnace backup create shop \\-\\-include\\-namespaces shop \\-\\-ttl 30d" in page
    assert "kubeconfig" not in page.partition(".SH EXAMPLES")[0]
    assert ".B \\-\\-kubeconfig FILE" in PAGES["pinnace.1"]
    assert ".BR pinnace\\-backup\\-create (1)\nCreate a backup." in PAGES["pinnace-backup.1"]


@pytest.mark.parametrize("name", PAGES)
def test_requests_and_escapes_in_texts_are_escaped(name: str) -> None:
    for line in PAGES[name].splitlines():
        assert line[:1] != "'"
        if line.startswith("."):
            assert line.split()[0] in MACROS
        assert not re.search(r"\\(?![-e&])", line)


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is missing: apt-get install mandoc")
def test_mandoc_accepts_all_pages(tmp_path: Path) -> None:
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text)
    checked = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *PAGES],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (checked.stdout + checked.stderr, checked.returncode) == ("", 0)


@pytest.mark.skipif(shutil.which("man") is None, reason="man is missing: apt-get install man-db")
def test_man_renders_a_page(tmp_path: Path) -> None:
    page = tmp_path / "pinnace-restore-create.1"
    page.write_text(PAGES[page.name])
    shown = subprocess.run(
        ["man", "-l", str(page)],
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MANPAGER": "cat", "MANWIDTH": "80"},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "pinnace restore create --from-backup shop --dry-run" in re.sub(r".\x08", "", shown.stdout)
    assert shown.stderr == ""


def test_the_command_prints_a_page_and_writes_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    for words, start in (
        (["man"], ".TH PINNACE 1 "),
        (["man", "get", "backups"], ".TH PINNACE\\-BACKUP\\-GET 1 "),
        (["man", "hooks"], ".TH PINNACE\\-HOOKS 7 "),
    ):
        assert run(words) == 0
        assert capsys.readouterr().out.startswith(f'{start}"1970-01-02" ')
    assert run(["man", "--write", str(tmp_path / "man")]) == 0
    written = {path.name for path in (tmp_path / "man").rglob("*.[17]")}
    assert written == PAGES.keys()
    assert capsys.readouterr().out == f"Wrote {len(PAGES)} pages to {tmp_path / 'man'}.\n"


@pytest.mark.found("op-114")
@pytest.mark.parametrize(
    ("words", "text", "path"),
    [
        ("backup get", "--sort-by FIELD", "/usr/bin:/bin"),
        ("hooks", "backup.velero.io", "/usr/bin:/bin"),
        ("backup get", "Usage: pinnace backup get", "/nowhere"),
    ],
    ids=["a command", "a topic", "without a program for pages"],
)
def test_a_terminal_shows_a_page_laid_out(words: str, text: str, path: str, tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pinnace.cli.main", "man", *words.split()],
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
        env={"PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8", "MANPAGER": "cat", "PAGER": "cat",
             "MANWIDTH": "200"},
    )  # fmt: skip
    os.close(terminal)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal is closed
        while block := os.read(controller, 1 << 16):
            shown += block
    os.close(controller)

    assert process.wait(timeout=60) == 0
    page = re.sub(r".\x08|\x1b\[[0-9;]*m", "", shown.decode())
    assert text in page
    assert ".SH" not in page


@pytest.mark.found("op-115")
@pytest.mark.parametrize("installed", [True, False])
def test_pages_are_installed_where_man_finds_them(
    installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "venv" / "bin" / "pinnace"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(program.parent if installed else tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    assert run(["man", "--install"]) == 0

    folder = tmp_path / ("venv/share/man" if installed else "home/.local/share/man")
    assert {path.name for path in folder.rglob("*.[17]")} == PAGES.keys()
    assert f"pages to {folder}.\n" in capsys.readouterr().out


def test_unknown_pages_and_unwritable_folders_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    for words, text in (
        (["man", "nothing"], "there is no manual page of 'nothing'"),
        (["man", "backup", "--write", str(tmp_path)], "--write writes all pages: leave out the command"),
        (["man", "backup", "--install"], "--install writes all pages: leave out the command"),
        (["man", "--install", "--write", "x"], "give either --install or --write FOLDER"),
        (["man", "--write", str(tmp_path / "file")], "cannot write the manual pages: "),
    ):
        assert run(words) == 1
        assert text in capsys.readouterr().err
