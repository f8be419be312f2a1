"""Command lines: order, flags, and what must never be in them."""

from pathlib import Path

import pytest

from pinnace.volumes.restic import commands
from pinnace.volumes.restic.commands import OpenedRepository, command_line, shown_line
from pinnace.volumes.uploader.errors import InvalidSnapshot
from pinnace.volumes.uploader.processes import Arguments

COMMAND = ("cmd", "a1", "a2", "--foo=bar")
FILES = OpenedRepository(identifier="repo-id", password_file=Path("/private/password"))


@pytest.mark.spec("PVL-018")
def test_order_of_the_arguments() -> None:
    assert command_line(COMMAND, FILES) == [
        *("restic", "cmd", "--repo=repo-id", "--password-file=/private/password", "a1", "a2", "--foo=bar")
    ]


@pytest.mark.spec("PVL-019")
def test_certificate_and_cache_stand_before_the_arguments() -> None:
    files = OpenedRepository(
        identifier="repo-id",
        password_file=Path("/private/password"),
        ca_file=Path("/private/ca.pem"),
        cache_directory=Path("/foo/.cache/restic"),
    )

    assert command_line(COMMAND, files)[3:6] == [
        "--password-file=/private/password",
        "--cacert=/private/ca.pem",
        "--cache-dir=/foo/.cache/restic",
    ]


@pytest.mark.spec("PVL-020")
def test_the_arguments_of_a_backup() -> None:
    command = commands.backup({"foo": "bar", "c": "d"})

    assert command == ("backup", ".", "--tag=c=d", "--tag=foo=bar", "--host=velero", "--json")
    assert commands.backup({}, parent="0a1b2c3d")[-1] == "--parent=0a1b2c3d"
    assert commands.backup({}, reads_all=True)[-1] == "--force"


@pytest.mark.spec("PVL-021")
def test_finding_a_snapshot_asks_for_all_tags_at_once() -> None:
    command = commands.find_snapshot({"foo": "bar", "c": "d"})

    assert command == ("snapshots", "--json", "--last", "--tag=c=d,foo=bar")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (commands.stats("2fa3b4c5"), ["stats", "2fa3b4c5", "--json"]),
        (commands.restore("2fa3b4c5"), ["restore", "2fa3b4c5", "--target=."]),
        (
            commands.restore("2fa3b4c5", only="mount"),
            ["restore", "2fa3b4c5", "--target=.", "--include=/mount"],
        ),
        (commands.find_file("2fa3b4c5", "f"), ["ls", "2fa3b4c5", "/f", "--json"]),
        (commands.connect(), ["snapshots", "--last"]),
        (commands.init(version_flag=True), ["init", "--repository-version=1"]),
        (commands.init(version_flag=False), ["init"]),
        (commands.unlock(), ["unlock"]),
        (commands.prune(), ["prune"]),
        (commands.forget("2fa3b4c5"), ["forget", "2fa3b4c5"]),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_the_arguments_of_other_commands(command: Arguments, words: list[str]) -> None:
    assert [*command] == words


@pytest.mark.parametrize("hostile", ["--password-command=x", "latest", "", "2FA3", "2fa3 --x", "2fa3\n"])
def test_a_text_that_is_no_snapshot_id_is_refused(hostile: str) -> None:
    for build in (commands.stats, commands.restore, commands.forget):
        with pytest.raises(InvalidSnapshot):
            build(hostile)
    if hostile:
        with pytest.raises(InvalidSnapshot):
            commands.backup({}, parent=hostile)


def test_credentials_in_the_identifier_are_in_no_argument_and_no_message() -> None:
    files = OpenedRepository(
        identifier="rest:https://me:secret@host/x", password_file=Path("/private/password")
    )

    assert "secret" not in " ".join(command_line(COMMAND, files))
    assert "secret" not in shown_line(COMMAND, files)


def test_messages_name_private_files_without_their_random_folder() -> None:
    assert shown_line(COMMAND, FILES) == "restic cmd --repo=repo-id --password-file=password a1 a2 --foo=bar"


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("restic 0.12.0 compiled with go1.15.8 on linux/amd64", False),
        ("restic 0.13.1 compiled with go1.18", False),
        ("restic 0.14.0 compiled with go1.19", True),
        ("restic 0.18.1-dev (compiled manually) compiled with go1.24", True),
        ("restic 1.0.0", True),
        ("something else", True),
    ],
)
def test_versions_that_choose_the_format_get_the_flag(text: str, known: bool) -> None:
    assert commands.knows_repository_version(text) is known
